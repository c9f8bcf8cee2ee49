"""Learning curves, and values along a condition; a variant without a colour has a thin grey line."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from analysis import words
from analysis.figures.drawing import identify, intervals, legend, panels
from analysis.figures.style import FAINT, Drawing, style
from analysis.figures.styles import Styles
from analysis.verdicts import Estimate
from experiments.metric import Metric

FEWEST_FOR_BAND = 5  # runs from which a curve has a band; the interval of fewer can fill the panel
MOST_POINTS = 40  # epochs of a curve whose values the page shows under the pointer
DODGE = 0.25  # of the distance of two points: over how much of it the bars of several lines are spread


class Curve(NamedTuple):
    """The runs of a variant by epoch. `mean`: `value`, `low` and `high`; `runs`: a column for each run."""

    mean: pd.DataFrame
    runs: pd.DataFrame


@style()
def draw_along(
    name: str,
    lines: Mapping[str, Mapping[str, Sequence[Estimate]]],
    points: Sequence[int],
    labels: tuple[str, str],
    unit: str,
    metric: Metric,
    styles: Styles,
    *,
    to_scale: bool = False,
    differences: bool = False,
) -> Drawing:
    """Draw a line along a condition for each variant. `lines`: title of a panel -> variant -> one estimate a point.

    `labels`: of both axes, which all panels share; `unit`: of the points, which are at equal distances, unless they are
    `to_scale`.
    """
    smallest = min((after - before for before, after in pairwise(points)), default=1)
    places = [point / smallest for point in points] if to_scale else list(map(float, range(len(points))))
    figure, below = panels(len(lines), 2.8 if len(lines) == 1 else 2.3)
    handles = {}
    for axes, (title, estimates) in zip(below, lines.items(), strict=True):
        if differences:
            axes.axhline(0, color=FAINT, lw=1, zorder=1)
        for number, (variant, along) in enumerate(estimates.items()):
            look = styles.by_variant[variant]
            if look.colour == FAINT or not any(math.isfinite(estimate.value) for estimate in along):
                axes.plot(places, [estimate.value * metric.scale for estimate in along], color=FAINT, lw=0.6, zorder=1)
                continue
            shift = DODGE * ((number + 0.5) / len(estimates) - 0.5)
            at = [place + shift for place in places]
            shown = (words.with_interval(estimate, metric, differences) for estimate in along)
            tips = [f"{styles.names[variant]}, {n:,} {unit}: {value}" for n, value in zip(points, shown, strict=True)]
            id = f"{styles.id(variant)}-{name}{f'-{below.index(axes)}' * (len(below) > 1)}"
            mark: dict[str, Any] = {"size": 5, "line": look.dashes, "id": id, "tips": tips}
            handles[variant] = intervals(axes, along, at, metric, look, vertical=True, difference=differences, **mark)
        axes.set_xticks(list(places), [f"{point:,}" for point in points])
        axes.set_title(title, loc="left")
        axes.set_ylabel(labels[1])
        axes.grid(axis="y")
    ends = [end for axes in below for end in axes.get_ylim()]
    for axes in below:
        axes.set_ylim(min(ends), max(ends))
    below[-1].set_xlabel(labels[0])
    legend(figure, handles, styles)
    return figure


@style()
def draw_curves(metrics: Mapping[Metric, Mapping[str, Curve]], styles: Styles) -> Drawing:
    """Draw the mean of each metric by epoch for the variants with a colour, with its interval or its runs."""
    figure, below = panels(len(metrics), 2.0)
    lines = {}
    for number, (axes, (metric, by_variant)) in enumerate(zip(below, metrics.items(), strict=True)):
        for variant in (variant for variant in styles.coloured if not by_variant[variant].runs.empty):
            curve, runs = (frame * metric.scale for frame in by_variant[variant])
            look, id = styles.by_variant[variant], styles.id(variant)
            (lines[variant],) = axes.plot(curve.index, curve["value"], color=look.colour, lw=1.6, ls=look.dashes)
            if runs.shape[1] < FEWEST_FOR_BAND:
                around: Sequence[Artist] = axes.plot(runs, color=look.colour, lw=0.6, alpha=0.6)
            else:
                low, high = curve["low"], curve["high"]
                around = [axes.fill_between(curve.index, low, high, color=look.colour, alpha=0.18, lw=0)]
            identify([lines[variant], *around], f"{id}-curve-{number}")
            _add_values(axes, by_variant[variant].mean["value"], metric, styles.names[variant], f"{id}-values-{number}")
        axes.set_title(f"{metric.label}{metric.unit}", loc="left")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(axis="y")
    below[-1].set_xlabel("epoch")
    legend(figure, lines, styles)
    return figure


def _add_values(axes: Axes, curve: pd.Series, metric: Metric, name: str, id: str) -> None:
    """Add invisible marks, so that the page can show the values of a curve (epoch -> value) under the pointer."""
    step = max(1, math.ceil(len(curve) / MOST_POINTS))
    shown = curve.iloc[::-1].iloc[::step].dropna()
    marks = axes.plot(shown.index, shown * metric.scale, "o", ms=5, alpha=0)
    tips = [f"{name}, epoch {epoch:g}: {words.value(value, metric)}" for epoch, value in shown.items()]
    identify(marks, id, tips)
