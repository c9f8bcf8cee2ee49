"""Exported studies: a study as study.json, runs.csv and curves.csv, to keep, compare with `diff`, or attach to a paper.

test_hits.npz is there for records that hold test predictions, plugins.json for those that hold the source of plug-ins.
study.json is the plan with one more key, "export": the type of every column, a digest for each of the other files, the
reasons why records are excluded, the looks at the study, and a digest over study.json itself. So a change to any of the
files is noticed.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from analysis.sources import tables
from analysis.sources.hits import from_bytes as hits_from_bytes
from analysis.sources.hits import to_bytes as hits_to_bytes
from analysis.sources.plugin_source import from_bytes as sources_from_bytes
from analysis.sources.plugin_source import to_bytes as sources_to_bytes
from analysis.sources.runs_table import COLUMNS, ENDED, RunsTable, assemble
from analysis.sources.settings import flatten, nested
from experiments.config import completed
from experiments.errors import UserError
from experiments.files import canonical, finite
from experiments.metric import is_metric
from experiments.runs import record
from experiments.runs.looks import Look
from experiments.study import StudyPlan

Part = TypeVar("Part")
SCHEMA = 1
EXPORT = "export"
RUNS, CURVES, HITS, PLUGINS = "runs.csv", "curves.csv", "test_hits.npz", "plugins.json"
OPTIONAL = (HITS, PLUGINS)
FILES = (RUNS, CURVES, *OPTIONAL, record.STUDY)


def is_export(folder: Path) -> bool:
    """Whether the folder holds an exported study: its study.json says so."""
    return (folder / record.STUDY).is_file() and StudyPlan.read(folder).export is not None


def export(study: RunsTable, folder: Path) -> Path:
    """Write the study's files and return the folder. The same study gives the same bytes.

    Raises `UserError` where no run has ended, or where the folder holds anything but an older export of these runs.
    """
    folder = Path(folder)
    if study.of(*ENDED).empty:
        raise UserError(f"{study.name}: no run has finished yet; there is nothing to export")
    _check_replaceable(folder, study)
    _write(_files(study), folder)
    return folder


def read_export(folder: Path) -> RunsTable:
    """Read an exported study. Raises `RecordError` naming the file that is missing or was changed."""
    folder = Path(folder)
    plan = StudyPlan.read(folder)
    parts = _checked(plan, folder / record.STUDY)
    rows, curves = (_read_table(folder / name, parts["tables"].get(name) or {}) for name in (RUNS, CURVES))
    if plan.source is None:
        rows = [_completed(row) for row in rows]
    plan = plan.model_copy(update={"export": None})
    hits = _read_part(folder / HITS, parts["hits"], hits_from_bytes) if "hits" in parts else None
    sources = _read_part(folder / PLUGINS, parts["plugins"], sources_from_bytes) if "plugins" in parts else None
    looks = map(Look.model_validate, parts.get("looks", []))
    return assemble(plan, rows, curves, parts["troubles"], hits=hits, sources=sources, looks=looks)


def _files(study: RunsTable) -> dict[str, bytes]:
    """File name -> its content."""
    texts, parts = {}, {}
    for name, frame in ((RUNS, study.runs), (CURVES, study.curves)):
        texts[name], types = tables.to_csv(frame)
        parts[name] = {"digest": tables.digest(texts[name]), "types": types}
    plan = finite(study.plan.tree())
    plan[EXPORT] = {"schema": SCHEMA, "tables": parts, "troubles": study.troubles}
    if study.looks:
        plan[EXPORT]["looks"] = [look.model_dump() for look in study.looks]
    files = {name: text.encode() for name, text in texts.items()}
    if study.hits:
        files[HITS] = hits_to_bytes(study.hits)
        plan[EXPORT]["hits"] = {"digest": hashlib.sha256(files[HITS]).hexdigest()}
    if study.sources:
        files[PLUGINS] = sources_to_bytes(study.sources)
        plan[EXPORT]["plugins"] = {"digest": hashlib.sha256(files[PLUGINS]).hexdigest()}
    plan[EXPORT]["digest"] = _digest(plan)
    return {**files, record.STUDY: (json.dumps(plan, indent=1, ensure_ascii=False) + "\n").encode()}


def _digest(plan: Mapping[str, Any]) -> str:
    """SHA-256 over study.json without this digest."""
    parts = {key: value for key, value in plan[EXPORT].items() if key != "digest"}
    return hashlib.sha256(canonical({**plan, EXPORT: parts})).hexdigest()


def _checked(plan: StudyPlan, path: Path) -> dict[str, Any]:
    """The export's part of study.json, its digest checked."""
    parts = plan.export
    if parts is None or parts.get("digest") != _digest(plan.tree()):
        raise record.RecordError(f"{path}: does not match its own digest; it was changed after the export")
    if parts.get("schema") != SCHEMA:
        raise record.RecordError(f"{path}: export.schema: {parts.get('schema')!r} is not known; allowed: {SCHEMA}")
    return parts


def _read_table(path: Path, part: Mapping[str, Any]) -> list[dict[str, Any]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            text = file.read()
        if tables.digest(text) != part.get("digest"):
            raise record.RecordError(
                f"{path}: does not match its digest in {record.STUDY}; it was changed after the export"
            )
        return tables.from_csv(text, part["types"])
    except OSError as error:
        raise record.RecordError(f"{path}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise record.RecordError(f"{path}: is not a CSV file: {error}") from error


def _read_part(path: Path, part: Mapping[str, Any], parse: Callable[[bytes], Part]) -> Part:
    """The content of an optional file, its digest checked."""
    try:
        body = path.read_bytes()
        if hashlib.sha256(body).hexdigest() != part.get("digest"):
            raise record.RecordError(
                f"{path}: does not match its digest in {record.STUDY}; it was changed after the export"
            )
        return parse(body)
    except OSError as error:
        raise record.RecordError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        if isinstance(error, record.RecordError):
            raise
        raise record.RecordError(f"{path}: cannot be read: {error}") from error


def _completed(row: dict[str, Any]) -> dict[str, Any]:
    """A row with the settings that are newer than the export, at their defaults."""
    if row["status"] not in ENDED:
        return row
    settings = {path: value for path, value in row.items() if path not in COLUMNS and not is_metric(path)}
    newer = dict(flatten(completed(nested(settings))))
    return {**row, **{path: value for path, value in newer.items() if path not in row}}


def _check_replaceable(folder: Path, study: RunsTable) -> None:
    """Raise `UserError` where writing to the folder would lose anything."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UserError(f"{folder}: is not a folder; give another folder")
    if not folder.is_dir():
        return
    try:
        own = FILES if is_export(folder) else ()
    except record.RecordError:  # a study.json of another program
        own = ()
    for path in sorted(folder.iterdir()):
        if path.name not in own and not (own and path.is_dir() and path.name.startswith("report")):
            raise UserError(f"{path}: was not written by vit-report export; move it, or give another folder")
    if own:
        try:
            old = read_export(folder).of(*ENDED)
        except record.RecordError as error:
            raise UserError(f"{error}; move it, or give another folder") from error
        lost = _identities(old) - _identities(study.of(*ENDED))
        if lost:
            raise UserError(
                f"{folder / RUNS}: holds {len(lost)} runs that {study.name} does not have, for example {min(lost)[0]}; "
                "give another folder"
            )


def _identities(runs: pd.DataFrame) -> set[tuple[str, str]]:
    return set(zip(runs["run"], runs["digest"].fillna("")))


def _write(files: Mapping[str, bytes], folder: Path) -> None:
    """Write all files beside the folder first, then move each into place: a full disk leaves nothing behind."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-new-"))
    except OSError as error:
        raise UserError(f"{folder.parent}: cannot be written: {error.strerror}") from error
    try:
        for name, body in files.items():
            record.write_bytes(temporary / name, body)
        folder.mkdir(exist_ok=True)
        for name in files:
            os.replace(temporary / name, folder / name)
        for name in OPTIONAL:
            if name not in files:
                (folder / name).unlink(missing_ok=True)  # of an older export of the same runs
    except OSError as error:
        raise UserError(f"{folder}: cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
