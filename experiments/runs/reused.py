"""Runs that a study takes as they are from an export, or from the folder of another study: by run id.

It imports no torch and no pandas. Nothing is copied, and a source is only read: of an export whose digest is not the
stated one, nothing but study.json. What a source reuses itself counts only if it is an export, which holds the rows.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.errors import UserError, plural
from experiments.files import RecordError, canonical
from experiments.locks import DRIVER_LOCK, LOCKS, holder
from experiments.metric import is_metric
from experiments.runs import exports, record
from experiments.study import REFERENCE, STUDY, Inferred, Reuse, StudyPlan
from vit.registry import nearest

IMAGES = ("train_images", "val_images", "test_images")


@dataclass(frozen=True)
class ReusedRun:
    """A run of a source. `summary`: what its record, or the export, says of its results and images."""

    source: Reuse
    summary: dict[str, Any]
    torch: str = ""  # the version


ReusedRuns = dict[str, ReusedRun]
"""run id -> the run"""


def find_source(given: str, where: Path) -> str:
    """The folder that a user names: by a path relative to `where`, or as a study of analysis/reference.

    A name without a slash is only looked for there. Raises `UserError` where there is none.
    """
    path, study = where / Path(given).expanduser(), (REFERENCE / given).resolve()
    if "/" in given and path.is_dir():
        return str(path.resolve())
    if study.is_relative_to(REFERENCE) and (study / STUDY).is_file():
        return str(study)
    if "/" in given:
        raise UserError(f"reuse: {given!r} is no folder in {where.resolve()}, and no study of analysis/reference")
    if not REFERENCE.is_dir():
        way = "clone the project, whose analysis/reference has it, and give its path there"
        raise UserError(f"reuse: {given!r}: this installation has no analysis/reference; {way}")
    known = [one.parent.relative_to(REFERENCE).as_posix() for one in sorted(REFERENCE.rglob(STUDY))]
    raise UserError(f"reuse: {given!r} is no study of analysis/reference; {nearest(given, known)}; a folder: ./{given}")


def take(folders: Iterable[str], study_dir: Path) -> list[Reuse]:
    """The sources in these folders as they are now. Raises `UserError` where one is in training or cannot be used."""
    sources = []
    for folder in map(Path, folders):
        if folder == study_dir.resolve():
            raise UserError(f"reuse: {str(folder)!r} is the folder of the study itself")
        locks = (folder / DRIVER_LOCK, *(folder / LOCKS).glob("*"))
        if busy := next(filter(None, map(holder, locks)), None):
            raise UserError(f"reuse: {str(folder)!r} is in training by {busy}; wait for its end, or give an export")
        digest, _ = _read(folder)
        sources.append(Reuse(folder=str(folder), digest=digest))
    return sources


def merged(new: Sequence[Reuse], old: Sequence[Reuse]) -> list[Reuse]:
    """The sources that study.json states, which are `old`, and new ones. The same one may have moved."""
    for source in new:
        if any(source.folder == known.folder and source.digest != known.digest for known in old):
            raise _changed(Path(source.folder))
    return [*{source.digest: source for source in (*old, *new)}.values()]


def reused_runs(plan: StudyPlan) -> ReusedRuns:
    """The runs of a plan that have ended in its sources; the first source that has a run counts.

    Raises `RecordError` where a source is missing, damaged or another one than when the study took its runs.
    """
    planned, runs = {run.run_id for run in plan.runs}, ReusedRuns()
    for source in plan.reuse:
        for summary, torch in _read(Path(source.folder), source.digest)[1]:
            if (key := summary["run_id"]) in planned:
                runs.setdefault(key, ReusedRun(source, summary, torch))
    return runs


def counted(runs: ReusedRuns) -> Iterator[str]:
    """A line for each source: how many runs it gives, and by which version of PyTorch, where that is another one."""
    here = importlib.metadata.version("torch")
    for source, number in Counter(run.source for run in runs.values()).items():
        versions = {run.torch for run in runs.values() if run.source == source} - {"", here}
        other = f", trained by PyTorch {', '.join(sorted(versions))}; here it is {here}" if versions else ""
        yield f"reused: {plural(number, 'run')} of {source.name}{other}"


def why_no_model(run_dir: Path) -> str:
    """Why a run without a folder has no checkpoint: its study reuses it; "" where it does not."""
    with contextlib.suppress(UserError):
        plan = StudyPlan.read(run_dir.parent)
        runs, ids = reused_runs(plan), {run.name: run.run_id for run in plan.runs}
        if held := runs.get(ids.get(run_dir.name, "")):
            where = f"is reused from {held.source.folder}, and its record has no checkpoint here"
            return f"{where}; load it there, or train it"
    return ""


Held = list[tuple[dict[str, Any], str]]
"""Of each run that has ended: a summary, and the version of PyTorch"""


def _read(folder: Path, stated: str = "") -> tuple[str, Held]:
    """The digest of a source, and its runs. Raises `RecordError`, also where `stated` is another digest."""
    if not folder.is_dir():
        raise RecordError(f"reuse: {str(folder)!r} is missing; restore it, or give its new place: --reuse FOLDER")
    _check_links(folder, *(folder / name for name in exports.FILES))
    if not exports.is_export(folder):
        digest, held = _records(folder)
        if stated not in ("", digest):
            raise _changed(folder)
        return digest, held
    plan, part = exports.read_stated(folder)
    if stated not in ("", part.digest):
        raise _changed(folder)
    if isinstance(plan, Inferred):
        raise RecordError(f"reuse: {str(folder)!r} holds runs of {plan.source}, which no study planned")
    path = folder / exports.RUNS
    return part.digest, exports.read_file(path, part.tables.get(exports.RUNS), lambda body: _rows(body, path))


def _check_links(*paths: Path) -> None:
    if links := [path for path in paths if path.is_symlink()]:
        raise RecordError(f"reuse: {str(links[0])!r} is a link, which is not followed here; give what it points to")


def _changed(folder: Path) -> RecordError:
    way = "restore it, or choose another --out, with --reuse also of what this study has trained"
    return RecordError(f"reuse: {str(folder)!r} is another one than when this study took runs of it; {way}")


def _records(folder: Path) -> tuple[str, Held]:
    """The runs of a study's folder that have ended, and a digest of their records."""
    held: Held = []
    for run in StudyPlan.read(folder).runs:
        _check_links(folder / run.name)
        if summary := record.read_ended(folder, run):
            versions = (summary.get("provenance") or {}).get("versions") or {}
            held.append((summary, str(versions.get("torch", ""))))
    digests = sorted([summary["run_id"], summary["digest"]] for summary, _ in held)
    return hashlib.sha256(canonical(digests)).hexdigest(), held


def _rows(body: bytes, path: Path) -> Held:
    """The runs of an export's table that have ended."""
    head, *lines = exports.cells(body)
    rows = (dict(zip(head, line, strict=True)) for line in lines)
    return [_row(row, path) for row in rows if row["status"] in record.STATUSES and row["run_id"]]


def _row(row: Mapping[str, str], path: Path) -> tuple[dict[str, Any], str]:
    metrics = {name: json.loads(cell) for name, cell in row.items() if is_metric(name) and cell}
    numbers = {name: int(float(row[name])) for name in ("epochs", *IMAGES) if row.get(name)}
    data = {**{name: numbers[name] for name in IMAGES if name in numbers}, "files": row.get("image_files") or None}
    known = {"run_id": row["run_id"], "status": row["status"], "epochs": numbers.get("epochs", 0), "files": {}}
    summary = record.checked(record.SUMMARY_TYPES, {**known, **metrics, "data": data}, path)
    torch = re.search(r"\btorch ([^,]+)", row.get("versions", ""))
    return summary, torch[1] if torch else ""
