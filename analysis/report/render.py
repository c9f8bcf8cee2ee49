"""One table, four spellings: Markdown, LaTeX, CSV, and (by the templates) HTML. A name is text in each, never markup."""

from __future__ import annotations

import csv
import io
import math
import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Column:
    """A column: its head, and the fields that it has in a CSV (full precision, data's own units), if any."""

    title: str
    fields: tuple[str, ...] = ()
    numeric: bool = True
    help: str = ""


@dataclass(frozen=True)
class Cell:
    """What one cell says: `text` to a reader, `data` (one for each field of the column) to a program."""

    text: str
    data: tuple[Any, ...] = ()
    sort: float | str | None = None
    href: str = ""
    mark: str = ""
    """"best" (bold), "equal" (a dagger) or a verdict's word (a colour, in HTML only)"""


@dataclass(frozen=True)
class Table:
    """A table with its caption and the notes in its foot. `name` is its file's name."""

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExtraColumns:
    """Columns that only some studies' table of variants has, with a row's cells under them and what the foot says."""

    columns: tuple[Column, ...] = ()
    cells: Callable[[str], tuple[Cell, ...]] = lambda variant: ()
    notes: tuple[str, ...] = ()


DAGGER = "†"


def plain(text: Any) -> str:
    """Text without what a page or a file cannot show: controls become U+FFFD, any run of white space one space."""
    shown = " ".join(str(text).split())
    return "".join(
        "\ufffd" if unicodedata.category(c) in ("Cc", "Cs", "Cn", "Co") or c in _DIRECTION else c for c in shown
    )


def plain_lines(text: str) -> str:
    """Lines of code, each made `plain` but for its indentation, which may mean something."""
    return "\n".join(" " * (len(line) - len(line.lstrip(" "))) + plain(line) for line in text.splitlines())


_DIRECTION = set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # would turn the text around them


def to_csv(table: Table) -> str:
    """The data of the table, one line a row; texts in quotes, numbers by repr, what is not known empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)  # else a lone "\r" is not quoted
    writer.writerow([field for column in table.columns for field in column.fields])
    for row in table.rows:
        writer.writerow([_datum(value) for cell, column in zip(row, table.columns) for value in _padded(cell, column)])
    return text.getvalue()


def to_markdown(table: Table) -> str:
    """A pipe table with its notes."""
    lines = [_md_row(column.title for column in table.columns)]
    lines.append("| " + " | ".join("---:" if column.numeric else "---" for column in table.columns) + " |")
    for row in table.rows:
        lines.append("| " + " | ".join(_md_cell(cell) for cell in row) + " |")
    notes = "".join(f"\n{markdown(note, starts_line=True)}\n" for note in table.notes)
    return "\n".join(lines) + "\n" + notes


def markdown(text: str, starts_line: bool = False) -> str:
    """Text with every character escaped that Markdown could take for markup, there or, if so, at the start of a line."""
    text = plain(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([\\`*_\[\]|~$])", r"\\\1", text)
    text = re.sub(r"(?i)\b(https?|ftp|www)([:.])", r"\1<!-- -->\2", text)  # else a bare address becomes a link
    return re.sub(r"^(\d*)([.)#+=-])", r"\1\\\2", text) if starts_line else text  # else a list, a heading or a rule


def to_latex(table: Table) -> str:
    """A booktabs `table` environment, to be read in by \\input; needs \\usepackage{booktabs}."""
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
    """Text with every character escaped that LaTeX could take for a command, or that pdflatex has no glyph for."""
    escaped = "".join(
        _LATEX.get(c) or (c if c.isascii() else f"U+{ord(c):04X}") for c in plain(text).replace("--", "-\u200b-")
    )
    return escaped.replace("U+200B", "{}")


def _latex_cell(cell: Cell) -> str:
    text = latex(cell.text)
    return rf"\textbf{{{text}}}" if cell.mark == "best" else text + (r"\dag{}" if cell.mark == "equal" else "")


def _md_cell(cell: Cell) -> str:
    text = markdown(cell.text)
    return f"**{text}**" if cell.mark == "best" else text + (DAGGER if cell.mark == "equal" else "")


def _md_row(texts: Iterable[str]) -> str:
    return "| " + " | ".join(map(markdown, texts)) + " |"


def _padded(cell: Cell, column: Column) -> tuple[Any, ...]:
    return (*cell.data, *[None] * (len(column.fields) - len(cell.data)))


def _datum(value: Any) -> Any:
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else value
