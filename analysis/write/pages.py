"""Write a document as an HTML page and as Markdown. Text is escaped here and nowhere else; names are never markup."""

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any
from urllib.parse import quote

import jinja2
from markupsafe import Markup, escape

from analysis.figures.style import Plot
from analysis.words import plain
from analysis.write import bars, latex, markdown
from analysis.write.document import Code, Document, Facts
from analysis.write.table import Column, Table, label_lines

UNIT = re.compile(r"(?<=\d) (?=%|points?\b|seeds?\b)|(?<=%) (?=CI\b)|(?<=±) ")


def page(document: Document, figures: Mapping[str, Markup], tables: Mapping[str, str]) -> str:
    """Return the page: one file that loads nothing. `figures`: name -> drawing; `tables`: name -> CSV."""
    template = _environment(True).get_template("report.html.j2")
    return template.render(document=document, figures=figures, tables=tables)


def readme(document: Document) -> str:
    """Return the document in GitHub's Markdown."""
    return _environment(False).get_template("report.md.j2").render(document=document)


def _lines(code: Code) -> str:
    """Lines of code as they are; U+FFFD for what cannot be printed, but for tabs."""
    lines = code.text.splitlines()
    return "\n".join("".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in line) for line in lines)


def _copies(table: Table) -> list[tuple[str, Markup]]:
    """What the page shows of a table at once, as text for a paper."""
    shown = replace(table, columns=tuple(column for column in table.columns if not column.detail))
    texts = {"LaTeX": latex.table(shown), "Markdown": markdown.table(replace(shown, notes=()))}
    return [(kind, escape(str(text))) for kind, text in texts.items()]


def _unbroken(text: object) -> str:
    """The text, without line breaks between a number and its unit."""
    return UNIT.sub("\u00a0", plain(text))


def _class(column: Column) -> str:
    """What the style sheet calls the cells of a column."""
    kind = "number" if column.numeric else "verdict" if column.mark else ""
    return " ".join(filter(None, ["key" * column.key, kind, "fold" * column.detail]))


@cache
def _environment(html: bool) -> jinja2.Environment:
    """The environment of the page or of Markdown: every value that a template prints is made plain and escaped."""
    shown = _unbroken if html else markdown.escaped
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("analysis.write"),
        autoescape=html,
        finalize=lambda value: value if isinstance(value, Markup) else shown(value),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    kinds: dict[str, Any] = {"table": Table, "plot": Plot, "facts": Facts, "code": Code}
    for name, kind in kinds.items():  # `item is table`
        environment.tests[name] = lambda item, kind=kind: isinstance(item, kind)
    environment.filters |= {"label_lines": label_lines, "class": _class, "quote": quote}
    environment.filters |= {"copies": _copies, "bar": bars.bar, "axis": bars.axis, "head": bars.head}
    environment.filters["lines"] = lambda code: (escape if html else markdown.fenced)(_lines(code))
    environment.filters["markdown_table"] = markdown.table
    return environment
