"""Write a document as an HTML page and as Markdown. Text is escaped here and nowhere else; names are never markup.

The bars of a table are SVG: places are shares of the width of a column, so the page scales them.
"""

import math
import re
from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import quote

import jinja2
from markupsafe import Markup, escape

from analysis.figures.forest import Forest
from analysis.figures.style import VERDICTS, Plot
from analysis.words import plain
from analysis.write import markdown
from analysis.write.document import Code, Document, Facts
from analysis.write.table import Column, Table, label_lines

SHAPES = {
    "^": "M0-6 6 5H-6Z",
    "v": "M0 6 6-5H-6Z",
    "s": "M-5-5H5V5H-5Z",
    "o": "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0Z",
    "D": "M0-6 6 0 0 6-6 0Z",
    "x": "M-5-4-4-5 0-1 4-5 5-4 1 0 5 4 4 5 0 1-4 5-5 4-1 0Z",
}
"""The markers of figures around (0, 0), in pixels."""
SIDE = 0.25  # of the axis at its ends, where a name does not stand in the middle above its place
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
    environment.filters |= {"bar": _bar, "axis": _axis, "head": _head}
    environment.filters["lines"] = lambda code: (escape if html else markdown.fenced)(_lines(code))
    environment.filters["markdown_table"] = markdown.table
    return environment


def _bar(forest: Forest, row: int) -> Markup:
    """A row: the margin, zero, the runs, the interval and the estimate. Its numbers are text beside it."""
    marks = forest.bars[row]
    value, low, high = (forest.place(end) for end in (marks.estimate.value, marks.estimate.low, marks.estimate.high))
    margin = [forest.place(end) for end in (-(forest.margin or 0), forest.margin or 0)]
    parts = [_part("rect", "band", x=margin[0], width=margin[1] - margin[0], height=1)] * bool(forest.margin)
    parts += [_line("edge", end, end, 0, 1) for end in margin if forest.margin]
    parts.append(_line("zero", forest.place(0), forest.place(0), 0, 1))
    for said, run in marks.runs.items():
        tip = Markup("<title>{}</title>").format(plain(said))
        parts.append(_part("circle", "run", {"r": "2.5"}, tip, cx=forest.place(run), cy=0.76))
    if math.isfinite(low):
        parts.append(_line("interval", low, high, 0.5, 0.5))
    if math.isfinite(value):
        shape = Markup('<path d="{}"/>').format(SHAPES[VERDICTS[marks.verdict][1]])
        parts.append(_part("svg", "mark", {"overflow": "visible"}, shape, x=value, y=0.5))
    return _drawing(marks.verdict.replace(" ", "-"), parts)


def _axis(forest: Forest) -> Markup:
    """The values of the axis."""
    texts = [_text(forest.place(value), text, 0.7, side=0.02) for value, text in forest.ticks().items()]
    return _drawing("axis", texts)


def _head(forest: Forest) -> Markup:
    """What lies at each side of zero, and what zero is called."""
    worse, better = (plain(end) for end in forest.ends)
    sides = [_text(0, f"← {worse}", 0.35), _text(1, f"{better} →", 0.35)] * bool(worse)
    return _drawing("head", [*sides, _text(forest.place(0), plain(forest.zero), 0.9)], hidden=False)


def _drawing(kind: str, parts: list[Markup], hidden: bool = True) -> Markup:
    aria = Markup(' aria-hidden="true"') if hidden else ""
    return Markup('<svg class="{}"{}>{}</svg>').format(kind, aria, Markup("").join(parts))


def _text(x: float, text: str, y: float, side: float = SIDE) -> Markup:
    anchor = "start" if x < side else "end" if x > 1 - side else "middle"
    return _part("text", "", {"text-anchor": anchor}, text, x=x, y=y)


def _line(kind: str, x1: float, x2: float, y1: float, y2: float) -> Markup:
    return _part("line", kind, x1=x1, x2=x2, y1=y1, y2=y2)


def _part(tag: str, kind: str, others: Mapping[str, str] = {}, inside: str = "", **places: float) -> Markup:
    """An element whose places are shares of the width and the height."""
    named = {"class": kind, **{name: f"{100 * place:.2f}%" for name, place in places.items()}, **others}
    shown = Markup("").join(Markup(' {}="{}"').format(name, value) for name, value in named.items() if value)
    return Markup("<{}{}>{}</{}>").format(tag, shown, inside, tag)
