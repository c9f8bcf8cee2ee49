"""The one style of all figures, and the parts they share. Names are drawn as text; no data is known here, no file is
read or written.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import formatting
from analysis.report.render import plain
from analysis.stats import Estimate

INK, PAPER, FAINT, BAND = "#1b1f24", "#fdfefe", "#8b929c", "#e9ecf0"
"""Colours of the page, which the page replaces by its own; no data is drawn in them but FAINT."""


PALETTE = ("#1f86cc", "#de8f05", "#029e73", "#d55e00", "#c069ad", "#b07c42", "#3fa9dd", "#7d8590")
"""Seaborn's "colorblind", darkened or lightened where needed to stand out from white and from black."""


VERDICTS = {
    "better": ("#1f86cc", "^"),
    "worse": ("#d55e00", "v"),
    "equivalent": ("#029e73", "s"),
    "not enough evidence": (FAINT, "o"),
    "baseline": (INK, "D"),
}


STYLE = {
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


LONGEST = 34  # characters of a name that a figure shows


@dataclass(frozen=True)
class Plot:
    """A figure, its file's name, its caption, and the words for those who cannot see it."""

    name: str
    figure: Figure
    caption: str
    alt: str


@contextmanager
def style() -> Iterator[None]:
    """The one style, for making and for saving; nothing outside is changed."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def rows(names: list[str], columns: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure with one line a name, the first on top, over as many panels as `columns`."""
    figure = Figure(figsize=(WIDTH, max(1.5, 0.9 + (ROW if len(names) <= 40 else 0.7 * ROW) * len(names))))
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
    """Draw a mean with its interval on a line of `rows`."""
    if not math.isfinite(estimate.value):
        return
    half = formatting.half_width(estimate) * scale
    axes.errorbar(
        estimate.value * scale,
        row,
        xerr=half if math.isfinite(half) else None,
        color=colour,
        marker=marker,
        ms=size,
        elinewidth=2,
        capsize=0,
        zorder=3,
    )


def short(name: str) -> str:
    """A name that fits into a figure, its middle left out; the tables have all of it."""
    name = plain(name)
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 14]}…{name[-13:]}"
