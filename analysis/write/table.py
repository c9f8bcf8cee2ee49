"""Tables: rows, and how each column shows them. `pages`, `markdown` and `latex` write them."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import attrgetter
from typing import Any, NamedTuple

import pandas as pd

from analysis import words
from analysis.figures.forest import Bar, Forest
from analysis.verdicts import Estimate
from analysis.words import DASH, Format, plain
from experiments.errors import UserError
from experiments.metric import Metric

FORMULA = re.compile(r"[=@\t\r]|[+-](?![\d.]+(e[+-]?\d+)?$)")  # numbers stay as they are
SHORT_LABEL = 12  # characters of a column's label that stay on one line
DAGGERS = {"tied": "†", "untested": "‡"}  # mark -> what follows the text
SIGNS = {"better": "▲", "worse": "▼", "equivalent": "■", "not-tested": "×"}
"""verdict -> sign at a number; the style sheet of the page draws it itself"""
Value = str | Callable[[Any], Any]
"""What a column takes of a row: a function of it, an attribute such as "comparison.diff", or the key of a mapping."""
Key = str | tuple[str, str]
"""What files call a field, or ("factor", "rank"), (kind, name), where the user has given the name."""


@dataclass(frozen=True)
class Bars:
    """The bars that the page shows before the numbers of a column.

    `estimate`, `verdict` and `runs` (what is said of each run -> its value) are those of a row; for the others, see
    `Forest`.
    """

    metric: Metric
    estimate: Value
    verdict: Value
    runs: Value = lambda row: {}
    zero: str = ""
    ends: tuple[str, str] = ("", "")
    margin: float | None = None


@dataclass(frozen=True)
class Column:
    """How a value of each row is shown under a label.

    `field`: what files and `--columns` call it; "" where they lack it. `sort`: what orders the rows, where it is not
    the value. `note`: shown under the pointer. `key`: whether the column identifies the row, as the name of a variant
    does. `detail`: whether the page folds it away. `link`: an address for each row. `mark`: "tied" (a dagger),
    "untested" (a double dagger) or a verdict (a colour, only in HTML), or "best" (bold), also after a verdict. `math`:
    whether what stands between "$" in its texts is math. `tip`: shown under the pointer of each cell. `bars`: what the
    page draws before its numbers.
    """

    label: str
    value: Value
    show: Format = words.texts
    field: Key = ""
    sort: Value | None = None
    note: str = ""
    key: bool = False
    detail: bool = False
    link: Value | None = None
    mark: Value | None = None
    tip: Value | None = None
    math: bool = False
    bars: Bars | None = None

    @property
    def numeric(self) -> bool:
        """Whether the column is aligned to the right, and ordered by its values and not by its text."""
        return self.show not in (words.texts, words.verdicts)


class Shown(NamedTuple):
    """What is shown of one cell. `sort`: None where the page sorts by the text. `sign`: see `SIGNS`."""

    text: str
    link: str
    mark: str
    sort: str | None
    sign: str
    tip: str

    @property
    def bold(self) -> bool:
        """Whether the text is bold."""
        return "best" in self.mark.split()

    @property
    def dagger(self) -> str:
        """What follows the text, not bold."""
        return DAGGERS.get(self.mark, "")


class Grid(NamedTuple):
    """Columns and rows as they are shown."""

    columns: list[Column]
    rows: list[tuple[Shown, ...]]


@dataclass(frozen=True)
class Table:
    """A table: `rows` of any type, and what its columns show of them.

    `fields`: what its CSV, `name`, holds of each row, in full precision and the data's units; by default every key of
    rows that are mappings. An `Estimate` is three columns of it. `folded`: whether the page shows only the caption
    until the reader unfolds it; a table without columns is only its CSV. `group`: the group of each row; a link to
    "#GROUP" leads to its first row. `listing`: a long table that only the page shows; the document has a frame of the
    same name, which is its CSV.
    """

    name: str
    caption: str
    rows: Sequence[Any]
    columns: tuple[Column, ...]
    fields: Mapping[Key, Value] | None = None
    notes: tuple[str, ...] = ()
    folded: bool = False
    group: Value | None = None
    listing: bool = False

    def shown(self) -> Grid:
        """The columns that hold a text in any row, and those that identify a row."""
        cells = [self._cells(column) for column in self.columns]
        has_text = [any(cell.text not in ("", DASH) for cell in column) or not column for column in cells]
        wanted = [column.key or has for column, has in zip(self.columns, has_text)]
        return Grid([*compress(self.columns, wanted)], [*zip(*compress(cells, wanted), strict=True)])

    @property
    def forests(self) -> dict[str, Forest]:
        """The label of each column with bars -> its forest plot: the same rows and numbers."""
        keys = [column for column in self.columns if column.key]
        names = [", ".join(texts) for texts in zip(*(column.show(self._values(column.value)) for column in keys))]
        return {column.label: self._forest(column, column.bars, names) for column in self.columns if column.bars}

    def _forest(self, column: Column, bars: Bars, names: list[str]) -> Forest:
        parts = [self._values(value) for value in (bars.estimate, bars.verdict)]
        texts, runs = column.show(self._values(column.value)), self._values(bars.runs)
        rows = tuple(Bar(*row) for row in zip(names, *parts, texts, runs, strict=True))
        return Forest(rows, bars.metric, column.label.replace(" [interval]", ""), bars.zero, bars.ends, bars.margin)

    @property
    def groups(self) -> list[str]:
        """The group of each row; empty where rows have none."""
        return self._values(self.group) if self.group else []

    @property
    def data(self) -> pd.DataFrame:
        """What the CSV holds; estimates are the columns NAME, NAME_low and NAME_high. For names, see `names_of`."""
        fields = self.fields
        if fields is None:
            fields = {name: name for name in dict.fromkeys(name for row in self.rows for name in row)}
        values = {key: self._values(value) for key, value in fields.items()}
        ends = {key: ENDS if any(isinstance(value, Estimate) for value in of) else ("",) for key, of in values.items()}
        columns: dict[str, list[Any]] = {}
        for key, name in names_of(ends).items():
            parts = {end: values[key] for end in ends[key]}
            if len(parts) > 1:
                parts = {end: [getattr(value, part) for value in values[key]] for end, part in ENDS.items()}
            columns |= {name + end: of for end, of in parts.items()}
        return pd.DataFrame(columns)

    def csv(self) -> str:
        """The data: numbers in full precision, text in quotes, since a lone "\r" would end a line without them."""
        return as_csv(self.data, csv.QUOTE_NONNUMERIC)

    def _values(self, value: Value) -> list[Any]:
        get = value if callable(value) else attrgetter(value)
        return [row.get(value) if isinstance(row, Mapping) and get is not value else get(row) for row in self.rows]

    def _cells(self, column: Column) -> list[Shown]:
        order, count = column.sort or (column.value if column.numeric else None), len(self.rows)
        link, mark, tip = (
            ["" if words.is_unknown(text) else text for text in self._values(value)] if value else [""] * count
            for value in (column.link, column.mark, column.tip)
        )
        sort = list(map(_sort, self._values(order))) if order else [None] * count
        signs = [next((SIGNS[part] for part in text.split() if part in SIGNS), "") * column.numeric for text in mark]
        texts = map(plain, column.show(self._values(column.value)))
        return list(map(Shown, texts, link, mark, sort, signs, tip))


ENDS = {"": "value", "_low": "low", "_high": "high"}
"""The end of a column's name -> the part of an estimate that it holds."""


def names_of(fields: Mapping[Key, Iterable[str]]) -> dict[Key, str]:
    """What files call each field. `fields`: -> the ends of the names of its columns.

    The names of the user have no name of a field, nor of each other: `factor.rank` stands for ("factor", "rank") then.
    """
    taken = {key + end for key, ends in fields.items() if isinstance(key, str) for end in ends}
    names: dict[Key, str] = {}
    for key, ends in fields.items():
        kind, name = key if isinstance(key, tuple) else ("", key)
        while kind and taken & {name + end for end in ends}:
            name = f"{kind}.{name}"
        taken |= {name + end for end in ends}
        names[key] = name
    return names


def as_csv(frame: pd.DataFrame, quoting: int = csv.QUOTE_MINIMAL) -> str:
    """A frame as CSV. "'" stands before a text that a spreadsheet would compute: one with "=" first, for example."""

    def shown(cell: Any) -> Any:
        return f"'{cell}" if isinstance(cell, str) and FORMULA.match(cell) else cell

    return frame.map(shown).rename(columns=shown).to_csv(index=False, lineterminator="\n", quoting=quoting)


def label_lines(label: str) -> list[str]:
    """Split a column's label into at most two lines of similar length."""
    words = label.split()
    splits = [[" ".join(words[:at]), " ".join(words[at:])] for at in range(1, len(words))]
    if not splits or len(label) <= SHORT_LABEL:
        return [" ".join(words)]
    return min(splits, key=lambda lines: max(map(len, lines)))


def _sort(value: Any) -> str:
    """A number as the page reads it; an unknown value is empty and stands last."""
    value = value.value if isinstance(value, Estimate) else value
    return "" if words.is_unknown(value) else repr(float(value)).replace("inf", "Infinity")


def chosen(keys: Iterable[Key], names: Sequence[str] | None, usual: Sequence[Key]) -> list[Key]:
    """The keys of columns with these names, each once; without names, the usual ones. Raises `UserError`."""
    key_of = {name: key for key, name in names_of(dict.fromkeys(keys, ("",))).items()}
    if unknown := [name for name in names or () if name not in key_of]:
        raise UserError(f"--columns: {unknown[0]!r} is not allowed: expected {', '.join(key_of)}")
    return list(dict.fromkeys(usual if names is None else [key_of[name] for name in names]))
