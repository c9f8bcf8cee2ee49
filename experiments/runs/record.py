"""The folder a run leaves behind: written atomically, read back with every digest checked. No torch, no pandas here.

STUDY/study.json                      what was planned
STUDY/RUN/config.json                 the configuration, plain
STUDY/RUN/metrics.csv                 one row an epoch
STUDY/RUN/checkpoint.safetensors      the final weights
STUDY/RUN/summary.json                written last, by rename: a folder is finished when, and only when, it is there
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.canonical import canonical, finite
from experiments.errors import UserError

SCHEMA = 1
STUDY, CONFIG, METRICS, SUMMARY, CHECKPOINT = (
    "study.json",
    "config.json",
    "metrics.csv",
    "summary.json",
    "checkpoint.safetensors",
)
EXPORT = "export"  # a key of study.json in an exported study: its runs are in tables beside it, without run folders
PART = ".part-"  # how a file's name begins while it is being written
METRIC_NAMES = ("train/loss", "train/acc", "val/loss", "val/acc", "test/loss", "test/acc")
STATUSES = ("finished", "diverged", "pruned")
COMPARISON = ("metric", "margin", "baseline", "seeds")  # what a study states before its runs


class RecordError(UserError):
    """A record that is missing, unreadable or not as it was written; the message names the file and the reason."""


@dataclass(frozen=True)
class Run:
    """One finished run, read back: `rows` are the epochs in order, `summary` what `write_summary` wrote."""

    name: str
    dir: Path
    config: dict[str, Any]
    rows: list[dict[str, float]]
    summary: dict[str, Any]


def write_bytes(path: Path, body: bytes, durable: bool = True) -> None:
    """Write a file so that a reader sees the old one or the new one, whole, whoever is killed when. Raises `RecordError`.

    `durable` waits for the disk, so that this holds across a power cut as well.
    """
    try:
        _replace(Path(path), body, durable)
    except OSError as error:
        raise RecordError(f"{path}: cannot be written: {error.strerror}") from error


def _replace(path: Path, body: bytes, durable: bool) -> None:
    temporary = path.parent / f"{PART}{secrets.token_hex(8)}"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(body)
            if durable:
                file.flush()
                os.fsync(handle)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """`write_bytes` for text, as UTF-8."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """`write_text` for a JSON value; a number that is not finite becomes null, which JSON can say."""
    write_text(path, json.dumps(finite(value), indent=1, ensure_ascii=False) + "\n")


def metrics_csv(rows: Iterable[Mapping[str, float]]) -> str:
    """The rows as CSV, floats by repr so that they read back bit for bit; the header is the first row's keys."""
    rows = list(rows)
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else ["epoch"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def write_summary(run_dir: Path, summary: Mapping[str, Any]) -> dict[str, Any]:
    """Seal a run: add the digests of its files and of the summary itself, and put it in place. Returns what was written."""
    run_dir = Path(run_dir)
    files = {name: _sha256(run_dir / name) for name in (CONFIG, METRICS, CHECKPOINT)}
    sealed = finite({"schema": SCHEMA, **summary, "files": files})
    sealed["digest"] = hashlib.sha256(canonical(sealed)).hexdigest()
    write_json(run_dir / SUMMARY, sealed)
    return sealed


def write_study(study_dir: Path, study: Mapping[str, Any]) -> None:
    """Write what a study plans; see `read_study`."""
    write_json(Path(study_dir) / STUDY, {"schema": SCHEMA, **study})


def read_study(study_dir: Path) -> dict[str, Any]:
    """The plan of a study: its factors, base, baseline, metric, margin, seeds and the list of its runs.

    Raises `RecordError` where the file is missing, is no JSON object or lacks one of those.
    """
    path = Path(study_dir) / STUDY
    study = _json(path)
    for key in ("name", "factors", "base", "baseline", "metric", "margin", "seeds", "runs"):
        if key not in study:
            raise RecordError(f"{path}: has no {key!r}")
    if study.get("schema") != SCHEMA:
        raise RecordError(f"{path}: schema {study.get('schema')!r}: not known here")
    return study


def read_comparison(study_dir: Path) -> dict[str, Any] | None:
    """The fields of `COMPARISON` as study.json states them now. None where there is no study.json."""
    if not (Path(study_dir) / STUDY).is_file():
        return None
    study = read_study(study_dir)
    return {key: study[key] for key in COMPARISON}


def is_finished(run_dir: Path) -> bool:
    """Whether the run has ended (finished, diverged or pruned): its summary is there. Raises `RecordError`."""
    path = Path(run_dir) / SUMMARY
    try:
        return path.is_file()
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from error


def read_run(run_dir: Path, checkpoint: bool = False) -> Run:
    """Read a finished run and check that nothing in it has changed since it was sealed.

    The checkpoint is large, so its digest is checked only when `checkpoint` is asked for.
    Raises `RecordError` naming the file that is missing, unreadable or altered.
    """
    run_dir = Path(run_dir)
    summary = read_summary(run_dir)
    for name in (CONFIG, METRICS, *((CHECKPOINT,) if checkpoint else ())):
        if _sha256(run_dir / name) != summary["files"].get(name):
            raise RecordError(f"{run_dir / name}: does not match the digest in {SUMMARY}; it was changed after the run")
    return Run(run_dir.name, run_dir, _json(run_dir / CONFIG), _rows(run_dir / METRICS), summary)


def read_summary(run_dir: Path) -> dict[str, Any]:
    """The summary alone, its own digest checked. Raises `RecordError`."""
    path = Path(run_dir) / SUMMARY
    summary = _json(path)
    body = {key: value for key, value in summary.items() if key != "digest"}
    if summary.get("digest") != hashlib.sha256(canonical(body)).hexdigest():
        raise RecordError(f"{path}: does not match its own digest; it was changed after the run")
    if summary.get("schema") != SCHEMA or summary.get("status") not in STATUSES:
        raise RecordError(f"{path}: schema {summary.get('schema')!r}, status {summary.get('status')!r}: not known here")
    return summary


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise RecordError(f"{path}: is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise RecordError(f"{path}: holds a JSON {type(value).__name__}, not an object")
    return value


def _rows(path: Path) -> list[dict[str, float]]:
    with path.open(newline="", encoding="utf-8") as file:
        try:
            return [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]
        except (ValueError, TypeError, AttributeError) as error:
            raise RecordError(f"{path}: is not a table of numbers: {error}") from error


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from error
