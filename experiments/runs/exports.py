"""What files an export has, and what its study.json adds to the study. It imports no torch and no pandas."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from pydantic import BaseModel, ValidationError

from experiments.compared import Compared
from experiments.errors import first_line
from experiments.files import RecordError, read_json
from experiments.runs.history import Look
from experiments.study import STUDY, Study

RUNS, CURVES, PLUGINS = "runs.csv", "curves.csv", "plugins.json"
FILES = (RUNS, CURVES, PLUGINS, STUDY)


class Export(BaseModel, frozen=True, extra="forbid"):
    """What an export adds to the study. `troubles`: run -> why its record is excluded."""

    troubles: dict[str, str] = {}
    looks: tuple[Look, ...] = ()


def is_export(folder: Path) -> bool:
    """Whether the folder holds an exported study: its study.json says so."""
    return (folder / STUDY).is_file() and read_json(folder / STUDY).get("export") is not None


def read_stated(folder: Path) -> tuple[Compared, Export]:
    """The study or the table of an export, and what it adds. Raises `RecordError` naming the field that is wrong."""
    tree = read_json(folder / STUDY)
    try:
        stated = Export.model_validate(tree.pop("export", None))
    except ValidationError as error:
        raise RecordError(f"{folder / STUDY}: export.{first_line(error)}") from error
    kind = Compared if tree.get("source") else Study
    return kind.parse(tree, str(folder / STUDY)), stated


def cells(body: bytes) -> list[list[str]]:
    """The rows of a table, the head first. Raises `UnicodeDecodeError` and `csv.Error`."""
    return list(csv.reader(io.StringIO(body.decode(), newline="")))
