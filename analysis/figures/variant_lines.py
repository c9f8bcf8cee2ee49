"""The line of one variant along a condition, and how it is drawn with its intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer

from analysis import formatting
from analysis.figures.labels import VariantStyle
from analysis.stats import Estimate
from experiments.metric import Metric


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

    def tips(self, points: Sequence[str], unit: str, metric: Metric) -> list[str]:
        """A text for each mark."""
        limits = self.limits(metric)
        return [
            f"{self.name}, {point} {unit}: {formatting.with_interval(estimate, metric.scale, self.signed, limits=limits)}"
            for point, estimate in zip(points, self.estimates, strict=True)
        ]


def draw_line(
    axes: Axes, line: Line, places: Sequence[float], metric: Metric, look: Mapping[str, Any], ms: float = 5
) -> ErrorbarContainer:
    """Draw the means with their intervals. `look`: colour, marker and dashes, as matplotlib takes them."""
    bars = _bars(line.estimates, metric.scale, line.limits(metric))
    return axes.errorbar(list(places), line.values(metric), yerr=bars, ms=ms, lw=1.2, elinewidth=1.4, zorder=3, **look)


def _bars(estimates: Sequence[Estimate], scale: float, limits: tuple[float, float]) -> list[list[float]]:
    """The lengths of the bars below and above each mean, cut at what the metric can be; 0 where there is no interval."""
    pairs = [
        (each.value - max(each.low, limits[0]), min(each.high, limits[1]) - each.value)
        if math.isfinite(formatting.half_width(each))
        else (0.0, 0.0)
        for each in estimates
    ]
    return [[max(side, 0.0) * scale for side in sides] for sides in zip(*pairs, strict=True)]
