"""The main figures of a study: the means of the variants, their differences from the baseline, and the means against the cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from analysis import formatting
from analysis.figures.drawing import identify, intervals, legend, panels, rows, variants_legend
from analysis.figures.labels import Styles, VariantStyle
from analysis.figures.style import BAND, FAINT, INK, VERDICTS, Drawing, style
from analysis.results.comparisons import Comparisons
from analysis.results.means import Means
from analysis.results.variants import Variants

MANY_POINTS = 1500  # from this number on, points are drawn as pixels, also in SVG
MOST_ENLARGED = 40  # variants up to which a second panel enlarges a range
COSTS = {"params": "parameters", "flops_per_image": "FLOPs/image", "device_seconds": "device time (s/run)"}
WIDE_GAP = 0.5  # of the whole range; a gap between variants from which the rest is enlarged


@style()
def accuracy(variants: Variants, means: Means, styles: Styles, diverged: Mapping[str, int]) -> Drawing:
    """Draw every run as a dot, and the mean with its interval; a second panel enlarges most variants if needed.

    `diverged`: variant -> how many runs have no dot.
    """
    near, metric = enlarged(means), means.metric
    figure, sides = rows([styles.names[variant] for variant in variants.names], columns=2 if near else 1)
    for number, axes in enumerate(sides):
        _draw_runs(axes, variants, means, styles, number, near if number else None)
        axes.set_xlabel(f"{metric.label}{metric.unit}")
    for row, variant in enumerate(variants.names):
        if diverged[variant]:
            place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": 8}
            sides[0].annotate(f" {diverged[variant]} diverged", (1, row), color=VERDICTS["worse"][0], **place)
    if near:
        sides[1].set_xlim(*(bound * metric.scale for bound in near))
        sides[1].set_title("enlarged", loc="left", fontweight="normal")
    return figure


@style()
def differences(variants: Variants, comparisons: Comparisons, styles: Styles) -> Drawing:
    """Draw each difference from the baseline with its interval, and the equivalence margin as a band."""
    metric, versus = variants.metric, {variant: comparisons.versus[variant] for variant in variants.others}
    figure, (axes,) = rows([styles.names[variant] for variant in versus])
    margin = variants.margin * metric.scale
    axes.axvspan(-margin, margin, color=BAND, lw=0, zorder=0)
    axes.axvline(0, color=FAINT, lw=1, zorder=1)
    for row, (variant, compared) in enumerate(versus.items()):
        look = VariantStyle(styles.by_variant[variant].colour, VERDICTS[compared.verdict][1])
        value = formatting.with_interval(compared.diff, metric.scale, signed=True)
        tips, id = [f"{variants.brief[variant]}: {value}{metric.points}, {compared.verdict}"], styles.id(variant)
        intervals(axes, [compared.diff], [row], metric, look, difference=True, id=f"{id}-difference", tips=tips)
    shown = [word for word in VERDICTS if any(compared.verdict == word for compared in versus.values())]
    legend(figure, [axes.plot([], [], VERDICTS[word][1], color=FAINT, ms=6)[0] for word in shown], shown)
    baseline = styles.names[variants.baseline]
    baseline = "the baseline" if "," in baseline else baseline
    axes.set_xlabel(f"difference from {baseline}{metric.difference_unit}")
    return figure


def _draw_runs(
    axes: Axes, variants: Variants, means: Means, styles: Styles, panel: int, near: tuple[float, float] | None
) -> None:
    """Draw each variant's runs as dots, with jitter, and their mean above them; only what is within `near`."""
    generator, metric = np.random.default_rng(0), means.metric
    many = sum(map(len, means.values.values())) > MANY_POINTS
    low, high = near or (-math.inf, math.inf)
    for row, (variant, look) in enumerate(styles.by_variant.items()):
        seeds = [(seed, value) for seed, value in means.values[variant].items() if math.isfinite(value)]
        jitter = generator.uniform(-0.09, 0.09, len(seeds)) if len(seeds) > 1 else np.zeros(len(seeds))
        inside = [low <= value <= high for _, value in seeds]
        shown = [run for run, keep in zip(seeds, inside, strict=True) if keep]
        # pixels cannot change with the page's colours
        dot: dict[str, Any] = {"color": FAINT if many and look.colour == INK else look.colour, "rasterized": many}
        places = row + 0.16 + jitter[inside]
        dots = axes.plot([value * metric.scale for _, value in shown], places, "o", ms=4, mew=0, alpha=0.6, **dot)
        texts = [f"{variants.brief[variant]}, seed {seed}: {formatting.value(value, metric)}" for seed, value in shown]
        identify(dots, f"{styles.id(variant)}-runs-{panel}", [] if many else texts)
        mean = means.of(variant)
        if not (mean.value < low or mean.value > high):
            tips, id = [formatting.named_mean(variants.brief[variant], mean, metric)], styles.id(variant)
            diamond = VariantStyle(look.colour, "D")
            intervals(axes, [mean], [row - 0.14], metric, diamond, size=5, id=f"{id}-mean-{panel}", tips=tips)


def enlarged(means: Means) -> tuple[float, float] | None:
    """Return the range on the side of the widest gap where most variants lie; None if no gap is wide."""
    spans, (lowest, highest) = [], formatting.limits(means.metric)
    for variant, runs in means.values.items():
        mean = means.of(variant)
        shown = [v for v in (*runs.values(), max(mean.low, lowest), min(mean.high, highest)) if math.isfinite(v)]
        spans += [(min(shown), max(shown))] if shown else []
    spans.sort()
    if not 3 <= len(spans) <= MOST_ENLARGED:
        return None
    highest, gaps = spans[0][1], []
    for at, (low, high) in enumerate(spans[1:], start=1):
        gaps.append((low - highest, at))
        highest = max(highest, high)
    gap, at = max(gaps)
    group = spans[at:] if len(spans) - at >= at else spans[:at]
    low, high = min(span[0] for span in group), max(span[1] for span in group)
    if len(group) < 2 or gap < WIDE_GAP * (highest - spans[0][0]) or high <= low:
        return None
    return low - 0.05 * (high - low), high + 0.05 * (high - low)


def known_costs(cost: pd.DataFrame) -> dict[str, str]:
    """Return the kinds of cost that are known: column -> words."""
    return {name: words for name, words in COSTS.items() if cost[name].notna().any()}


@style()
def against_cost(cost: pd.DataFrame, means: Means, styles: Styles) -> Drawing:
    """Draw the mean of each variant against each known cost."""
    metric, kinds = means.metric, known_costs(cost)
    figure, below = panels(len(kinds), 1.9)
    for axes, (kind, words) in zip(below, kinds.items(), strict=True):
        handles = {}
        for variant, look in styles.by_variant.items():
            mean, place = means.of(variant), float(cost.loc[variant, kind])
            tips = [
                f"{formatting.named_mean(styles.names[variant], mean, metric)}, {words}: {formatting.magnitude(place)}"
            ]
            size, id = 3 if look.colour == FAINT else 6, f"{styles.id(variant)}-{kind}"
            handles[variant] = intervals(
                axes, [mean], [place], metric, look, vertical=True, size=size, id=id, tips=tips
            )
        axes.set_xlabel(words)
        axes.set_ylabel(f"{metric.label}{metric.unit}")
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: formatting.magnitude(value, 5)))
        axes.grid()
    variants_legend(figure, handles, styles)
    return figure
