"""The figure about several datasets: the aggregates of the variants."""

from __future__ import annotations

from analysis.figures.drawing import intervals, rows
from analysis.figures.labels import VariantStyle, shorts
from analysis.figures.style import INK, PALETTE, Drawing, style
from analysis.results.across import AGGREGATES, AcrossDatasets


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
