"""The record of a run: files written atomically, and read with every digest checked. It imports no torch and no pandas.

STUDY/study.json                      the plan
STUDY/tuning/trials.txt, RUN/...      the trials of a tuning, which no report uses
STUDY/RUN/config.json                 the configuration
STUDY/RUN/metrics.csv                 one row per epoch
STUDY/RUN/checkpoint.safetensors      the final weights
STUDY/RUN/test_predictions.npz        the prediction for each test image, of finished runs: see `predictions`
STUDY/RUN/plugin/, data_plugin/       the source of the run's plug-in, an embedding or a dataset: see `provenance`
STUDY/RUN/uncommitted.diff            changes of this project since its commit when the run began, if any
STUDY/RUN/error.txt                   the traceback of its last failed attempt, until one succeeds
STUDY/RUN/summary.json                written last, by rename: a run has ended if and only if it exists
"""

import contextlib
import csv
import hashlib
import io
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat, ValidationError, create_model

from experiments import files
from experiments.compared import RunSpec
from experiments.errors import first_line
from experiments.files import RecordError, canonical, finite, read_json, reading, write_json
from experiments.metric import LARGEST, is_metric

SCHEMA = 1
CONFIG, METRICS, SUMMARY = "config.json", "metrics.csv", "summary.json"
CHECKPOINT, PREDICTIONS = "checkpoint.safetensors", "test_predictions.npz"
PLUGIN, DATA_PLUGIN, DIFF = "plugin", "data_plugin", "uncommitted.diff"
ERROR = "error.txt"
TRIALS = "trials.txt"  # marks a folder whose runs are trials of a tuning and belong to no comparison
STATUSES = ("finished", "diverged", "pruned")


def _check_relative(name: str) -> str:
    if not name.isprintable() or {"", ".", ".."} & {*name.split("/")}:
        raise ValueError(f"{name!r} is not allowed: expected a name inside the folder of the run")
    return name


def _part(needed: Mapping[str, Any], **others: Any) -> type[BaseModel]:
    """The types of a part of a record, which other versions may have with other fields, or without `others`."""
    fields: dict[str, Any] = {
        **{name: (kind, ...) for name, kind in needed.items()},
        **{n: (kind | None, None) for n, kind in others.items()},
    }
    return create_model("_Part", __config__=ConfigDict(extra="allow", strict=True), **fields)


_NUMBERS, _PLUGIN = list[FiniteFloat], _part({"modules": str}, digest=str)
_DATA = _part({}, files=str, classes=list[str], mean=_NUMBERS, std=_NUMBERS, copies=dict[str, int])
_HARDWARE = dict[str, Any]
_SESSION: Any = _part({}, hardware=_HARDWARE)
_ORIGIN = {"commit": str, "hardware": _HARDWARE, "versions": _HARDWARE, "sessions": list[_SESSION], "plugin": _PLUGIN}
SUMMARY_TYPES = _part(
    {"run_id": str, "files": dict[Annotated[str, AfterValidator(_check_relative)], str]},
    **{"epochs": Annotated[int, Field(ge=0, le=10**9)], "data": _DATA, "provenance": _part({}, **_ORIGIN)},
    cost=dict[str, Any],
)
_SETTINGS = _part(
    {"seed": int, "data": _part({"name": str}), "model": _part({"pos_embed": str}), "optim": dict, "train": dict}
)


@dataclass(frozen=True)
class RunRecord:
    """The record of one finished run. `rows` are the epochs in order; `summary` is what `write_summary` wrote."""

    name: str
    dir: Path
    config: dict[str, Any]
    rows: list[dict[str, float]]
    summary: dict[str, Any]


def metrics_csv(rows: Iterable[Mapping[str, float]]) -> str:
    """The rows as CSV. Floats are written by repr, so that reading gives the same bits."""
    rows, text = list(rows), io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else ["epoch"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def write_summary(run_dir: Path, summary: Mapping[str, Any]) -> dict[str, Any]:
    """Write the summary with the digests of the run's files and of itself. Returns what was written."""
    run_dir = Path(run_dir)
    optional = [PREDICTIONS] if (run_dir / PREDICTIONS).is_file() else []
    names = (CONFIG, METRICS, CHECKPOINT, *optional, *_sources(run_dir))
    digests = {name: _sha256(run_dir / name) for name in names}
    sealed = finite({"schema": SCHEMA, **summary, "files": digests})
    sealed["digest"] = hashlib.sha256(canonical(sealed)).hexdigest()
    write_json(run_dir / SUMMARY, sealed)
    return sealed


def _sources(run_dir: Path) -> list[str]:
    """The names of the files that hold uncommitted changes of this project, and of the source of the run's plug-in.

    Raises `UserError` for a link, which may lead to a file of the user.
    """
    patterns = (DIFF, f"{PLUGIN}/**/*.py", f"{DATA_PLUGIN}/**/*.py")
    paths = (path for pattern in patterns for path in sorted(run_dir.glob(pattern)) if path.is_file())
    return [name for path in paths if files.check_own(run_dir, name := path.relative_to(run_dir).as_posix())]


def has_ended(run_dir: Path) -> bool:
    """Whether the run has ended (finished, diverged or pruned): its summary is there. Raises `RecordError`."""
    path = Path(run_dir) / SUMMARY
    with reading(path.parent):
        return path.exists()


def read_ended(study_dir: Path, run: RunSpec) -> dict[str, Any] | None:
    """The summary of a run of a study; None where the run has not ended. Raises `RecordError`; see `read_run`."""
    folder = Path(study_dir) / run.name
    with advising():
        return read_run(folder, run_id=run.run_id).summary if has_ended(folder) else None


@contextlib.contextmanager
def advising(otherwise: str = "") -> Iterator[None]:
    """Where the body meets a run's record that cannot be used, add to the `RecordError` what to do, or `otherwise`."""
    try:
        yield
    except RecordError as error:
        raise RecordError(f"{error}; move the run's folder away and train the run again{otherwise}") from error


def read_run(
    run_dir: Path, checkpoint: bool = False, predictions: bool = False, run_id: str | None = None
) -> RunRecord:
    """Read a finished run, and check that its files have not changed since its summary was written.

    `run_id`: see `read_summary`. `checkpoint`: also check the digest of the checkpoint, which is a large file.
    `predictions`: also check that of the test predictions, where the run has them. Raises `RecordError` naming the file
    that is missing, unreadable or changed.
    """
    run_dir = Path(run_dir)
    summary = read_summary(run_dir, run_id)
    always = (CONFIG, METRICS, *((CHECKPOINT,) if checkpoint else ()))
    large = (CHECKPOINT, *(() if predictions else (PREDICTIONS,)))  # predictions: not every record has them
    for name in dict.fromkeys((*always, *(name for name in summary["files"] if name not in large))):
        if _sha256(run_dir / name) != summary["files"].get(name):
            raise RecordError(f"{run_dir / name}: does not match the digest in {SUMMARY}; it was changed after the run")
    return RunRecord(run_dir.name, run_dir, read_config(run_dir), read_rows(run_dir / METRICS), summary)


def read_config(run_dir: Path) -> dict[str, Any]:
    """The configuration of a run, which may be of another version. Raises `RecordError` where it lacks a section."""
    return checked(_SETTINGS, read_json(run_dir / CONFIG), run_dir / CONFIG)


def checked(part: type[BaseModel], tree: dict[str, Any], path: Path) -> dict[str, Any]:
    """A file's content, if its types are possible: a digest shows only that nothing was changed."""
    try:
        part.model_validate(tree)
    except ValidationError as error:
        raise RecordError(f"{path}: {first_line(error)}") from error
    for name, value in tree.items():
        if value is not None and is_metric(name) and not (type(value) in (int, float) and abs(value) <= LARGEST):
            raise RecordError(f"{path}: {name}: {str(value)[:60]!r} is not allowed: expected a number")
    return tree


def read_summary(run_dir: Path, run_id: str | None = None) -> dict[str, Any]:
    """Read the summary only, and check its digest, and that it is of the run with this id. Raises `RecordError`.

    `run_id`: None for a folder that may hold any run.
    """
    path = Path(run_dir) / SUMMARY
    summary = read_json(path)
    body = {key: value for key, value in summary.items() if key != "digest"}
    if summary.get("digest") != hashlib.sha256(canonical(body)).hexdigest():
        raise RecordError(f"{path}: does not match its own digest; it was changed after the run")
    if summary.get("schema") != SCHEMA or summary.get("status") not in STATUSES:
        raise RecordError(f"{path}: unknown schema or status: {summary.get('schema')!r}, {summary.get('status')!r}")
    checked(SUMMARY_TYPES, summary, path)
    if run_id not in (None, summary["run_id"]):
        raise RecordError(f"{path}: belongs to run {summary['run_id']}, not {run_id}; its folder was renamed or copied")
    return summary


def read_bytes(path: Path, digest: str) -> bytes:
    """The content of a file of a run. Raises `RecordError` where it does not have this SHA-256."""
    body = files.read_bytes(path)
    if hashlib.sha256(body).hexdigest() != digest:
        raise RecordError(f"{path}: does not match the digest in {SUMMARY}; it was changed after the run")
    return body


def read_rows(path: Path) -> list[dict[str, float]]:
    """The epochs in a metrics file. Raises `RecordError`."""
    try:
        lines = csv.reader(io.StringIO(files.read_bytes(path).decode(), newline=""))
        header = next(lines, [])
        if taken := {"run", "variant", "seed"} & {*header}:
            raise ValueError(f"{min(taken)} is no metric")
        rows = [dict(zip(header, map(float, row), strict=True)) for row in lines if row]
        if [row["epoch"] for row in rows] != sorted({row["epoch"] for row in rows} - {math.inf}):
            raise ValueError("its epochs do not rise")
    except (ValueError, KeyError, TypeError, AttributeError, csv.Error) as error:
        raise RecordError(f"{path}: is not a table of numbers: {error}") from error
    return rows


def _sha256(path: Path) -> str:
    with reading(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
