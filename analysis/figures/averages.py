"""Figures about several datasets: aggregates of the variants, and probabilities of improvement."""

from __future__ import annotations

from analysis.figures.drawing import intervals, rows
from analysis.figures.labels import VariantStyle, short, shorts
from analysis.figures.style import FAINT, INK, PALETTE, VERDICTS, Drawing, style
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


@style()
def draw_improvement(across: AcrossDatasets) -> Drawing:
    """Draw the probability that each variant beats the baseline; the line at one half is no improvement."""
    variants = list(across.improvement)
    figure, (axes,) = rows(shorts(variants))
    axes.axvline(50, color=FAINT, lw=1, zorder=1)
    for row, variant in enumerate(variants):
        estimate = across.improvement[variant].estimate
        colour, marker = VERDICTS[across.differences[variant].verdict]
        axes.plot([100 * estimate.low, 100 * estimate.high], [row, row], color=colour, lw=2, zorder=2)
        axes.plot(100 * estimate.value, row, marker, color=colour, ms=6, zorder=3)
    axes.set_xlim(-2, 102)
    axes.set_xlabel(f"probability of improvement over {short(across.baseline)}, %")
    return figure
