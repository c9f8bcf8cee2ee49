"""Figures with a row for each variant: means, differences from the baseline, and those of several studies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes

from analysis import formatting
from analysis.figures.drawing import identify, intervals, legend, rows
from analysis.figures.labels import Styles, VariantStyle, shorts
from analysis.figures.style import BAND, FAINT, INK, PALETTE, VERDICTS, Drawing, style
from analysis.results.means import Means
from analysis.results.policy import Comparisons
from analysis.results.variants import Variants

if TYPE_CHECKING:
    from analysis.answers.across.compute import AcrossDatasets

MANY_POINTS = 1500  # from this number on, points are drawn as pixels, also in SVG
MOST_ENLARGED = 40  # variants up to which a second panel enlarges a range
WIDE_GAP = 0.5  # of the whole range; a gap between variants from which the rest is enlarged


@style()
def accuracy(variants: Variants, means: Means, styles: Styles, diverged: Mapping[str, int]) -> Drawing:
    """Draw every run as a dot, and the mean with its interval; a second panel enlarges most variants if needed.

    `diverged`: variant -> how many runs have no dot.
    """
    shown = list(filter(None, (variants.names, enlarged(means))))
    figure, sides = rows(*([styles.names[variant] for variant in names] for names in shown))
    for number, (axes, names, title) in enumerate(zip(sides, shown, ("all variants", "enlarged"))):
        axes.set_title(title if len(shown) > 1 else "", loc="left", fontweight="normal")
        axes.set_xlabel(f"{means.metric.label}{means.metric.unit}")
        _draw_runs(axes, names, f"{number}", variants, means, styles)
    for row, variant in enumerate(variants.names):
        if diverged[variant]:
            place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": 8}
            sides[0].annotate(f" {diverged[variant]} diverged", (1, row), color=VERDICTS["worse"][0], **place)
    return figure


def _draw_runs(axes: Axes, names: Sequence[str], panel: str, variants: Variants, means: Means, styles: Styles) -> None:
    """Draw the runs of the variants `names` as dots, with jitter, and the mean of each above them."""
    generator, metric = np.random.default_rng(0), means.metric
    many = sum(map(len, means.values.values())) > MANY_POINTS
    for row, variant in enumerate(names):
        look, name, id = styles.by_variant[variant], variants.brief[variant], styles.id(variant)
        runs = {seed: value for seed, value in means.values[variant].items() if math.isfinite(value)}
        jitter = generator.uniform(-0.09, 0.09, len(runs)) * (len(runs) > 1)
        # pixels cannot change with the page's colours
        dot: dict[str, Any] = {"color": FAINT if many and look.colour == INK else look.colour, "rasterized": many}
        values = [value * metric.scale for value in runs.values()]
        dots = axes.plot(values, row + 0.16 + jitter, "o", ms=4, mew=0, alpha=0.6, **dot)
        tips = [f"{name}, seed {seed}: {formatting.value(value, metric)}" for seed, value in runs.items()]
        identify(dots, f"{id}-runs-{panel}", [] if many else tips)
        mean, diamond = means.of(variant), VariantStyle(look.colour, "D")
        tips = [formatting.named_mean(name, mean, metric)]
        intervals(axes, [mean], [row - 0.14], metric, diamond, size=5, id=f"{id}-mean-{panel}", tips=tips)


def enlarged(means: Means) -> list[str]:
    """Return the variants on the side of the widest gap where most are, in their order; none if no gap is wide."""
    spans, (lowest, highest) = [], formatting.limits(means.metric)
    for variant, runs in means.values.items():
        mean = means.of(variant)
        shown = [v for v in (*runs.values(), max(mean.low, lowest), min(mean.high, highest)) if math.isfinite(v)]
        spans += [(min(shown), max(shown), variant)] if shown else []
    if not 3 <= len(spans) <= MOST_ENLARGED:
        return []
    spans.sort()
    ends = list(accumulate((high for _, high, _ in spans), max))
    gap, at = max((spans[at][0] - ends[at - 1], at) for at in range(1, len(spans)))
    group = max(spans[at:], spans[:at], key=len)
    has_width = max(high for _, high, _ in group) > group[0][0]
    if len(group) < 2 or not has_width or gap < WIDE_GAP * (ends[-1] - spans[0][0]):
        return []
    chosen = {variant for *_, variant in group}
    return [variant for variant in means.values if variant in chosen]


@style()
def differences(variants: Variants, comparisons: Comparisons, styles: Styles) -> Drawing:
    """Draw each difference from the baseline with its adjusted interval; the equivalence margin, if any, is a band."""
    metric, versus = variants.metric, {variant: comparisons.versus[variant] for variant in variants.others}
    figure, (axes,) = rows([styles.names[variant] for variant in versus])
    if variants.margin is not None:
        axes.axvspan(*(variants.margin * metric.scale * np.array([-1, 1])), color=BAND, lw=0, zorder=0)
    axes.axvline(0, color=FAINT, lw=1, zorder=1)
    for row, (variant, compared) in enumerate(versus.items()):
        look = VariantStyle(styles.by_variant[variant].colour, VERDICTS[compared.verdict][1])
        value = formatting.with_interval(compared.adjusted, metric, signed=True)
        tips, id = [f"{variants.brief[variant]}: {value}{metric.points}, {compared.verdict}"], styles.id(variant)
        intervals(axes, [compared.adjusted], [row], metric, look, difference=True, id=f"{id}-difference", tips=tips)
    drawn = {compared.verdict for compared in versus.values() if math.isfinite(compared.diff.value)}
    shown = [word for word in VERDICTS if word in drawn]
    legend(figure, {word: axes.plot([], [], VERDICTS[word][1], color=FAINT, ms=6)[0] for word in shown})
    baseline = styles.names[variants.baseline]
    baseline = "the baseline" if "," in baseline else baseline
    axes.set_xlabel(f"difference from {baseline}{metric.difference_unit}")
    return figure


@style()
def draw_averages(across: AcrossDatasets) -> Drawing:
    """Draw the mean over the datasets of each variant, with its interval."""
    metric, variants = across.policy.metric, list(across.scores)
    figure, (axes,) = rows(shorts(variants))
    for row, variant in enumerate(variants):
        look = VariantStyle(INK, "D") if variant == across.baseline else VariantStyle(PALETTE[0], "o")
        intervals(axes, [across.scores[variant]], [row], metric, look)
    axes.set_xlabel(f"{metric.label}{metric.unit}")
    return figure
