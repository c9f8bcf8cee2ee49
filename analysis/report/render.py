"""Tables that are made cell by cell. They go when every table is a frame."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from analysis.formatting import shared_decimals
from analysis.report import latex, markdown
from analysis.report import table as framed


@dataclass(frozen=True)
class Column:
    """A column: its head, and its fields in the CSV, if any (full precision, the data's units)."""

    title: str
    fields: tuple[str, ...] = ()
    numeric: bool = True
    help: str = ""
    key: bool = False
    """whether it identifies the row, as the name of a variant does"""
    detail: bool = False
    """whether the page shows it in a second, folded table"""


@dataclass(frozen=True)
class Cell:
    """A cell: `text` for a reader, `data` for the CSV (one value for each field of the column)."""

    text: str
    data: tuple[Any, ...] = ()
    sort: float | str | None = None
    href: str = ""
    mark: str = ""
    """"best" (bold), "equal" (bold with a dagger) or a verdict (a colour, only in HTML)"""
    half: float = math.nan
    """half the width of the interval in `text`, in the unit of `text`"""
    rounded: Callable[[int], str] | None = None
    """the text with a number of decimals; the cells of a column share that number"""


@dataclass(frozen=True)
class Table:
    """A table with its caption and notes. `name` is the name of its file.

    All intervals of a column have the same number of decimals. `groups`: the group of each row, if any; a link to
    "#GROUP" leads to its first row. `folded`: whether the page shows only its caption until the reader unfolds it.
    """

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    folded: bool = False

    def __post_init__(self) -> None:
        columns = [_same_decimals(cells) for cells in zip(*self.rows, strict=True)]
        object.__setattr__(self, "rows", tuple(zip(*columns, strict=True)))


def _same_decimals(cells: tuple[Cell, ...]) -> tuple[Cell, ...]:
    """The cells of a column, their intervals with the same number of decimals."""
    places = shared_decimals([cell.half for cell in cells])
    if places is None:
        return cells
    return tuple(replace(cell, text=cell.rounded(places)) if cell.rounded else cell for cell in cells)


@dataclass(frozen=True)
class ExtraColumns:
    """Columns that the main table of some studies has in addition, with the cells of a variant and notes."""

    columns: tuple[Column, ...] = ()
    cells: Callable[[str], tuple[Cell, ...]] = lambda variant: ()
    notes: tuple[str, ...] = ()


def as_frame(table: Table | framed.Table) -> framed.Table:
    """The table as a frame."""
    if isinstance(table, framed.Table):
        return table
    data: dict[str, list[Any]] = {"_group": list(table.groups) or [""] * len(table.rows)}
    columns = []
    for at, column in enumerate(table.columns):
        cells = [row[at] for row in table.rows]
        for place, field in enumerate(column.fields):
            data[field] = [cell.data[place] if place < len(cell.data) else None for cell in cells]
        for name in ("text", "sort", "href", "mark"):
            data[f"_{name}{at}"] = [getattr(cell, name) for cell in cells]
        sort = f"_sort{at}" if any(cell.sort is not None for cell in cells) else ""
        columns.append(
            framed.Column(
                column.title,
                lambda frame, at=at: frame[f"_text{at}"].tolist(),  # type: ignore[misc]
                column.numeric,
                sort,
                column.help,
                column.key,
                column.detail,
                f"_href{at}",
                f"_mark{at}",
            )
        )
    frame = pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in data.items()})
    group = "_group" if table.groups else ""
    return framed.Table(table.name, table.caption, frame, tuple(columns), table.notes, table.folded, group)


def to_csv(table: Table | framed.Table) -> str:
    """The table's CSV."""
    return as_frame(table).csv()


def to_markdown(table: Table | framed.Table) -> str:
    """The table in Markdown."""
    return markdown.table(as_frame(table))


def to_latex(table: Table | framed.Table) -> str:
    """The table in LaTeX."""
    return latex.table(as_frame(table))
