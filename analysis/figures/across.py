"""Figures about several datasets: aggregates of the variants, and probabilities of improvement. Results in, figures out."""

from __future__ import annotations

from collections.abc import Mapping

from analysis import formatting
from analysis.across import AGGREGATES, AcrossDatasets
from analysis.figures import captions
from analysis.figures.drawing import intervals, rows
from analysis.figures.labels import VariantStyle, short, shorts
from analysis.figures.style import FAINT, INK, PALETTE, VERDICTS, Drawing, Plot, style


def across_plots(across: AcrossDatasets) -> list[Plot]:
    """Return the figure of the aggregates and, with two variants or more, that of the probabilities of improvement."""
    metric = across.first.study.metric
    means = {variant: found["mean"].estimate for variant, found in across.scores.items()}
    texts = captions.aggregates(metric, list(across.studies), means)
    plots = [Plot("across", _aggregates(across), *texts)]
    if across.improvement:
        shares: Mapping[str, str] = {
            variant: f"{formatting.number(100 * found.estimate.value, 0)} %"
            for variant, found in across.improvement.items()
        }
        texts = captions.improvement(across.first.study.baseline, shares)
        plots.append(Plot("improvement", _improvement(across), *texts))
    return plots


@style()
def _aggregates(across: AcrossDatasets) -> Drawing:
    """Draw one panel for each aggregate, one row for each variant."""
    metric = across.first.study.metric
    names = [name for name in AGGREGATES if name in next(iter(across.scores.values()))]
    figure, panels = rows(shorts(across.variants), columns=len(names))
    for axes, name in zip(panels, names):
        for row, variant in enumerate(across.variants):
            baseline = variant == across.first.study.baseline
            look = VariantStyle(INK, "D") if baseline else VariantStyle(PALETTE[0], "o")
            intervals(axes, [across.scores[variant][name].estimate], [row], metric, look)
        axes.set_title(AGGREGATES[name], loc="left", fontweight="normal")
        axes.set_xlabel(f"{metric.label}{metric.unit}")
    return figure


@style()
def _improvement(across: AcrossDatasets) -> Drawing:
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
    baseline = across.first.study.baseline
    axes.set_xlabel(f"probability of improvement over {short(baseline)}, %")
    return figure
