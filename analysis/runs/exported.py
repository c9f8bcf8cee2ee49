"""Exported studies: a study as study.json, runs.csv and curves.csv, to keep, compare with `diff`, or attach to a paper.

plugins.json is there for records that hold the source of plug-ins. study.json is the study with one more key, "export":
see `Export`. Cells are text: an empty one is a missing value, which for a setting of an ended run is its default, and
one that reads as a number, true or false is that, unless the values of its column are known to be texts.
"""

import csv
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePath
from typing import Any

import pandas as pd
from pydantic import TypeAdapter

from analysis.runs.held_fixed import without_locations
from analysis.runs.runs import COLUMNS, ENDED, TEXTS, Runs, check_row, leaves, nested
from experiments.config import DEFAULTS, completed, unplaced
from experiments.errors import UserError, writing
from experiments.files import UNUSABLE, RecordError, finite, read_bytes, write_bytes
from experiments.metric import is_metric
from experiments.runs import exports
from experiments.runs.exports import CURVES, FILES, PLUGINS, RUNS, Export, is_export
from experiments.study import STUDY, Study

PATH = re.compile(r"""(?<![\w./~-])(?:~[\w.-]*)?/(?!/)[^\s,;:\])"']+""")  # an absolute one, not that of a URL
SOURCES = TypeAdapter(dict[str, dict[str, str]])  # digest -> file -> its text


def export(study: Runs, folder: Path) -> Path:
    """Write the study's files and return the folder. The same study gives the same bytes.

    It replaces an older export that has no other runs; other files in the folder stay. Settings that only say where
    files are become their defaults, and no text names a path of this machine; see `_without_paths`.
    Raises `UserError` where no run has ended, or where the folder holds another study.
    """
    folder = Path(folder)
    if study.of(*ENDED).empty:
        raise UserError(f"{study.name}: no run has finished yet; there is nothing to export")
    study = _without_paths(without_locations(study))
    _check_replaceable(folder, study)
    files = _files(study)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name in {*FILES} - {*files}:
            (folder / name).unlink(missing_ok=True)  # of an older export
    for name, body in files.items():
        write_bytes(folder / name, body)
    return folder


def _without_paths(study: Runs) -> Runs:
    """The study with only the last part of each absolute path in commands, texts and reasons.

    Levels keep theirs, since they tell variants apart.
    """
    plan = study.plan
    changes = {name: _last_parts(getattr(plan, name)) for name in ("description", "command", "source", "notes")}
    if isinstance(plan, Study):
        changes["sources"] = [source.model_copy(update={"folder": source.name}) for source in plan.sources]
    if plan.tuning:
        changes["tuning"] = plan.tuning.model_copy(update={"base": unplaced(plan.tuning.base)})
    runs = study.runs.assign(command=study.runs["command"].map(_last_parts))
    plan = plan.changed(**{name: value for name, value in changes.items() if value != getattr(plan, name)})
    return replace(study, plan=plan, runs=runs, troubles=_last_parts(study.troubles))


def _last_parts(value: Any) -> Any:
    """The value with only the last part of each absolute path in its texts."""
    if isinstance(value, str):
        return PATH.sub(lambda path: PurePath(path[0]).name, value)
    if isinstance(value, dict):
        return {key: _last_parts(item) for key, item in value.items()}
    return list(map(_last_parts, value)) if isinstance(value, list) else value


def read_export(folder: Path) -> Runs:
    """Read an exported study. Raises `RecordError` naming the file that is missing or something else."""
    folder = Path(folder)
    plan, stated = exports.read_compared(folder)
    ours = DEFAULTS if isinstance(plan, Study) else {}  # the settings of other programs can have any type
    texts = {**TEXTS, **dict.fromkeys(path for path, default in ours.items() if isinstance(default, str))}
    from_csv = partial(_from_csv, texts=texts)
    runs, curves = (_read(folder / name, from_csv) for name in (RUNS, CURVES))
    for row in runs:
        check_row(row, f"{folder / RUNS}: {row.get('run')}")
    planned = {(run.name, run.variant, run.seed) for run in plan.runs}
    rows = {(row["run"], row["variant"], row["seed"]) for row in runs if row["status"] != "unplanned"}
    if others := sorted(map(str, planned ^ rows)):
        raise RecordError(f"{folder / RUNS}: its runs are not those of {STUDY}: {others[0]}")
    if isinstance(plan, Study):
        runs = [_completed(row) for row in runs]
    sources = _read(folder / PLUGINS, SOURCES.validate_json) if (folder / PLUGINS).is_file() else {}
    return Runs.of_rows(plan, runs, curves, troubles=stated.troubles, sources=sources, looks=stated.looks)


def _read(path: Path, parse: Callable[[bytes], Any]) -> Any:
    """What a file of an export holds. Raises `RecordError`."""
    body = read_bytes(path)
    try:
        return parse(body)
    except (*UNUSABLE, AttributeError, csv.Error) as error:
        raise RecordError(f"{path}: is not what an export holds: {error!r}") from error


def _files(study: Runs) -> dict[str, bytes]:
    """File name -> its content."""
    files = {RUNS: _to_csv(study.runs), CURVES: _to_csv(study.curves)}
    if study.sources:
        files[PLUGINS] = (json.dumps(study.sources, indent=1, ensure_ascii=False, sort_keys=True) + "\n").encode()
    stated = Export(troubles=study.troubles, looks=study.looks).model_dump()
    tree = finite({**study.plan.tree(), "export": stated})
    return {**files, STUDY: (json.dumps(tree, indent=1, ensure_ascii=False) + "\n").encode()}


def _completed(row: dict[str, Any]) -> dict[str, Any]:
    """A row of an ended run with settings that are empty, or newer than the export, at their defaults."""
    if row["status"] not in ENDED:
        return row
    values = {path: value for path, value in row.items() if value is not None}
    settings = {path: value for path, value in values.items() if path not in COLUMNS and not is_metric(path)}
    return {**row, **dict(leaves(completed(nested(settings))))}


def _check_replaceable(folder: Path, study: Runs) -> None:
    """Raise `UserError` where writing to the folder would lose a file that is no part of an export, or ended runs."""
    if is_export(folder):
        if lost := _identities(read_export(folder)) - _identities(study):
            held = f"the folder holds {len(lost)} runs that the study has not, for example {min(lost)[0]}"
            raise UserError(f"{study.name}: {held}; give another folder")
    elif there := [name for name in FILES if (folder / name).exists()]:
        raise UserError(f"{folder / there[0]}: is not part of an export; move it, or give another folder")


def _identities(study: Runs) -> set[tuple[str, str]]:
    runs = study.of(*ENDED)
    return set(zip(runs["run"], runs["digest"].fillna("")))


def _to_csv(frame: pd.DataFrame) -> bytes:
    def cell(value: Any) -> str:
        if value is None or value != value:
            return ""
        return str(value).lower() if isinstance(value, bool) else str(value)

    return frame.map(cell).to_csv(index=False, lineterminator="\n").encode()


def _from_csv(body: bytes, texts: Mapping[str, str | None]) -> list[dict[str, Any]]:
    """The rows of a file. `texts`: a column whose values are texts -> its missing value."""

    def value(name: str, cell: str) -> Any:
        return texts.get(name) if not cell else cell if name in texts else _value(cell)

    header, *lines = exports.cells(body)
    if "run" not in header:
        raise ValueError("has no column run")
    return [{name: value(name, cell) for name, cell in zip(header, line, strict=True)} for line in lines]


def _value(cell: str) -> Any:
    """A number, true or false, else the text itself."""
    try:
        value = json.loads(cell)
    except ValueError:
        return cell
    return value if isinstance(value, bool | int | float) else cell
