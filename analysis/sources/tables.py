"""Tables as CSV that read back exactly: a type for each column, and a digest over the cells.

Floats are written by repr. An empty cell is a missing value. The types are: boolean, integer, number, string (no value is
missing; an empty cell is the empty text), "string or null", and any (each cell is a JSON value).
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Callable, Iterable
from typing import Any

import pandas as pd

from experiments.files import canonical

PARSERS: dict[str, Callable[[str], Any]] = {
    "boolean": {"True": True, "False": False, "": None}.__getitem__,
    "integer": lambda cell: int(cell) if cell else None,
    "number": lambda cell: float(cell) if cell else float("nan"),
    "string": str,
    "string or null": lambda cell: cell or None,
    "any": lambda cell: json.loads(cell) if cell else None,
}


def to_csv(frame: pd.DataFrame) -> tuple[str, dict[str, str]]:
    """(the frame as CSV, column -> type)."""
    types = {str(name): _type(column) for name, column in frame.items()}
    text = frame.copy()
    for name, kind in types.items():
        if kind == "any":
            cells = [None if pd.isna(value) else json.dumps(value, ensure_ascii=False) for value in frame[name]]
            text[name] = pd.Series(cells, index=frame.index, dtype=object)
    return text.to_csv(index=False, lineterminator="\n"), types


def from_csv(text: str, types: dict[str, str]) -> list[dict[str, Any]]:
    """The rows of a table that `to_csv` wrote. Raises `ValueError` or `KeyError` where it did not write them."""
    header, *lines = _cells(text)
    parsers = [PARSERS[types[name]] for name in header]
    return [{name: parse(cell) for name, parse, cell in zip(header, parsers, line, strict=True)} for line in lines]


def digest(text: str) -> str:
    """SHA-256 over the cells of a CSV text. It does not depend on line endings or quotes."""
    return hashlib.sha256(canonical(_cells(text))).hexdigest()


def _cells(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


def _type(column: pd.Series) -> str:
    if pd.api.types.is_float_dtype(column):
        return "number"
    values = column.dropna().tolist()
    kinds = set(map(type, values))
    if kinds == {bool}:
        return "boolean"
    if kinds == {int}:
        return "integer"
    if kinds <= {str}:
        return _text_type(values, bool(column.isna().any()))
    return "any"


def _text_type(values: Iterable[str], missing: bool) -> str:
    if not missing:
        return "string"
    return "any" if "" in values else "string or null"
