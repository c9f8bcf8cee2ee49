"""Draw the bars of a table as SVG for the page: places are shares of the width of a column, so the page scales them."""

import math
from collections.abc import Mapping

from markupsafe import Markup

from analysis.figures.forest import Forest
from analysis.figures.style import VERDICTS
from analysis.words import plain

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


def bar(forest: Forest, row: int) -> Markup:
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


def axis(forest: Forest) -> Markup:
    """The values of the axis."""
    texts = [_text(forest.place(value), text, 0.7, side=0.02) for value, text in forest.ticks().items()]
    return _drawing("axis", texts)


def head(forest: Forest) -> Markup:
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
