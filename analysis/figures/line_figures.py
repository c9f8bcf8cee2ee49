"""Figures with a line for each variant: how a value changes along a condition. Estimates in, a figure out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from analysis.figures import captions
from analysis.figures.drawing import legend
from analysis.figures.labels import VariantStyle, coloured, labels, numbered_style, shorts, variant_styles
from analysis.figures.panel_figures import draw_panels
from analysis.figures.style import FAINT, INK, PALETTE, Drawing, Plot, style
from analysis.figures.variant_lines import Condition, Line, draw_line
from analysis.results.profiles import Profile, profiles
from analysis.results.study_results import StudyResults
from analysis.results.trends import Trend

DODGE = 0.25  # of the distance of two points: over how much of it their bars are spread


def trend_plots(results: StudyResults) -> list[Plot]:
    """Draw the differences from the baseline along each condition, one figure each."""
    return [_trend_plot(results, trend) for trend in results.trends]


def _trend_plot(results: StudyResults, trend: Trend) -> Plot:
    metric, shown, names = trend.metric, _row_styles(results, trend), shorts(trend.others)
    lines = [
        Line(name, shown[row], f"{_id(results, row, number)}-{trend.name}", list(trend.diffs[row].values()), True)
        for number, (row, name) in enumerate(zip(trend.others, names, strict=True))
    ]
    axes_labels = (trend.unit, f"difference{', points' if metric.is_share else ''}")
    points = [f"{point:,}" for point in trend.points]
    along = Condition(points, range(len(points)), trend.unit, axes_labels, metric)

    many = len(lines) > len(PALETTE)

    figure = draw_panels(lines, None, along) if many else draw_lines(lines, along)
    for axes in figure.axes:
        axes.axhline(0, color=FAINT, lw=1, zorder=1)
    return Plot(f"trend-{trend.name}", figure, *captions.trend(trend, results.policy.intervals, panels=many))


def profile_plots(results: StudyResults) -> list[Plot]:
    """Draw every profile: a metric under several conditions, one figure each."""
    return [_profile_plot(results, profile) for profile in profiles(results) if len(profile.means) > 1]


def _profile_plot(results: StudyResults, profile: Profile) -> Plot:
    """All variants in one panel if each has a colour of its own; else a panel for each variant."""
    shown, metric = variant_styles(results), profile.metrics[-1]
    names = dict(zip(results.variants.names, labels(results, results.variants.names), strict=True))
    lines = {}
    for index, variant in enumerate(results.variants.names):
        estimates = [means[variant] for _, means in profile.means.values()]
        lines[variant] = Line(names[variant], shown[variant], f"v{index}-{profile.name}", estimates)
    along = Condition(list(profile.means), profile.places, profile.unit, (profile.axis, profile.values), metric)
    many, baseline = coloured(results) != results.variants.names, results.study.baseline

    every = list(lines.values())
    figure = draw_panels(every, lines[baseline], along) if many else draw_lines(every, along)
    return Plot(profile.name, figure, *captions.profile(profile, names[baseline] if many else ""))


@style()
def draw_lines(lines: Sequence[Line], along: Condition) -> Drawing:
    """Draw one line for each variant, with intervals. They are spread around each place, so that none hides another."""
    figure = Drawing(2.6)
    axes = figure.subplots()
    handles: list[Any] = []
    for number, line in enumerate(lines):
        shift = DODGE * ((number + 0.5) / len(lines) - 0.5)
        handles.append(draw_line(axes, line, along, line.style, shift))
    axes.set_xticks(list(along.places), along.points)
    axes.set_xlabel(along.labels[0])
    axes.set_ylabel(along.labels[1])
    axes.grid(axis="y")
    legend(figure, handles, [line.name for line in lines])
    return figure


def _row_styles(results: StudyResults, trend: Trend) -> dict[str, VariantStyle]:
    """The style of each row: that of the variant, or one by its number where a row is not a variant."""
    if set(trend.rows) <= set(results.variants.names):
        return variant_styles(results)
    return {trend.baseline: VariantStyle(INK, "D"), **{row: numbered_style(i) for i, row in enumerate(trend.others)}}


def _id(results: StudyResults, row: str, number: int) -> str:
    return f"v{results.variants.names.index(row)}" if row in results.variants.names else f"row{number}"
