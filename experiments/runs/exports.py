"""What files an export has, and what its study.json states. It imports no torch and no pandas."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, ValidationError

from experiments.errors import first_line
from experiments.files import RecordError, read_json
from experiments.runs.history import Look
from experiments.study import STUDY, StudyPlan

RUNS, CURVES, PLUGINS = "runs.csv", "curves.csv", "plugins.json"
FILES = (RUNS, CURVES, PLUGINS, STUDY)


class Export(BaseModel, frozen=True, extra="forbid", populate_by_name=True):
    """What an export adds to the plan. `troubles`: run -> why its record is excluded."""

    format: Literal[2] = Field(2, alias="schema")
    troubles: dict[str, str] = {}
    looks: tuple[Look, ...] = ()


def is_export(folder: Path) -> bool:
    """Whether the folder holds an exported study: its study.json says so."""
    return (folder / STUDY).is_file() and read_json(folder / STUDY).get("export") is not None


def read_stated(folder: Path) -> tuple[StudyPlan, Export]:
    """The plan of an export, and what it states. Raises `RecordError` naming the field that is wrong."""
    tree = read_json(folder / STUDY)
    try:
        stated = Export.model_validate(tree.pop("export", None))
    except ValidationError as error:
        raise RecordError(f"{folder / STUDY}: export.{first_line(error)}") from error
    return StudyPlan.parse(tree, str(folder / STUDY)), stated


def cells(body: bytes) -> list[list[str]]:
    """The rows of a table, the head first. Raises `UnicodeDecodeError` and `csv.Error`."""
    return list(csv.reader(io.StringIO(body.decode(), newline="")))
