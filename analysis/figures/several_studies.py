"""The figures about several studies: the means of two, and aggregates over datasets."""

from __future__ import annotations

from analysis.figures.drawing import intervals, legend, rows
from analysis.figures.labels import VariantStyle, shorts
from analysis.figures.style import INK, PALETTE, Drawing, style
from analysis.formatting import named_mean
from analysis.results.across import AGGREGATES, AcrossDatasets
from analysis.results.two_studies import TwoStudies

LOOKS = ((-0.14, VariantStyle(PALETTE[1], "o")), (0.14, VariantStyle(PALETTE[0], "D")))  # of A and B


@style()
def draw_two(both: TwoStudies) -> Drawing:
    """Draw the means of A and B with their intervals, one line for each variant."""
    metric, handles, variants = both.a.means.metric, [], list(both.changes)
    figure, (axes,) = rows(shorts(variants))
    for (side, results), (offset, look) in zip(both.sides.items(), LOOKS):
        estimates = [results.means.of(variant) for variant in variants]
        tips = [named_mean(f"{side}: {variant}", mean, metric) for variant, mean in zip(variants, estimates)]
        places = [row + offset for row in range(len(variants))]
        handles.append(intervals(axes, estimates, places, metric, look, id=side, tips=tips))
    axes.set_xlabel(f"{metric.label}{metric.unit}")
    legend(figure, handles, list(both.sides))
    return figure


@style()
def draw_aggregates(across: AcrossDatasets) -> Drawing:
    """Draw one panel for each aggregate, one row for each variant."""
    metric, variants = across.policy.metric, list(across.scores)
    names = list(across.scores[across.baseline])
    figure, panels = rows(shorts(variants), columns=len(names))
    for axes, name in zip(panels, names):
        for row, variant in enumerate(variants):
            look = VariantStyle(INK, "D") if variant == across.baseline else VariantStyle(PALETTE[0], "o")
            intervals(axes, [across.scores[variant][name].estimate], [row], metric, look)
        axes.set_title(AGGREGATES[name], loc="left", fontweight="normal")
        axes.set_xlabel(f"{metric.label}{metric.unit}")
    return figure
