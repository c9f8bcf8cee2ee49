"""The figure that compares two studies."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.figures.drawing import intervals, legend, rows
from analysis.figures.labels import VariantStyle, shorts
from analysis.figures.style import PALETTE, Drawing, style
from analysis.formatting import named_mean
from analysis.results.means import Means

SIDES = (("A", -0.14, VariantStyle(PALETTE[1], "o")), ("B", 0.14, VariantStyle(PALETTE[0], "D")))


@style()
def draw_means(variants: Sequence[str], means: Sequence[Means]) -> Drawing:
    """Draw the means of A and B with their intervals, one line for each variant."""
    metric, handles = means[0].metric, []
    figure, (axes,) = rows(shorts(variants))
    for (side, offset, look), own in zip(SIDES, means):
        estimates = [own.of(variant) for variant in variants]
        tips = [named_mean(f"{side}: {variant}", mean, metric) for variant, mean in zip(variants, estimates)]
        places = [row + offset for row in range(len(variants))]
        handles.append(intervals(axes, estimates, places, metric, look, id=side, tips=tips))
    axes.set_xlabel(f"{metric.label}{metric.unit}")
    legend(figure, handles, ["A", "B"])
    return figure
