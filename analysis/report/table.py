"""Tables: a frame with the data, and how each column is shown. `formats` turns data into text; `render` writes the files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

from analysis.formatting import DASH
from analysis.stats import Estimate

Format = Callable[[pd.DataFrame], list[str]]
"""A frame -> the text of a column, one for each row."""


@dataclass(frozen=True)
class Column:
    """How a column is shown. `sort`, `link` and `mark` name fields of the frame, as `format` does; "" stands for none.

    `note`: shown under the pointer. `key`: whether it identifies the row, as the name of a variant does. `detail`:
    whether the page shows it in a second, folded table. `link`: an address for each row. `mark`: "best" (bold), "equal"
    (bold with a dagger) or a verdict (a colour, only in HTML).
    """

    label: str
    format: Format
    numeric: bool = True
    sort: str = ""
    note: str = ""
    key: bool = False
    detail: bool = False
    link: str = ""
    mark: str = ""


class Shown(NamedTuple):
    """What is shown of one cell; `sort` is None where the page sorts by the text."""

    text: str
    link: str
    mark: str
    sort: object


@dataclass(frozen=True)
class Table:
    """A table. `frame` is what its CSV holds, in full precision and the data's units, and the name of its file is `name`.

    Fields of the frame that start with "_" are for display only (addresses, marks, order). `folded`: whether the page
    shows only the caption until the reader unfolds it. `group`: the field with the group of each row; a link to
    "#GROUP" leads to its first row.
    """

    name: str
    caption: str
    frame: pd.DataFrame
    columns: tuple[Column, ...]
    notes: tuple[str, ...] = ()
    folded: bool = False
    group: str = ""

    def shown(self) -> list[tuple[Column, list[Shown]]]:
        """The columns that hold a text in any row, and those that identify a row, each with its cells."""
        columns = [(column, self._cells(column)) for column in self.columns]
        return [
            (column, cells)
            for column, cells in columns
            if column.key or not cells or any(cell.text not in ("", DASH) for cell in cells)
        ]

    def _cells(self, column: Column) -> list[Shown]:
        links, marks, sorts = (self._field(field) for field in (column.link, column.mark, column.sort))
        texts = column.format(self.frame)
        return [Shown(*cell) for cell in zip(texts, (link or "" for link in links), (m or "" for m in marks), sorts)]

    def _field(self, name: str) -> list:
        return self.frame[name].tolist() if name else [None] * len(self.frame)

    @property
    def data(self) -> pd.DataFrame:
        """The frame without the fields that are for display only."""
        return self.frame[[name for name in self.frame if not str(name).startswith("_")]]


def estimate_fields(name: str, estimate: Estimate) -> dict[str, float]:
    """The fields of an estimate in a frame: NAME, NAME_low and NAME_high, as `formats.interval` reads them."""
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
