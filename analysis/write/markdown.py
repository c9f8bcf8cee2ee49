"""Write text, code and tables as GitHub's Markdown. Text is escaped here and nowhere else."""

import re

from markupsafe import Markup

from analysis.words import plain
from analysis.write.table import Shown, Table


def escaped(text: object) -> str:
    """Escape what Markdown would read as markup, and nothing else: the file is also read as text."""
    shown = plain(text)
    shown = re.sub(r"\\(?=[!-/:-@\[-`{-~]|$)", r"\\\\", shown)  # before a character that it would escape
    shown = re.sub(r"([`*~$])", r"\\\1", shown)
    shown = re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", shown)  # not inside a word: pos_embed
    shown = re.sub(r"\](?=[(\[:])", r"\\]", shown)  # otherwise the end of a link's text
    shown = re.sub(r"<(?=[A-Za-z/!?])|&(?=#?\w+;)", r"\\\g<0>", shown)  # tags and entities
    # otherwise a line could start a list, a heading, a quotation or a rule
    return re.sub(r"^(\d*)([.)](?=\s|$)|>|[#+=-](?!\d))", r"\1\\\2", shown)


def table(table: Table) -> Markup:
    """Return a Markdown table with its notes."""
    columns, rows = table.shown()
    head = [_text(column.label) for column in columns], ["---:" if column.numeric else "---" for column in columns]
    lines = [*head, *(map(_cell, row) for row in rows)]
    notes = (f"\n{escaped(note)}\n" for note in table.notes)
    return Markup("".join(f"| {' | '.join(line)} |\n" for line in lines) + "".join(notes))


def fenced(code: str) -> Markup:
    """Return a code block whose fence is longer than any fence in the text."""
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", code))])
    return Markup(f"{fence}\n{code}\n{fence}")


def _cell(cell: Shown) -> str:
    text = _text(cell.text)
    return (f"**{text}**" if cell.bold and text else text) + cell.dagger + (f" {cell.sign}" if cell.sign else "")


def _text(text: object) -> str:
    """Text in a cell, which a "|" would end."""
    return escaped(text).replace("|", r"\|")
