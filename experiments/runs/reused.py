"""Runs that a study takes as they are from exports (`vit-report export`). It imports no torch and no pandas."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.config import SETTINGS, RunConfig, flatten, override, run_id
from experiments.errors import UserError, first_few, plural
from experiments.files import RecordError, read_bytes
from experiments.metric import is_metric
from experiments.runs.exports import RUNS, is_export
from experiments.sections import EvalConfig
from experiments.study import REFERENCE, STUDY, Reuse, Study
from vit.registry import nearest


@dataclass(frozen=True)
class ReusedRun:
    """A run of a source. `config`: without `eval`. `summary`: what the export says of its results and images."""

    source: Reuse
    config: RunConfig
    summary: dict[str, Any]


ReusedRuns = dict[str, ReusedRun]
"""run id of the planned run -> the run"""


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
    known = [file.parent.relative_to(REFERENCE).as_posix() for file in sorted(REFERENCE.rglob(STUDY))]
    way = f"{nearest(given, known)}; or give a folder, ./{given}" if known else "a clone of the project has that folder"
    raise UserError(f"reuse: {given!r} is no study of analysis/reference; {way}")


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
        if any(source.folder == known.folder and source.digest != known.digest for known in old):
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
    for held in (held for source in study.sources for held in _finished(source)):
        key = run_id(held.config)
        if key in planned and study.metric in held.summary:
            runs.setdefault(planned[key], held)
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
        if held := reused_runs(study).get(ids.get(run_dir.name, "")):
            return f"is reused from {held.source.folder}, which has no checkpoint; train it"
    return ""


def _difference(study: Study, runs: Iterable[ReusedRun]) -> str:
    """In what the runs of a source differ from the planned one that is nearest."""
    theirs = [dict(flatten(run.config.model_dump(exclude={"seed", "eval"}))) for run in runs]
    ours = [dict(flatten(run.config.model_dump(exclude={"seed", "eval"}))) for run in study.variants.values()]
    differing = ([path for path in own if own[path] != other[path]] for own in ours for other in theirs)
    nearest_one = min(differing, key=len, default=None)
    if nearest_one is None:
        return "it has no finished run that this version can read"
    return f"it differs in {first_few(nearest_one)}" if nearest_one else f"it has other seeds, or no {study.metric}"


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
