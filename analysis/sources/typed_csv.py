"""Tables as CSV that read back exactly: a type for each column, and a digest over the cells.

Floats are written by repr. An empty cell is a missing value. The types are: boolean, integer, number, string (no value is
missing; an empty cell is the empty text), "string or null", and any (each cell is a JSON value).
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Callable, Mapping
from typing import Any, Literal

import pandas as pd

from experiments.files import canonical

CellType = Literal["boolean", "integer", "number", "string", "string or null", "any"]
PARSERS: dict[CellType, Callable[[str], Any]] = {
    "boolean": {"True": True, "False": False, "": None}.__getitem__,
    "integer": lambda cell: int(cell) if cell else None,
    "number": lambda cell: float(cell) if cell else float("nan"),
    "string": str,
    "string or null": lambda cell: cell or None,
    "any": lambda cell: json.loads(cell) if cell else None,
}


def to_csv(frame: pd.DataFrame) -> tuple[bytes, dict[str, CellType]]:
    """(the frame as CSV, column -> type)."""
    types = {str(name): _type(column) for name, column in frame.items()}
    text = frame.copy()
    for name, kind in types.items():
        if kind == "any":
            cells = [None if pd.isna(value) else json.dumps(value, ensure_ascii=False) for value in frame[name]]
            text[name] = pd.Series(cells, index=frame.index, dtype=object)
    return text.to_csv(index=False, lineterminator="\n").encode(), types


def from_csv(body: bytes, types: Mapping[str, CellType]) -> list[dict[str, Any]]:
    """The rows of a table that `to_csv` wrote."""
    header, *lines = _cells(body)
    parsers = [PARSERS[types[name]] for name in header]
    return [{name: parse(cell) for name, parse, cell in zip(header, parsers, line, strict=True)} for line in lines]


def digest(body: bytes) -> str:
    """SHA-256 over the cells of a CSV file. It does not depend on line endings or quotes."""
    return hashlib.sha256(canonical(_cells(body))).hexdigest()


def _cells(body: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(body.decode(errors="replace"), newline="")))


def _type(column: pd.Series) -> CellType:
    if pd.api.types.is_float_dtype(column):
        return "number"
    values, missing = column.dropna().tolist(), bool(column.isna().any())
    kinds = set(map(type, values))
    if kinds == {bool}:
        return "boolean"
    if kinds == {int}:
        return "integer"
    if kinds <= {str}:
        return "string" if not missing else "any" if "" in values else "string or null"
    return "any"
