"""The style of all figures and the parts that they share. No data and no files."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import matplotlib
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import formatting
from analysis.formatting import plain
from analysis.stats import Estimate
from experiments.metric import Metric

INK, PAPER, FAINT, BAND = "#1b1f24", "#fdfefe", "#8b929c", "#e9ecf0"
"""Colours that the page replaces with its own, for light and dark mode. Data uses none of them except FAINT."""

PALETTE = ("#1f86cc", "#de8f05", "#029e73", "#d55e00", "#c069ad", "#b07c42", "#3fa9dd", "#7d8590")
"""Seaborn's "colorblind" palette, made darker or lighter where needed for contrast with white and black."""

MARKERS = "osD^vP*X"
"""One marker for each colour of the palette."""

VERDICTS = {
    "better": ("#1f86cc", "^"),
    "worse": ("#d55e00", "v"),
    "equivalent": ("#029e73", "s"),
    "not enough evidence": (FAINT, "o"),
    "baseline": (INK, "D"),
}
"""verdict -> its colour and marker"""

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "text.parse_math": False,
    "text.usetex": False,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.edgecolor": FAINT,
    "axes.facecolor": "none",
    "figure.facecolor": PAPER,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": BAND,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "legend.frameon": False,
    "figure.dpi": 100,
    "savefig.dpi": 160,
    "svg.fonttype": "none",
    "svg.hashsalt": "vit-report",
    "axes.formatter.use_mathtext": False,
    "axes.unicode_minus": True,
    "figure.constrained_layout.use": True,
    "image.composite_image": True,
}

WIDTH, NARROW, ROW = 6.8, 4.2, 0.3  # inches: of a figure, of its form for phones, and of a row
NARROW_ROW = 0.44  # a row below its name
MANY_ROWS = 40  # rows from which they are drawn closer together
LONGEST, LONGEST_APART = 34, 54  # characters of a name that a figure shows; where more are needed to tell names apart

Tips = dict[str, tuple[str, ...]]
"""id of a drawn artist -> what the page shows when the pointer is on its marks, in their order"""


@dataclass(frozen=True)
class Plot:
    """A figure with the name of its file, its caption and its alternative text.

    `narrow`: the same figure for a phone; None where `figure` is used there too. The ids of artists that belong to the
    variant with index i start with "vi-".
    """

    name: str
    figure: Figure
    caption: str
    alt: str
    narrow: Figure | None = None
    tips: Tips = field(default_factory=dict)


def plot(name: str, draw: Callable[[Tips], Figure], caption: str, alt: str) -> Plot:
    """Make a figure in both widths; `draw` draws it in the width of the current style."""
    tips: Tips = {}
    with style():
        figure = draw(tips)
    with style(NARROW):
        return Plot(name, figure, caption, alt, draw(tips), tips)


@contextmanager
def style(width: float = WIDTH) -> Iterator[None]:
    """Apply the style to figures that are made or saved inside; settings outside do not change."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({**STYLE, "figure.figsize": (width, 3.3)})
        yield


def width() -> float:
    """The width of a figure in the current style, in inches."""
    return float(matplotlib.rcParams["figure.figsize"][0])


def narrow() -> bool:
    """Whether the current style is that of figures for phones."""
    return width() == NARROW


def panels(count: int, height: float, below: float, sharey: bool = False) -> tuple[Figure, list[Axes]]:
    """Make a figure of panels: side by side, or stacked in a narrow figure. `height`, `below` (a legend): inches."""
    down = count if narrow() else 1
    figure = Figure(figsize=(width(), height * down + below))
    return figure, list(figure.subplots(down, count // down, sharey=sharey, squeeze=False).ravel())


def rows(names: Sequence[str], columns: int = 1) -> tuple[Figure, list[Axes]]:
    """Make a figure with one row for each name, the first at the top, and `columns` panels.

    In a narrow figure the panels are stacked, and a name stands above its row.
    """
    if narrow():
        return _narrow_rows(names, columns)
    height = ROW if len(names) <= MANY_ROWS else 0.7 * ROW
    figure = Figure(figsize=(width(), max(1.5, 0.9 + height * len(names))))
    axes = list(figure.subplots(1, columns, sharey=True, squeeze=False)[0])
    axes[0].set_yticks(range(len(names)), names)
    axes[0].set_ylim(len(names) - 0.4, -0.6)
    for each in axes:
        each.tick_params(axis="y", length=0)
        each.grid(axis="x")
    return figure, axes


def _narrow_rows(names: Sequence[str], panels: int) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(width(), (0.75 + NARROW_ROW * len(names)) * panels))
    axes = list(figure.subplots(panels, 1, sharey=True, squeeze=False)[:, 0])
    for each in axes:
        each.set_yticks([])
        each.set_ylim(len(names) - 0.5, -0.75)
        each.grid(axis="x")
        for row, name in enumerate(names):
            text = each.annotate(
                name, (0.01, row - 0.44), xycoords=("axes fraction", "data"), va="center", fontsize=9.5
            )
            text.set_in_layout(False)  # it is inside the axes
    return figure, axes


def interval(
    axes: Axes,
    estimate: Estimate,
    row: float,
    metric: Metric,
    colour: str,
    marker: str,
    size: float = 6,
    difference: bool = False,
) -> list[Artist]:
    """Draw a mean with its interval in a row of `rows`, nothing if there is no value; returns the mark and the bar.

    The interval is cut at what the metric can be, unless it is of a difference.
    """
    if not math.isfinite(estimate.value):
        return []
    limits = formatting.UNBOUNDED if difference else formatting.limits(metric)
    error = bars([estimate], metric.scale, limits) if math.isfinite(formatting.half_width(estimate)) else None
    look: dict[str, Any] = {"color": colour, "marker": marker, "ms": size, "elinewidth": 2, "capsize": 0, "zorder": 3}
    mark, _, segments = axes.errorbar(estimate.value * metric.scale, row, xerr=error, **look)
    return [mark, *segments]


def bars(estimates: Sequence[Estimate], scale: float, limits: tuple[float, float]) -> list[list[float]]:
    """The lengths of the bars below and above each value, cut at `limits`; 0 where there is no interval."""
    pairs = [
        (each.value - max(each.low, limits[0]), min(each.high, limits[1]) - each.value)
        if math.isfinite(formatting.half_width(each))
        else (0.0, 0.0)
        for each in estimates
    ]
    return [[max(side, 0.0) * scale for side in sides] for sides in zip(*pairs, strict=True)]


def name_artists(artists: Sequence[Artist], name: str, tips: Tips, texts: Sequence[str] = ()) -> None:
    """Give artists ids that start with `name`; `texts` are the tips of the marks of the first one."""
    for number, artist in enumerate(artists):
        artist.set_gid(f"{name}-{number}")
    if artists and texts:
        tips[f"{name}-0"] = tuple(texts)


def short(name: str, longest: int = LONGEST) -> str:
    """Return a name that fits into a figure: the middle of a long one is left out. Tables show it in full."""
    name = plain(name)
    return name if len(name) <= longest else f"{name[: longest - 14]}…{name[-13:]}"


def shorts(names: Sequence[str]) -> list[str]:
    """Return the names as `short` does, and longer where two different names would look the same."""
    for longest in (LONGEST, *range(LONGEST_APART, max(map(len, names), default=0), 4)):
        found = [short(name, longest) for name in names]
        if len(set(found)) == len(set(names)):
            return found
    return [plain(name) for name in names]
