"""What an export states of itself, and the digests of its files. It imports no torch and no pandas."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError

from experiments.errors import first_line
from experiments.files import UNUSABLE, RecordError, canonical, read_bytes, read_json
from experiments.runs.history import Look
from experiments.study import STUDY, StudyPlan

RUNS, CURVES, HITS, PLUGINS = "runs.csv", "curves.csv", "test_hits.npz", "plugins.json"
FILES = (RUNS, CURVES, HITS, PLUGINS, STUDY)


class Export(BaseModel, frozen=True, extra="forbid", populate_by_name=True):
    """What an export adds to the plan. `troubles`: run -> why its record is excluded. `digest`: that of study.json.

    Tables, hits and plug-ins have the SHA-256 of their file as `digest`, for a table over its cells. Older exports also
    state the types of columns, which are not used.
    """

    format: Literal[1] = Field(1, alias="schema")
    tables: dict[str, dict[str, Any]]
    troubles: dict[str, str]
    looks: tuple[Look, ...] | None = None
    hits: dict[str, Any] | None = None
    plugins: dict[str, Any] | None = None
    digest: str = ""


def is_export(folder: Path) -> bool:
    """Whether the folder holds an exported study: its study.json says so."""
    return (folder / STUDY).is_file() and read_json(folder / STUDY).get("export") is not None


def read_stated(folder: Path) -> tuple[StudyPlan, Export]:
    """The plan of an export, and what it states of its files. Raises `RecordError` where study.json was changed."""
    tree = read_json(folder / STUDY)
    stated = tree.pop("export", None)
    try:
        part = Export.model_validate(stated)
    except ValidationError as error:
        raise RecordError(f"{folder / STUDY}: export.{first_line(error)}") from error
    plan = StudyPlan.parse(tree, str(folder / STUDY))
    if part.digest != study_digest({**plan.tree(), "export": stated}):
        raise RecordError(f"{folder / STUDY}: does not match its own digest; it was changed after the export")
    return plan, part


def read_file(path: Path, stated: Mapping[str, Any] | None, parse: Callable[[bytes], Any]) -> Any:
    """What a file of an export holds. `stated`: the digest in study.json. Raises `RecordError`."""
    body = read_bytes(path)
    try:
        if stated and file_digest(path.name, body) == stated.get("digest"):
            return parse(body)
    except (*UNUSABLE, AttributeError, csv.Error) as error:
        raise RecordError(f"{path}: is not what an export holds: {error!r}") from error
    raise RecordError(f"{path}: does not match its digest in {STUDY}; it was changed after the export")


def study_digest(tree: Mapping[str, Any]) -> str:
    """SHA-256 over study.json without this digest."""
    part = {key: value for key, value in tree["export"].items() if key != "digest"}
    return hashlib.sha256(canonical({**tree, "export": part})).hexdigest()


def file_digest(name: str, body: bytes) -> str:
    """SHA-256 of a file; of a table over its cells, so that it does not depend on line endings or quotes."""
    return hashlib.sha256(canonical(cells(body)) if name.endswith(".csv") else body).hexdigest()


def cells(body: bytes) -> list[list[str]]:
    """The rows of a table, the head first."""
    return list(csv.reader(io.StringIO(body.decode(errors="replace"), newline="")))
