"""Exports of studies (`vit-report export`): their files, and the runs that a study takes from them as they are.

It imports no torch and no pandas.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from experiments.compared import Compared
from experiments.config import SETTINGS, RunConfig, flatten, override, run_id, unplaced
from experiments.errors import UserError, first_few, first_line, plural
from experiments.files import RecordError, read_bytes, read_json
from experiments.metric import is_metric
from experiments.runs.history import Look
from experiments.sections import EvalConfig
from experiments.study import REFERENCE, STUDY, Reuse, Study
from vit.registry import nearest

RUNS, CURVES, PLUGINS = "runs.csv", "curves.csv", "plugins.json"
FILES = (RUNS, CURVES, PLUGINS, STUDY)


class Export(BaseModel, frozen=True, extra="forbid"):
    """What an export adds to the study. `troubles`: run -> why its record is excluded."""

    troubles: dict[str, str] = {}
    looks: tuple[Look, ...] = ()


def is_export(folder: Path) -> bool:
    """Whether the folder holds an exported study: its study.json says so."""
    return (folder / STUDY).is_file() and read_json(folder / STUDY).get("export") is not None


def read_compared(folder: Path) -> tuple[Compared, Export]:
    """The study or the table of an export, and what it adds. Raises `RecordError` naming the field that is wrong."""
    tree = read_json(folder / STUDY)
    try:
        extra = Export.model_validate(tree.pop("export", None))
    except ValidationError as error:
        raise RecordError(f"{folder / STUDY}: export.{first_line(error)}") from error
    kind = Compared if tree.get("source") else Study
    return kind.parse(tree, str(folder / STUDY)), extra


def cells(body: bytes) -> list[list[str]]:
    """The rows of a table, the head first. Raises `UnicodeDecodeError` and `csv.Error`."""
    return list(csv.reader(io.StringIO(body.decode(), newline="")))


@dataclass(frozen=True)
class ReusedRun:
    """A run of a source. `config`: without `eval`. `summary`: what the export says of its results and images."""

    source: Reuse
    config: RunConfig
    summary: dict[str, Any]


ReusedRuns = dict[str, ReusedRun]
"""run id of the planned run -> the run"""


def find_source(name: str, where: Path) -> str:
    """The folder that a user names: a path that begins with `./`, `../` or `/` is relative to `where`; any other text
    is a study of analysis/reference, whatever lies beside the study. Raises `UserError` where there is none.
    """
    if name.startswith(("./", "../", "/")):
        if (path := where / name).is_dir():
            return str(path.resolve())
        raise UserError(f"reuse: {name!r} is no folder")
    study = Path(os.path.normpath(REFERENCE / name))
    if study.is_relative_to(REFERENCE) and (study / STUDY).is_file():
        return str(study)
    studies = [file.parent.relative_to(REFERENCE).as_posix() for file in sorted(REFERENCE.rglob(STUDY))]
    way = (
        f"{nearest(name, studies)}; or give a folder, ./{name}" if studies else "a clone of the project has that folder"
    )
    raise UserError(f"reuse: {name!r} is no study of analysis/reference; {way}")


def take(folders: Iterable[str]) -> list[Reuse]:
    """The exports in these folders as they are now. Raises `UserError` where one is none."""
    sources = []
    for folder in map(Path, folders):
        if not is_export(folder):
            raise UserError(f"reuse: {str(folder)!r} is no export; `vit-report export STUDY_DIR FOLDER` writes one")
        sources.append(Reuse(folder=str(folder), digest=hashlib.sha256(read_bytes(folder / RUNS)).hexdigest()))
    return sources


def merged(new: Sequence[Reuse], old: Sequence[Reuse]) -> list[Reuse]:
    """The sources that study.json states, which are `old`, and new ones. The same one may have moved."""
    for source in new:
        if any(source.folder == before.folder and source.digest != before.digest for before in old):
            raise _changed(source)
    return [*{source.digest: source for source in (*old, *new)}.values()]


def reused_runs(study: Study) -> ReusedRuns:
    """The runs of a study that have finished in its sources, with its metric; the first source that has one counts.

    How runs are measured beside the metric, in `eval`, may differ. Raises `RecordError` where a source is missing or
    another one than when the study took its runs.
    """
    runs, planned = ReusedRuns(), dict[str, str]()
    for label, variant in study.variants.items() if study.sources else ():
        with contextlib.suppress(UserError):  # of a plug-in, which a report does not import
            config = override(RunConfig(), study.settings(variant))
            of_variant = (run for run in study.runs if run.variant == label)
            planned |= {_key(config.model_copy(update={"seed": run.seed})): run.run_id for run in of_variant}
    for run in (run for source in study.sources for run in _finished(source)):
        key = run_id(run.config)
        if key in planned and study.metric in run.summary:
            runs.setdefault(planned[key], run)
    return runs


def counted(study: Study, runs: ReusedRuns) -> Iterator[str]:
    """A line for each source: how many of its runs the study takes; if none, in what its runs differ."""
    numbers = Counter(run.source for run in runs.values())
    for source in study.sources:
        why = "" if numbers[source] else f": {_difference(study, _finished(source))}"
        yield f"reused: {numbers[source]} of {plural(len(study.runs), 'run')} of {source.name}{why}"


def why_no_model(run_dir: Path) -> str:
    """Why a run without a folder has no checkpoint: its study reuses it; "" where it does not."""
    with contextlib.suppress(UserError):
        study = Study.read(run_dir.parent)
        ids = {run.name: run.run_id for run in study.runs}
        if run := reused_runs(study).get(ids.get(run_dir.name, "")):
            return f"is reused from {run.source.folder}, which has no checkpoint; train it"
    return ""


def _difference(study: Study, runs: Iterable[ReusedRun]) -> str:
    """In what the runs of a source differ from the planned one that is nearest."""
    theirs = [unplaced(dict(flatten(run.config.model_dump(exclude={"seed", "eval"})))) for run in runs]
    ours = [unplaced(dict(flatten(v.config.model_dump(exclude={"seed", "eval"})))) for v in study.variants.values()]
    pairs = ((planned, other) for planned in ours for other in theirs)
    paths = min(([path for path in a if a[path] != b.get(path)] for a, b in pairs), key=len, default=None)
    if paths is None:
        return "it has no finished run that this version can read"
    return f"it differs in {first_few(paths)}" if paths else f"it has other seeds, or no {study.metric}"


def _key(config: RunConfig) -> str:
    return run_id(config.model_copy(update={"eval": EvalConfig()}))


def _changed(source: Reuse) -> RecordError:
    way = "restore it, or choose another --out"
    return RecordError(f"reuse: {source.folder!r} is another one than when this study took runs of it; {way}")


def _finished(source: Reuse) -> list[ReusedRun]:
    """The finished runs of an export whose settings are those of their run id here."""
    path = Path(source.folder) / RUNS
    if not path.is_file():
        way = "restore it, or give its new place: vit-sweep run STUDY --reuse FOLDER"
        raise RecordError(f"reuse: {source.folder!r} is missing; {way}")
    body = read_bytes(path)
    if hashlib.sha256(body).hexdigest() != source.digest:
        raise _changed(source)
    return list(_rows(source, body))


def _rows(source: Reuse, body: bytes) -> Iterator[ReusedRun]:
    for row in csv.DictReader(body.decode(errors="replace").splitlines()):
        with contextlib.suppress(ValueError):  # settings that are not known here, such as those of a plug-in
            config = override(RunConfig(), {path: row[path] for path in SETTINGS if row.get(path)})
            if row.get("status") == "finished" and run_id(config) == row["run_id"]:
                metrics = {name: float(cell) for name, cell in row.items() if is_metric(name) and cell}
                data = {"files": row.get("image_files") or None}
                summary = {"run_id": row["run_id"], "status": "finished", "epochs": config.train.epochs, "data": data}
                yield ReusedRun(source, config.model_copy(update={"eval": EvalConfig()}), {**summary, **metrics})
