"""The style of all figures and the parts that they share. No data and no files."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import formatting
from analysis.formatting import plain
from analysis.stats import Estimate

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

WIDTH, ROW = 6.8, 0.3  # inches
MANY_ROWS = 40  # rows from which they are drawn closer together
LONGEST = 34  # characters of a name that a figure shows


@dataclass(frozen=True)
class Plot:
    """A figure with the name of its file, its caption and its alternative text."""

    name: str
    figure: Figure
    caption: str
    alt: str


@contextmanager
def style() -> Iterator[None]:
    """Apply the style to figures that are made or saved inside; settings outside do not change."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def rows(names: list[str], columns: int = 1) -> tuple[Figure, list[Axes]]:
    """Make a figure with one row for each name, the first at the top, and `columns` panels."""
    height = ROW if len(names) <= MANY_ROWS else 0.7 * ROW
    figure = Figure(figsize=(WIDTH, max(1.5, 0.9 + height * len(names))))
    panels = list(figure.subplots(1, columns, sharey=True, squeeze=False)[0])
    panels[0].set_yticks(range(len(names)), names)
    panels[0].set_ylim(len(names) - 0.4, -0.6)
    for axes in panels:
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x")
    return figure, panels


def interval(
    axes: Axes, estimate: Estimate, row: float, scale: float, colour: str, marker: str, size: float = 6
) -> None:
    """Draw a mean with its interval in a row of `rows`; nothing if there is no mean."""
    if not math.isfinite(estimate.value):
        return
    half = formatting.half_width(estimate) * scale
    error = half if math.isfinite(half) else None
    look: dict[str, Any] = {"color": colour, "marker": marker, "ms": size, "elinewidth": 2, "capsize": 0, "zorder": 3}
    axes.errorbar(estimate.value * scale, row, xerr=error, **look)


def short(name: str) -> str:
    """Return a name that fits into a figure: the middle of a long one is left out. Tables show it in full."""
    name = plain(name)
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 14]}…{name[-13:]}"
