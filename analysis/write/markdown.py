"""Write text, code and tables as GitHub's Markdown. Text is escaped here and nowhere else."""

import re

from markupsafe import Markup

from analysis.formatting import plain
from analysis.write.table import Shown, Table


def escaped(text: object) -> str:
    """Escape every character that Markdown could read as markup."""
    shown = plain(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    shown = re.sub(r"([\\`*_\[\]|~$])", r"\\\1", shown)
    shown = re.sub(r"(?i)\b(https?|ftp|www)([:.])", r"\1<!-- -->\2", shown)  # otherwise an address becomes a link
    # otherwise a line could start a list, a heading or a rule
    return re.sub(r"^(\d*)([.)](?=\s|$)|[#+=-](?!\d))", r"\1\\\2", shown)


def table(table: Table) -> Markup:
    """Return a Markdown table with its notes."""
    columns, rows = table.shown()
    lines = [
        [escaped(column.label) for column in columns],
        ["---:" if column.numeric else "---" for column in columns],
        *(map(_cell, row) for row in rows),
    ]
    notes = (f"\n{escaped(note)}\n" for note in table.notes)
    return Markup("".join(f"| {' | '.join(line)} |\n" for line in lines) + "".join(notes))


def fenced(code: str) -> Markup:
    """Return a code block whose fence is longer than any fence in the text."""
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", code))])
    return Markup(f"{fence}\n{code}\n{fence}")


def _cell(cell: Shown) -> str:
    text = escaped(cell.text)
    return (f"**{text}**" if cell.bold else text) + cell.dagger
