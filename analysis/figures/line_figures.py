"""Learning curves, and values along a condition; a variant without a colour has a thin grey line."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from analysis import formatting
from analysis.figures.drawing import identify, intervals, legend, panels
from analysis.figures.labels import Styles
from analysis.figures.style import FAINT, Drawing, style
from analysis.stats import Estimate
from experiments.metric import Metric

if TYPE_CHECKING:
    from analysis.answers.metrics.compute import Curves
    from analysis.answers.profiles.compute import Profile
    from analysis.answers.trends.compute import Trend

FEWEST_FOR_BAND = 5  # runs from which a curve has a band; the interval of fewer can fill the panel
MOST_POINTS = 40  # epochs of a curve whose values the page shows under the pointer
DODGE = 0.25  # of the distance of two points: over how much of it the bars of several lines are spread


@style()
def draw_trend(trend: Trend, styles: Styles) -> Drawing:
    """Draw the differences from the baseline along a condition. `styles`: of the rows."""
    diffs = {row: list(by_point.values()) for row, by_point in trend.diffs.items()}
    figure, axes = _draw(
        trend.name, diffs, styles, trend.points, range(len(trend.points)), trend.unit, trend.metric, True
    )
    axes.axhline(0, color=FAINT, lw=1, zorder=1)
    axes.set_xlabel(trend.unit)
    axes.set_ylabel(f"difference{trend.metric.difference_unit}")
    return figure


@style()
def draw_profile(profile: Profile, styles: Styles, unit: str, axis: str, values: str) -> Drawing:
    """Draw a metric under several conditions. `unit`: of the points; `axis`, `values`: the labels of the axes."""
    points, metrics = list(profile.points), list(profile.points.values())
    means = {variant: [profile.means[metric][variant] for metric in metrics] for variant in styles.by_variant}
    figure, axes = _draw(profile.name, means, styles, points, profile.places, unit, metrics[-1])
    axes.set_xlabel(axis)
    axes.set_ylabel(values)
    return figure


def _draw(
    name: str,
    estimates: Mapping[str, Sequence[Estimate]],
    styles: Styles,
    points: Sequence[int],
    places: Sequence[float],
    unit: str,
    metric: Metric,
    differences: bool = False,
) -> tuple[Drawing, Axes]:
    """Draw a line for each variant. `estimates`: variant -> one for each point. `places`: of the points on the axis, at
    least 1 apart; the lines are spread around each place.
    """
    figure, (axes,) = panels(1, 2.8)
    handles = {}
    for number, (variant, along) in enumerate(estimates.items()):
        look = styles.by_variant[variant]
        if look.colour == FAINT or not any(math.isfinite(estimate.value) for estimate in along):
            axes.plot(places, [estimate.value * metric.scale for estimate in along], color=FAINT, lw=0.6, zorder=1)
            continue
        shift = DODGE * ((number + 0.5) / len(estimates) - 0.5)
        shown = [formatting.with_interval(estimate, metric, differences) for estimate in along]
        handles[variant] = intervals(
            axes,
            along,
            [place + shift for place in places],
            metric,
            look,
            vertical=True,
            difference=differences,
            size=5,
            line=look.dashes,
            id=f"{styles.id(variant)}-{name}",
            tips=[f"{styles.names[variant]}, {at:,} {unit}: {value}" for at, value in zip(points, shown, strict=True)],
        )
    axes.set_xticks(list(places), [f"{point:,}" for point in points])
    axes.grid(axis="y")
    legend(figure, handles, styles)
    return figure, axes


@style()
def draw_curves(metrics: Curves, styles: Styles) -> Drawing:
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
    tips = [f"{name}, epoch {epoch:g}: {formatting.value(value, metric)}" for epoch, value in shown.items()]
    identify(marks, id, tips)
