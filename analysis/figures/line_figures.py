"""Figures of values along a condition, with intervals: a line for each variant, or a panel where variants outnumber colours."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer

from analysis import formatting
from analysis.figures.drawing import intervals, legend, panels
from analysis.figures.labels import Styles, VariantStyle, numbered_style, shorts
from analysis.figures.style import FAINT, INK, PALETTE, Drawing, style
from analysis.results.profiles import Profile
from analysis.results.trends import Trend
from analysis.stats import Estimate
from experiments.metric import Metric

DODGE = 0.25  # of the distance of two points: over how much of it the bars of several lines are spread
COLUMNS = 3  # panels side by side
PANEL, TITLE_LINE = 1.25, 0.14  # inches: the height of a panel, and of a line of its title
TITLE = 20  # characters of a line of a title
ROOM = 1 / 6  # of the axis: what the text of a point needs


@dataclass(frozen=True)
class Condition:
    """What lines are drawn along. `points`: their texts. `places`: where they are on the axis, at least 1 apart.

    `unit`: of the points. `axis`, `values`: the labels of the axes. `differences`: whether the values of `metric` are some.
    """

    points: Sequence[str]
    places: Sequence[float]
    unit: str
    axis: str
    values: str
    metric: Metric
    differences: bool = False


@dataclass(frozen=True)
class Line:
    """The estimates of one variant, by point. `id`: how the ids of its artists start."""

    name: str
    style: VariantStyle
    id: str
    estimates: Sequence[Estimate]


@style()
def draw_trend(trend: Trend, styles: Styles) -> Drawing:
    """Draw the differences from the baseline along a condition."""
    lines = []
    for number, (row, name) in enumerate(zip(trend.diffs, shorts(list(trend.diffs)), strict=True)):
        look = styles.by_variant.get(row) or numbered_style(number)
        start = styles.id(row) if row in styles.by_variant else f"row{number}"
        lines.append(Line(name, look, f"{start}-{trend.name}", list(trend.diffs[row].values())))
    values = f"difference{', points' if trend.metric.is_share else ''}"
    points = [f"{point:,}" for point in trend.points]
    along = Condition(points, range(len(points)), trend.unit, trend.unit, values, trend.metric, differences=True)
    figure = _draw(lines, along)
    for axes in figure.axes:
        axes.axhline(0, color=FAINT, lw=1, zorder=1)
    return figure


@style()
def draw_profile(profile: Profile, baseline: str, styles: Styles, words: tuple[str, str, str]) -> Drawing:
    """Draw a metric under several conditions. `words`: the unit of the points, and the labels of both axes."""
    lines = [
        Line(name, look, f"{styles.id(variant)}-{profile.name}", [profile.means[at][variant] for at in profile.metrics])
        for (variant, look), name in zip(styles.by_variant.items(), styles.names.values(), strict=True)
    ]
    points = [f"{point:,}" for point in profile.points]
    along = Condition(points, profile.places, *words, metric=profile.metrics[-1])
    return _draw(lines, along, styles.names[baseline])


def spaced(points: Sequence[str], places: Sequence[float]) -> list[str]:
    """The texts of the points from the last one on; "" for those that the next text leaves no room for."""
    least, shown, texts = ROOM * (places[-1] - places[0]), math.inf, []
    for text, place in zip(reversed(points), reversed(places), strict=True):
        fits = shown - place >= least
        texts.append(text if fits else "")
        shown = place if fits else shown
    return texts[::-1]


def _draw(lines: Sequence[Line], along: Condition, baseline: str = "") -> Drawing:
    """Draw all lines in one panel, or each in its own if one of them has no colour. `baseline`: the name of the line that
    every panel shows, dashed and without intervals.
    """
    if any(line.style.colour == FAINT for line in lines):
        return _draw_panels(lines, along, baseline)
    figure, (axes,) = panels(1, 2.8)
    handles = []
    for number, line in enumerate(lines):
        shift = DODGE * ((number + 0.5) / len(lines) - 0.5)  # so that none hides another
        handles.append(_draw_line(axes, line, along, line.style, shift))
    axes.set_xticks(list(along.places), along.points)
    axes.set_xlabel(along.axis)
    axes.set_ylabel(along.values)
    axes.grid(axis="y")
    legend(figure, handles, [line.name for line in lines])
    return figure


def _draw_panels(lines: Sequence[Line], along: Condition, baseline: str) -> Drawing:
    """A panel for each line, over the lines of all others in grey."""
    titles = [textwrap.fill(line.name, TITLE, break_on_hyphens=False) for line in lines]
    down = -(-len(lines) // COLUMNS)
    figure = Drawing((PANEL + TITLE_LINE * max(title.count("\n") for title in titles)) * down + 0.6)
    tiles = list(figure.subplots(down, COLUMNS, sharex=True, sharey=True, squeeze=False).ravel())
    means = [[estimate.value * along.metric.scale for estimate in line.estimates] for line in lines]
    for axes, line, title in zip(tiles, lines, titles, strict=False):
        for other, values in zip(lines, means, strict=True):
            if other.name == baseline != line.name:
                axes.plot(along.places, values, color=INK, lw=1, ls="--", zorder=2)
            elif other is not line:
                axes.plot(along.places, values, color=FAINT, lw=0.5, alpha=0.4, zorder=1)
        _draw_line(axes, line, along, VariantStyle(INK if line.name == baseline else PALETTE[0], "o"), size=3)
        axes.set_xticks(list(along.places), spaced(along.points, along.places), fontsize=8)
        axes.tick_params(axis="y", labelsize=8)
        axes.set_title(title, fontsize=8.5, fontweight="normal")
        axes.grid(axis="y")
    for axes in tiles[len(lines) :]:
        axes.set_visible(False)
    for axes in tiles[max(0, len(lines) - COLUMNS) : len(lines)]:
        axes.tick_params(labelbottom=True)
    figure.supxlabel(along.axis, fontsize=10)
    figure.supylabel(along.values, fontsize=10)
    return figure


def _draw_line(
    axes: Axes, line: Line, along: Condition, look: VariantStyle, shift: float = 0, size: float = 5
) -> ErrorbarContainer:
    metric, signed = along.metric, along.differences
    limits = formatting.UNBOUNDED if signed else formatting.limits(metric)
    tips = [
        f"{line.name}, {point} {along.unit}: {formatting.with_interval(estimate, metric.scale, signed, limits=limits)}"
        for point, estimate in zip(along.points, line.estimates, strict=True)
    ]
    places, dashes = [place + shift for place in along.places], look.dashes
    return intervals(
        axes,
        line.estimates,
        places,
        metric,
        look,
        vertical=True,
        difference=signed,
        size=size,
        line=dashes,
        id=line.id,
        tips=tips,
    )
