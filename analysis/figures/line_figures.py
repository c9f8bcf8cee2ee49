"""Figures with a line for each variant: how a value changes along a condition. Estimates in, a figure out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import formatting
from analysis.figures import captions
from analysis.figures.labels import VariantStyle, brief_names, coloured, legend_columns, variant_styles
from analysis.figures.style import FAINT, INK, MARKERS, PALETTE, Plot, Tips, name_artists, narrow, plot, short, width
from analysis.profiles import Profile, profiles
from analysis.results import Results
from analysis.stats import Estimate
from analysis.trends import Trend
from experiments.metric import Metric

DODGE = 0.5  # of the distance of two points: over how much of it their bars are spread


@dataclass(frozen=True)
class Line:
    """The estimates of one variant, by point. `id` is the id of its artists."""

    name: str
    style: VariantStyle
    id: str
    estimates: Sequence[Estimate]


def trend_plots(results: Results) -> list[Plot]:
    """Draw the differences from the baseline along each condition, one figure each."""
    return [_trend_plot(results, trend) for trend in results.trends]


def _trend_plot(results: Results, trend: Trend) -> Plot:
    metric, shown = trend.metric, _row_styles(results, trend)
    lines = [
        Line(short(row), shown[row], f"{_id(results, row, number)}-{trend.name}", list(trend.diffs[row].values()))
        for number, row in enumerate(trend.others)
    ]
    labels = (trend.unit, f"difference{', points' if metric.is_share else ''}")
    points = [f"{point:,}" for point in trend.points]

    def draw(tips: Tips) -> Figure:
        figure, axes = draw_lines(lines, points, labels, metric, tips, signed=True)
        axes.axhline(0, color=FAINT, lw=1, zorder=1)
        return figure

    return plot(f"trend-{trend.name}", draw, *captions.trend(trend))


def profile_plots(results: Results) -> list[Plot]:
    """Draw every profile: a metric under several conditions, one figure each."""
    return [_profile_plot(results, profile) for profile in profiles(results) if len(profile.means) > 1]


def _profile_plot(results: Results, profile: Profile) -> Plot:
    names, shown, metric = brief_names(results), variant_styles(results), profile.metrics[-1]
    lines = []
    for variant in coloured(results):
        id = f"v{results.variants.index(variant)}-{profile.name}"
        estimates = [means[variant] for _, means in profile.means.values()]
        lines.append(Line(short(names[variant]), shown[variant], id, estimates))
    labels = (profile.unit, f"{'consistency' if profile.name == 'shifts' else 'accuracy'}, %")

    def draw(tips: Tips) -> Figure:
        return draw_lines(lines, list(profile.means), labels, metric, tips)[0]

    return plot(profile.name, draw, *captions.profile(profile))


def draw_lines(
    lines: Sequence[Line],
    points: Sequence[str],
    labels: tuple[str, str],
    metric: Metric,
    tips: Tips,
    signed: bool = False,
) -> tuple[Figure, Axes]:
    """Draw one line for each variant over equally spaced points, with intervals. `labels`: of the axes."""
    columns = legend_columns([line.name for line in lines])
    figure = Figure(figsize=(width(), (2.6 if narrow() else 3.2) + 0.19 * -(-len(lines) // columns)))
    axes = figure.subplots()
    limits = formatting.UNBOUNDED if signed else formatting.limits(metric)
    handles: list[Any] = []
    for number, line in enumerate(lines):
        shift = DODGE * ((number + 0.5) / len(lines) - 0.5)
        values = [estimate.value * metric.scale for estimate in line.estimates]
        look: dict[str, Any] = {"color": line.style.colour, "marker": line.style.marker, "ls": line.style.dashes}
        places = [place + shift for place in range(len(points))]
        handle = axes.errorbar(
            places, values, yerr=_bars(line.estimates, metric.scale, limits), ms=5, lw=1.2, elinewidth=1.4, **look
        )
        texts = [
            f"{line.name}, {point} {labels[0]}: {formatting.with_interval(estimate, metric.scale, signed, limits=limits)}"
            for point, estimate in zip(points, line.estimates, strict=True)
        ]
        mark, _, segments = handle.lines
        name_artists([mark, *segments], line.id, tips, texts)
        handles.append(handle)
    axes.set_xticks(range(len(points)), points)
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    axes.grid(axis="y")
    names = [line.name for line in lines]
    figure.legend(handles, names, loc="outside lower center", ncols=columns, fontsize=9)
    return figure, axes


def _bars(estimates: Sequence[Estimate], scale: float, limits: tuple[float, float]) -> list[list[float]]:
    """The lengths of the bars below and above each mean, cut at what the metric can be; 0 where there is no interval."""
    pairs = [
        (each.value - max(each.low, limits[0]), min(each.high, limits[1]) - each.value)
        if math.isfinite(formatting.half_width(each))
        else (0.0, 0.0)
        for each in estimates
    ]
    return [[max(side, 0.0) * scale for side in sides] for sides in zip(*pairs, strict=True)]


def _row_styles(results: Results, trend: Trend) -> dict[str, VariantStyle]:
    """The style of each row: that of the variant, or one by its number where a row is not a variant."""
    if set(trend.rows) <= set(results.variants):
        return variant_styles(results)
    found = {trend.baseline: VariantStyle(INK, "D", "-")}
    for index, row in enumerate(trend.others):
        known = index < len(PALETTE)
        found[row] = VariantStyle(PALETTE[index], MARKERS[index], "-") if known else VariantStyle(FAINT, "o", "-")
    return found


def _id(results: Results, row: str, number: int) -> str:
    return f"v{results.variants.index(row)}" if row in results.variants else f"row{number}"
