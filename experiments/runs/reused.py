"""Runs that a study takes as they are from an export, or from the folder of another study: by run id.

It imports no torch and no pandas. A source is only read, and of an export whose digest is not the stated one nothing
but study.json. What a source reuses itself counts only if it is an export, which holds the rows.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
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
    """A run of a source. `summary`: what its record says, or what the export says of results, images and PyTorch."""

    source: Reuse
    summary: dict[str, Any]

    @property
    def torch(self) -> str:
        """The version; "" where it is not known."""
        return str(((self.summary.get("provenance") or {}).get("versions") or {}).get("torch", ""))


ReusedRuns = dict[str, ReusedRun]
"""run id -> the run"""


def find_source(given: str, where: Path) -> str:
    """The folder that a user names: a path that begins with `./`, `../` or `/` is relative to `where`; any other text
    is a study of analysis/reference, whatever lies beside the study. Raises `UserError` where there is none.
    """
    if given.startswith(("./", "../", "/")):
        if (path := where / given).is_dir():
            return str(path.resolve())
        raise UserError(f"reuse: {given!r} is no folder")
    study = Path(os.path.normpath(REFERENCE / given))
    if study.is_relative_to(REFERENCE) and (study / STUDY).is_file():
        return str(study)
    known = [one.parent.relative_to(REFERENCE).as_posix() for one in sorted(REFERENCE.rglob(STUDY))]
    way = f"{nearest(given, known)}; or give a folder, ./{given}" if known else "a clone of the project has that folder"
    raise UserError(f"reuse: {given!r} is no study of analysis/reference; {way}")


def take(folders: Iterable[str], study_dir: Path) -> list[Reuse]:
    """The sources in these folders as they are now. Raises `UserError` where one is in training or cannot be used."""
    sources = []
    for folder in map(Path, folders):
        if folder == study_dir.resolve():
            raise UserError(f"reuse: {str(folder)!r} is the folder of the study itself")
        locks = (folder / DRIVER_LOCK, *(folder / LOCKS).glob("*"))
        if busy := next(filter(None, map(holder, locks)), None):
            raise UserError(f"reuse: {str(folder)!r} is in training by {busy}; wait for its end, or give an export")
        sources.append(Reuse(folder=str(folder), digest=_read(folder)[0]))
    return sources


def merged(new: Sequence[Reuse], old: Sequence[Reuse]) -> list[Reuse]:
    """The sources that study.json states, which are `old`, and new ones. The same one may have moved."""
    for source in new:
        if any(source.folder == known.folder and source.digest != known.digest for known in old):
            raise _changed(Path(source.folder))
    return [*{source.digest: source for source in (*old, *new)}.values()]


def reused_runs(plan: StudyPlan) -> ReusedRuns:
    """The runs of a plan that have ended in its sources, with its metric; the first source that has one counts.

    Raises `RecordError` where a source is missing, damaged or another one than when the study took its runs.
    """
    planned, runs = {run.run_id for run in plan.runs}, ReusedRuns()
    for source in plan.reuse:
        for summary in _read(Path(source.folder), source.digest)[1]:
            lacks = summary["status"] == "finished" and summary.get(plan.metric) is None  # it chose by val/acc
            if (key := summary["run_id"]) in planned and not lacks:
                runs.setdefault(key, ReusedRun(source, summary))
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
        ids = {run.name: run.run_id for run in plan.runs}
        if held := reused_runs(plan).get(ids.get(run_dir.name, "")):
            where = f"is reused from {held.source.folder}, and its record has no checkpoint here"
            return f"{where}; load it there, or train it"
    return ""


def _read(folder: Path, stated: str = "") -> tuple[str, list[dict[str, Any]]]:
    """The digest of a source, and the summaries of its runs that have ended. `stated`: what the digest must be.

    Raises `RecordError`.
    """
    if not folder.is_dir():
        way = "restore it, or give its new place: vit-sweep run STUDY --reuse FOLDER"
        raise RecordError(f"reuse: {str(folder)!r} is missing; {way}")
    _check_links(folder, *(folder / name for name in exports.FILES))
    if not exports.is_export(folder):
        digest, held = _records(folder)
    else:
        plan, part = exports.read_stated(folder)
        digest, path = part.digest, folder / exports.RUNS
        if isinstance(plan, Inferred):
            raise RecordError(f"reuse: {str(folder)!r} holds runs of {plan.source}, which no study planned")
        if stated in ("", digest):
            held = exports.read_file(path, part.tables.get(exports.RUNS), lambda body: _rows(body, path))
    if stated not in ("", digest):
        raise _changed(folder)
    return digest, held


def _check_links(*paths: Path) -> None:
    if links := [path for path in paths if path.is_symlink()]:
        raise RecordError(f"reuse: {str(links[0])!r} is a link, which is not followed here; give what it points to")


def _changed(folder: Path) -> RecordError:
    way = "restore it, or choose another --out, with --reuse also of what this study has trained"
    return RecordError(f"reuse: {str(folder)!r} is another one than when this study took runs of it; {way}")


def _records(folder: Path) -> tuple[str, list[dict[str, Any]]]:
    runs = StudyPlan.read(folder).runs
    _check_links(*(folder / run.name for run in runs))
    ended = list(filter(None, (record.read_ended(folder, run) for run in runs)))
    digests = sorted([summary["run_id"], summary["digest"]] for summary in ended)
    return hashlib.sha256(canonical(digests)).hexdigest(), ended


def _rows(body: bytes, path: Path) -> list[dict[str, Any]]:
    head, *lines = exports.cells(body)
    rows = (dict(zip(head, line, strict=True)) for line in lines)
    return [_row(row, path) for row in rows if row["status"] in record.STATUSES and row["run_id"]]


def _row(row: Mapping[str, str], path: Path) -> dict[str, Any]:
    metrics = {name: json.loads(cell) for name, cell in row.items() if is_metric(name) and cell}
    numbers = {name: int(row[name].partition(".")[0]) for name in ("epochs", *IMAGES) if row.get(name)}
    data = {name: numbers.get(name) for name in IMAGES} | {"files": row.get("image_files") or None}
    versions = {"torch": found[1]} if (found := re.search(r"\btorch ([^,]+)", row.get("versions", ""))) else {}
    parts = {"data": data, "provenance": {"versions": versions}, "epochs": numbers.get("epochs", 0), "files": {}}
    known = {"run_id": row["run_id"], "status": row["status"], **metrics, **parts}
    return record.checked(record.SUMMARY_TYPES, known, path)
