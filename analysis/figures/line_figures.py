"""Figures of lines: learning curves, and values along a condition, with a thin grey line for each variant without a colour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from analysis import formatting
from analysis.figures.drawing import identify, intervals, legend, panels, variants_legend
from analysis.figures.labels import Styles, VariantStyle, numbered_style, shorts
from analysis.figures.style import FAINT, Drawing, style
from analysis.results.profiles import Profile
from analysis.results.training import Curves
from analysis.results.trends import Trend
from analysis.stats import Estimate
from experiments.metric import Metric

MOST_POINTS = 40  # epochs of a curve whose values the page shows under the pointer
DODGE = 0.25  # of the distance of two points: over how much of it the bars of several lines are spread


class Line(NamedTuple):
    """The estimates of one variant, by point. `id`: how the ids of its artists start."""

    name: str
    look: VariantStyle
    id: str
    estimates: list[Estimate]


def trend_looks(trend: Trend, styles: Styles) -> dict[str, VariantStyle]:
    """How each row is drawn: as the variant that it is, else by its number."""
    return {row: styles.by_variant.get(row) or numbered_style(number) for number, row in enumerate(trend.diffs)}


@style()
def draw_trend(trend: Trend, styles: Styles) -> Drawing:
    """Draw the differences from the baseline along a condition."""
    looks, names = trend_looks(trend, styles), shorts(list(trend.diffs))
    ids = [styles.id(row) if row in styles.by_variant else f"row{number}" for number, row in enumerate(looks)]
    lines = [
        Line(name, looks[row], f"{id}-{trend.name}", list(diffs.values()))
        for id, name, (row, diffs) in zip(ids, names, trend.diffs.items(), strict=True)
    ]
    figure, axes = _draw(lines, trend.points, range(len(trend.points)), trend.unit, trend.metric, differences=True)
    axes.axhline(0, color=FAINT, lw=1, zorder=1)
    axes.set_xlabel(trend.unit)
    axes.set_ylabel(f"difference{trend.metric.difference_unit}")
    return figure


@style()
def draw_profile(profile: Profile, styles: Styles, unit: str, axis: str, values: str) -> Drawing:
    """Draw a metric under several conditions. `unit`: of the points; `axis`, `values`: the labels of the axes."""
    lines = [
        Line(name, look, f"{styles.id(variant)}-{profile.name}", [profile.means[at][variant] for at in profile.metrics])
        for (variant, look), name in zip(styles.by_variant.items(), styles.names.values(), strict=True)
    ]
    figure, axes = _draw(lines, list(profile.points), profile.places, unit, profile.metrics[-1])
    axes.set_xlabel(axis)
    axes.set_ylabel(values)
    return figure


def _draw(
    lines: Sequence[Line],
    points: Sequence[int],
    places: Sequence[float],
    unit: str,
    metric: Metric,
    differences: bool = False,
) -> tuple[Drawing, Axes]:
    """`places`: where the points are on the axis, at least 1 apart. The lines are spread around each place."""
    figure, (axes,) = panels(1, 2.8)
    limits, handles = formatting.UNBOUNDED if differences else formatting.limits(metric), {}
    for number, (name, look, id, estimates) in enumerate(lines):
        if look.colour == FAINT:
            axes.plot(places, [estimate.value * metric.scale for estimate in estimates], color=FAINT, lw=0.6, zorder=1)
            continue
        shift = DODGE * ((number + 0.5) / len(lines) - 0.5)
        shown = [formatting.with_interval(estimate, metric.scale, differences, limits=limits) for estimate in estimates]
        tips = [f"{name}, {point:,} {unit}: {value}" for point, value in zip(points, shown, strict=True)]
        handles[name] = intervals(
            axes,
            estimates,
            [place + shift for place in places],
            metric,
            look,
            vertical=True,
            difference=differences,
            size=5,
            line=look.dashes,
            id=id,
            tips=tips,
        )
    axes.set_xticks(list(places), [f"{point:,}" for point in points])
    axes.grid(axis="y")
    legend(figure, list(handles.values()), list(handles))
    return figure, axes


@style()
def draw_curves(metrics: Curves, styles: Styles) -> Drawing:
    """Draw the mean of each metric by epoch, with the band of its interval, for the variants with a colour."""
    figure, below = panels(len(metrics), 2.0)
    lines = {}
    for number, (axes, (metric, by_variant)) in enumerate(zip(below, metrics.items(), strict=True)):
        for variant in styles.coloured:
            curve, look, id = by_variant[variant] * metric.scale, styles.by_variant[variant], styles.id(variant)
            (lines[variant],) = axes.plot(curve.index, curve["value"], color=look.colour, lw=1.6, ls=look.dashes)
            area = axes.fill_between(curve.index, curve["low"], curve["high"], color=look.colour, alpha=0.18, lw=0)
            identify([lines[variant], area], f"{id}-curve-{number}")
            _add_values(axes, by_variant[variant]["value"], metric, styles.names[variant], f"{id}-values-{number}")
        axes.set_title(f"{metric.label}{metric.unit}", loc="left")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(axis="y")
    below[-1].set_xlabel("epoch")
    variants_legend(figure, lines, styles)
    return figure


def _add_values(axes: Axes, curve: pd.Series, metric: Metric, name: str, id: str) -> None:
    """Add invisible marks, so that the page can show the values of a curve (epoch -> value) under the pointer."""
    step = max(1, math.ceil(len(curve) / MOST_POINTS))
    shown = curve.iloc[::-1].iloc[::step].dropna()
    marks = axes.plot(shown.index, shown * metric.scale, "o", ms=5, alpha=0)
    identify(
        marks, id, [f"{name}, epoch {epoch:g}: {formatting.value(value, metric)}" for epoch, value in shown.items()]
    )
