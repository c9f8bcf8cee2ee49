"""Tables, and how they are written as Markdown, LaTeX or CSV; the templates write HTML. Names are always text, never markup."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from analysis.formatting import DASH, plain, shared_decimals
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
    data: pd.DataFrame | None = None
    """the content of the CSV, where the cells do not hold it"""

    def __post_init__(self) -> None:
        columns = [_same_decimals(cells) for cells in zip(*self.rows, strict=True)]
        object.__setattr__(self, "rows", tuple(zip(*columns, strict=True)))

    def without_empty_columns(self) -> Table:
        """Return the table without columns that hold no value in any row. The CSV keeps them."""
        return self._only([at for at, column in enumerate(self.columns) if column.key or not self._empty(at)])

    def main(self) -> Table:
        """Return the columns that the page shows at once."""
        return self._only([at for at, column in enumerate(self.columns) if not column.detail])

    def details(self) -> Table | None:
        """Return the folded columns, after those that identify the row; None where there are none."""
        if not any(column.detail for column in self.columns):
            return None
        return self._only([at for at, column in enumerate(self.columns) if column.key or column.detail])

    def _only(self, places: list[int]) -> Table:
        columns = tuple(self.columns[at] for at in places)
        return replace(self, columns=columns, rows=tuple(tuple(row[at] for at in places) for row in self.rows))

    def _empty(self, at: int) -> bool:
        return bool(self.rows) and all(row[at].text in ("", DASH) for row in self.rows)


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


DAGGER = "†"
BOLD = ("best", "equal")


def plain_lines(text: str) -> str:
    """Return lines of code, each made `plain` except for its indentation."""
    return "\n".join(" " * (len(line) - len(line.lstrip(" "))) + plain(line) for line in text.splitlines())


def from_frame(table: framed.Table) -> Table:
    """The cells of a table that is made from a frame. It goes when every table is one."""
    shown = table.shown()
    columns = tuple(
        Column(column.label, numeric=column.numeric, help=column.note, key=column.key, detail=column.detail)
        for column, _ in shown
    )
    cells = [[Cell(cell.text, (), cell.sort, cell.link, cell.mark) for cell in cells] for _, cells in shown]  # type: ignore[arg-type]
    groups = tuple(table.frame[table.group]) if table.group else ()
    rows = tuple(zip(*cells, strict=True))
    return Table(table.name, table.caption, columns, rows, table.notes, groups, table.folded, table.data)


def to_csv(table: Table) -> str:
    """Return the data of the table as CSV: text in quotes, numbers in full precision, unknown values empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)  # otherwise a lone "\r" is not quoted
    if table.data is not None:
        writer.writerow(table.data.columns)
        writer.writerows([_datum(value) for value in row] for row in table.data.astype(object).to_numpy())
        return text.getvalue()
    writer.writerow([field for column in table.columns for field in column.fields])
    for row in table.rows:
        writer.writerow([_datum(value) for cell, column in zip(row, table.columns) for value in _padded(cell, column)])
    return text.getvalue()


def to_markdown(table: Table) -> str:
    """Return a Markdown table with its notes, without empty columns."""
    table = table.without_empty_columns()
    lines = [_md_row(column.title for column in table.columns)]
    lines.append("| " + " | ".join("---:" if column.numeric else "---" for column in table.columns) + " |")
    for row in table.rows:
        lines.append("| " + " | ".join(_md_cell(cell) for cell in row) + " |")
    notes = "".join(f"\n{markdown(note, starts_line=True)}\n" for note in table.notes)
    return "\n".join(lines) + "\n" + notes


def markdown(text: str, starts_line: bool = False) -> str:
    """Escape every character that Markdown could read as markup; `starts_line` includes those at the start of a line."""
    text = plain(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([\\`*_\[\]|~$])", r"\\\1", text)
    text = re.sub(r"(?i)\b(https?|ftp|www)([:.])", r"\1<!-- -->\2", text)  # otherwise an address becomes a link
    return (
        re.sub(r"^(\d*)([.)#+=-])", r"\1\\\2", text) if starts_line else text
    )  # otherwise a list, a heading or a rule


def to_latex(table: Table) -> str:
    """Return a `table` environment for \\input; it needs \\usepackage{booktabs}."""
    table = table.without_empty_columns()
    align = "".join("r" if column.numeric else "l" for column in table.columns)
    body = [" & ".join(latex(column.title) for column in table.columns) + r" \\", r"\midrule"]
    body += [" & ".join(_latex_cell(cell) for cell in row) + r" \\" for row in table.rows]
    notes = "\n".join(rf"\par\smallskip {{\footnotesize {latex(note)}}}" for note in table.notes)
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{latex(table.caption)}}}",
            rf"\label{{tab:{table.name}}}",
            rf"\begin{{tabular}}{{{align}}}",
            r"\toprule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            *([notes] if notes else []),
            r"\end{table}",
            "",
        ]
    )


_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\char34{}",
    "`": r"\char96{}",
    "±": r"$\pm$",
    "−": r"$-$",
    "–": "--",
    "—": "---",
    "×": r"$\times$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "†": r"\dag{}",
    "…": r"\dots{}",
    "·": r"$\cdot$",
    "α": r"$\alpha$",
    "η": r"$\eta$",
    "²": r"$^2$",
    "→": r"$\to$",
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
}


def latex(text: str) -> str:
    """Escape every character that LaTeX could read as a command, or for which pdflatex has no glyph."""
    escaped = "".join(
        _LATEX.get(c) or (c if c.isascii() else f"U+{ord(c):04X}") for c in plain(text).replace("--", "-\u200b-")
    )
    return escaped.replace("U+200B", "{}")


def _latex_cell(cell: Cell) -> str:
    text = latex(cell.text)
    bold = rf"\textbf{{{text}}}" if cell.mark in BOLD else text
    return bold + (r"\dag{}" if cell.mark == "equal" else "")


def _md_cell(cell: Cell) -> str:
    text = markdown(cell.text)
    return (f"**{text}**" if cell.mark in BOLD else text) + (DAGGER if cell.mark == "equal" else "")


def _md_row(texts: Iterable[str]) -> str:
    return "| " + " | ".join(map(markdown, texts)) + " |"


def _padded(cell: Cell, column: Column) -> tuple[Any, ...]:
    return (*cell.data, *[None] * (len(column.fields) - len(cell.data)))


def _datum(value: Any) -> Any:
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else value
