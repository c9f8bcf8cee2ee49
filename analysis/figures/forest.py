"""Forest plots: a row for each estimate, with its interval, its runs and its verdict, on one axis with the margin."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from analysis.figures.drawing import identify, legend, panels, shorts
from analysis.figures.style import FAINT, INK, VERDICTS, Drawing, ink, style
from analysis.verdicts import Estimate
from analysis.words import verdicts
from experiments.errors import UserError
from experiments.metric import Metric

WIDTH = 6.5  # inches
EDGE = 0.03  # of the axis: what is free at both ends
ROW = 0.31  # inches of a row, two lines of its name
NAME_LINE = 22  # characters of a line of a row's name


@dataclass(frozen=True)
class Bar:
    """A row. `runs`: what is said of each run -> its value; `text`: what stands at the right of it."""

    name: str
    estimate: Estimate
    verdict: str
    text: str
    runs: Mapping[str, float]


@dataclass(frozen=True)
class Forest:
    """A forest plot, in the unit of the data. `zero`: what the line at zero is called, `ends`: what lies at each side.

    `label`: of the axis; `margin`: a band at both sides of zero.
    """

    bars: tuple[Bar, ...]
    metric: Metric
    label: str
    zero: str = ""
    ends: tuple[str, str] = ("", "")
    margin: float | None = None

    @cached_property
    def limits(self) -> tuple[float, float]:
        """The ends of the axis."""
        margin, estimates = self.margin or 0.0, [bar.estimate for bar in self.bars]
        ends = [end for estimate in estimates for end in (estimate.value, estimate.low, estimate.high)]
        values = [*ends, *(run for bar in self.bars for run in bar.runs.values())]
        known = [-margin, margin, *filter(math.isfinite, values)]
        free = EDGE * (max(known) - min(known)) or 1.0
        return min(known) - free, max(known) + free

    def ticks(self, most: int = 6) -> dict[float, str]:
        """The values of the axis that have a text, about so many."""
        low, high = (end * self.metric.scale for end in self.limits)
        values = MaxNLocator(most, steps=[1, 2, 5, 10]).tick_values(low, high)
        return {value / self.metric.scale: f"{value:.6g}".replace("-", "−") for value in values if low <= value <= high}

    def place(self, value: float) -> float:
        """Where a value lies on the axis, from 0 to 1."""
        low, high = self.limits
        return (value - low) / (high - low)


@style()
def draw_forest(forests: Mapping[str, Forest], width: float = WIDTH, new: Callable[..., Any] = Drawing) -> Drawing:
    """Draw forest plots below each other. `forests`: title -> plot; `width`: in inches; `new`: makes the figure."""
    heights = (max(1.5, 0.9 + ROW * len(forest.bars)) for forest in forests.values())
    figure, below = panels(*heights, width=width, new=new)
    marks = dict[str, Artist]()
    for number, (axes, (title, forest)) in enumerate(zip(below, forests.items(), strict=True)):
        axes.set_title(title, loc="left")
        marks |= _draw(axes, forest, f"bar-{number}")
    drawn = [verdict for verdict in VERDICTS if verdict in marks]
    legend(figure, dict(zip(verdicts(drawn), map(marks.__getitem__, drawn))))
    return figure


@style()
def plot_forest(forests: Mapping[str, Forest], width: float = WIDTH, axes: Axes | None = None) -> Axes:
    """Draw in a figure of pyplot, or a single plot on `axes`; return the (first) axes."""
    if axes is None:
        from matplotlib import pyplot

        return draw_forest(forests, width, partial(pyplot.figure, FigureClass=Drawing)).axes[0]
    if len(forests) > 1:
        raise UserError(f"plot: ax: {len(forests)} datasets need a figure of their own; expected one dataset")
    marks = _draw(axes, next(iter(forests.values())), "bar-0")
    axes.legend([*marks.values()], verdicts([*marks]), loc="lower left", bbox_to_anchor=(0, 1), ncols=4)
    return axes


def _draw(axes: Axes, forest: Forest, id: str) -> dict[str, Artist]:
    """Draw one forest plot; return verdict -> a mark of it. `id`: what the ids of its rows start with."""
    scale, marks = forest.metric.scale, dict[str, Artist]()
    names = [textwrap.fill(name, NAME_LINE, break_on_hyphens=False) for name in shorts([b.name for b in forest.bars])]
    as_math: dict[str, Any] = {"parse_math": matplotlib.rcParams["text.parse_math"]}  # the texts of given axes exist
    ticks = forest.ticks(max(2, int(axes.bbox.width / axes.figure.dpi)))
    axes.set_xlim(*(end * scale for end in forest.limits))
    axes.set_xticks([value * scale for value in ticks], [*ticks.values()])
    axes.set_xlabel(forest.label, **as_math)
    axes.set_yticks(range(len(names)), names, fontsize="small", **as_math)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    axes.axvline(0, color=FAINT, lw=1, zorder=1)
    if forest.margin:
        axes.axvspan(-forest.margin * scale, forest.margin * scale, color=ink(), alpha=0.09, lw=0, zorder=0)
    for row, bar in enumerate(forest.bars):
        value, low, high = (end * scale for end in (bar.estimate.value, bar.estimate.low, bar.estimate.high))
        runs = [run * scale for run in bar.runs.values() if math.isfinite(run)]
        axes.plot(runs, np.full(len(runs), row + 0.27), "o", ms=2.5, mew=0, color=FAINT, zorder=2)
        axes.annotate(f" {bar.text}", (1, row), xycoords=axes.get_yaxis_transform(), va="center", fontsize="small")
        if math.isfinite(value):
            colour, marker = VERDICTS[bar.verdict]
            look: dict[str, Any] = {"color": ink() if colour == INK else colour, "marker": marker, "ls": ""}
            sides = np.nan_to_num([[value - low], [high - value]])
            mark, _, segments = axes.errorbar([value], [row], xerr=sides, elinewidth=1.8, zorder=3, **look).lines
            identify([mark, *segments], f"{id}-{row}")
            marks[bar.verdict] = mark
    return marks
