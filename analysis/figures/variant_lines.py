"""The line of one variant along a condition, and how it is drawn with its intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer

from analysis import formatting
from analysis.figures.drawing import intervals
from analysis.figures.labels import VariantStyle
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

    def tips(self, along: Condition) -> list[str]:
        """A text for each mark."""
        scale = along.metric.scale
        limits = formatting.UNBOUNDED if self.signed else formatting.limits(along.metric)
        return [
            f"{self.name}, {point} {along.unit}: {formatting.with_interval(estimate, scale, self.signed, limits=limits)}"
            for point, estimate in zip(along.points, self.estimates, strict=True)
        ]


def draw_line(
    axes: Axes, line: Line, along: Condition, look: VariantStyle, shift: float = 0, size: float = 5
) -> ErrorbarContainer:
    """Draw the means with their intervals, joined by a line."""
    places = [place + shift for place in along.places]
    return intervals(
        axes,
        line.estimates,
        places,
        along.metric,
        look,
        vertical=True,
        difference=line.signed,
        size=size,
        line=look.dashes,
        id=line.id,
        tips=line.tips(along),
    )
