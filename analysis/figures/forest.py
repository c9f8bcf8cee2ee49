"""Forest plots: a row for each estimate, with its interval, its runs and its verdict, on one axis with the margin."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from analysis.figures.drawing import intervals, label_rows, legend, rows
from analysis.figures.style import BAND, FAINT, VERDICTS, Drawing, style
from analysis.figures.styles import VariantStyle, shorts
from analysis.verdicts import Estimate
from experiments.metric import Metric

WIDTH = 6.5  # inches, where the user gives none
NARROW = 4.6  # inches, up to which the axis has few ticks
MOST_DRAWN = 200  # rows of a figure; of more, the first and the last half as many
EDGE = 0.03  # of the axis: what is free at both ends


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
        margin = self.margin or 0.0
        estimates = [end for bar in self.bars for end in (bar.estimate.value, bar.estimate.low, bar.estimate.high)]
        known = [value for value in (*estimates, *(run for bar in self.bars for run in bar.runs.values()))]
        known = [-margin, margin, *filter(math.isfinite, known)]
        free = EDGE * (max(known) - min(known)) or 1.0
        return min(known) - free, max(known) + free

    def ticks(self, most: int = 6) -> dict[float, str]:
        """The values of the axis that have a text, about so many."""
        low, high = (end * self.metric.scale for end in self.limits)
        values = MaxNLocator(most, steps=[1, 2, 5, 10]).tick_values(low, high)
        return {value / self.metric.scale: f"{value:.6g}".replace("-", "−") for value in values if low <= value <= high}

    @property
    def shortened(self) -> Forest:
        """The rows that a figure has room for."""
        half = MOST_DRAWN // 2
        return self if len(self.bars) <= MOST_DRAWN else replace(self, bars=(*self.bars[:half], *self.bars[-half:]))

    def place(self, value: float) -> float:
        """Where a value lies on the axis, from 0 to 1."""
        low, high = self.limits
        return (value - low) / (high - low)


@style()
def draw_forest(panels: Mapping[str, Forest], width: float = WIDTH, axes: Axes | None = None) -> Drawing | Axes:
    """Draw forest plots below each other. `panels`: title -> plot. `width`: in inches. `axes`: where the only one goes,
    which is then returned instead of a new figure.
    """
    most = 5 if width > NARROW else 2
    panels = {title: forest.shortened for title, forest in panels.items()}
    names = [shorts([bar.name for bar in forest.bars]) for forest in panels.values()]
    figure, sides = rows(*names, width=width) if axes is None else (None, [axes])
    for number, (side, (title, forest)) in enumerate(zip(sides, panels.items(), strict=True)):
        if axes is not None:
            label_rows(side, names[0], 9.5)
        side.set_title(title, loc="left", fontweight="normal")
        _draw(side, forest, most, number)
    drawn = {bar.verdict for forest in panels.values() for bar in forest.bars if math.isfinite(bar.estimate.value)}
    looks = {word: look for word, look in VERDICTS.items() if word in drawn}
    handles = {word: sides[0].plot([], [], mark, color=colour, ms=6)[0] for word, (colour, mark) in looks.items()}
    if figure is None:
        sides[0].legend(handles.values(), handles)
        return sides[0]
    legend(figure, handles)
    return figure


def _draw(axes: Axes, forest: Forest, most: int, number: int) -> None:
    """One forest plot. `most`: ticks of its axis; `number`: of the panel."""
    scale = forest.metric.scale
    axes.set_xlim(*(end * scale for end in forest.limits))
    ticks = forest.ticks(most)
    axes.set_xticks([value * scale for value in ticks], [*ticks.values()])
    axes.set_xlabel(forest.label)
    axes.axvline(0, color=FAINT, lw=1, zorder=1)
    if forest.margin:
        axes.axvspan(*(forest.margin * scale * np.array([-1, 1])), color=BAND, lw=0, zorder=0)
    for row, bar in enumerate(forest.bars):
        runs = [value * scale for value in bar.runs.values() if math.isfinite(value)]
        axes.plot(runs, np.full(len(runs), row + 0.27), "o", ms=2.5, mew=0, color=FAINT, zorder=2)
        id, look = f"bar-{number}-{row}", VariantStyle(*VERDICTS[bar.verdict])
        intervals(axes, [bar.estimate], [row], forest.metric, look, difference=True, id=id)
        place = axes.get_yaxis_transform()
        axes.annotate(f" {bar.text}", (1, row), xycoords=place, va="center", fontsize="small")
