"""The line of one variant along a condition, and how it is drawn with its intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer

from analysis import formatting
from analysis.figures.labels import VariantStyle
from analysis.figures.style import Tips, bars, name_artists
from analysis.stats import Estimate
from experiments.metric import Metric


@dataclass(frozen=True)
class Condition:
    """What a line is drawn along: the texts of the `points`, their `places` on the horizontal axis, which are at least 1
    apart, the `unit` of the points, the labels of both axes, and the metric on the vertical axis.
    """

    points: Sequence[str]
    places: Sequence[float]
    unit: str
    labels: tuple[str, str]
    metric: Metric


@dataclass(frozen=True)
class Line:
    """The estimates of one variant, by point. `id` is the id of its artists. `signed`: they are differences."""

    name: str
    style: VariantStyle
    id: str
    estimates: Sequence[Estimate]
    signed: bool = False

    def values(self, metric: Metric) -> list[float]:
        """The means in the unit of the axis."""
        return [estimate.value * metric.scale for estimate in self.estimates]

    def limits(self, metric: Metric) -> tuple[float, float]:
        """What the estimates can be."""
        return formatting.UNBOUNDED if self.signed else formatting.limits(metric)

    def tips(self, along: Condition) -> list[str]:
        """A text for each mark."""
        scale, limits = along.metric.scale, self.limits(along.metric)
        return [
            f"{self.name}, {point} {along.unit}: {formatting.with_interval(estimate, scale, self.signed, limits=limits)}"
            for point, estimate in zip(along.points, self.estimates, strict=True)
        ]


def draw_line(
    axes: Axes, line: Line, along: Condition, tips: Tips, look: Mapping[str, Any], shift: float = 0, ms: float = 5
) -> ErrorbarContainer:
    """Draw the means with their intervals. `look`: colour, marker and dashes, as matplotlib takes them."""
    metric, places = along.metric, [place + shift for place in along.places]
    error = bars(line.estimates, metric.scale, line.limits(metric))
    handle = axes.errorbar(places, line.values(metric), yerr=error, ms=ms, lw=1.2, elinewidth=1.4, zorder=3, **look)
    mark, _, segments = handle.lines
    name_artists([mark, *segments], line.id, tips, line.tips(along))
    return handle
