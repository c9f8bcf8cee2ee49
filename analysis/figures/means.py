"""The main figures of a study: the means of the variants, and their differences from the baseline."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from analysis.figures import captions
from analysis.figures.labels import labels
from analysis.figures.style import BAND, FAINT, INK, PALETTE, VERDICTS, Plot, interval, rows
from analysis.results import Results

MANY_POINTS = 1500  # from this number on, points are drawn as pixels, also in SVG
MOST_ENLARGED = 40  # variants up to which a second panel enlarges a range
WIDE_GAP = 0.5  # of the whole range; a gap between variants from which the rest is enlarged


def accuracy(results: Results) -> Plot:
    """Draw every run as a dot, and the mean with its interval; a second panel enlarges most variants if needed."""
    metric, scale = results.study.metric, results.study.metric.scale
    near = _enlarged(results)
    figure, panels = rows(labels(results, results.variants), columns=2 if near else 1)
    for axes in panels:
        _draw_runs(axes, results, scale)
        axes.set_xlabel(f"{metric.label}{metric.unit}")
    for row, variant in enumerate(results.variants):
        if lost := int(results.counts.loc[variant, "diverged"]):
            place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": 8}
            panels[0].annotate(f" {lost} diverged", (1, row), color=VERDICTS["worse"][0], **place)
    if near:
        panels[1].set_xlim(*(bound * scale for bound in near))
        panels[1].set_title("enlarged", loc="left", fontweight="normal")
    return Plot("accuracy", figure, *captions.accuracy(results, near is not None))


def differences(results: Results) -> Plot | None:
    """Draw each difference from the baseline with its interval, and the equivalence margin as a band."""
    if not results.others:
        return None
    metric, scale = results.study.metric, results.study.metric.scale
    figure, (axes,) = rows(labels(results, results.others))
    margin = results.study.margin * scale
    axes.axvspan(-margin, margin, color=BAND, lw=0, zorder=0)
    axes.axvline(0, color=FAINT, lw=1, zorder=1)
    for row, variant in enumerate(results.others):
        compared = results.versus[variant]
        interval(axes, compared.diff, row, scale, *VERDICTS[compared.verdict])
    found = [word for word in VERDICTS if any(results.versus[variant].verdict == word for variant in results.others)]
    handles = [axes.plot([], [], VERDICTS[word][1], color=VERDICTS[word][0], ms=6)[0] for word in found]
    figure.legend(handles, found, loc="outside lower center", ncols=len(found), fontsize=9)
    (baseline,) = labels(results, [results.study.baseline])
    baseline = "the baseline" if "," in baseline else baseline
    axes.set_xlabel(f"difference from {baseline}{', points' if metric.is_share else ''}")
    return Plot("differences", figure, *captions.differences(results))


def _draw_runs(axes: Axes, results: Results, scale: float) -> None:
    """Draw each variant's runs as dots, with jitter, and their mean above them."""
    generator = np.random.default_rng(0)
    many = sum(map(len, results.values.values())) > MANY_POINTS
    baseline_colour = FAINT if many else INK  # pixels cannot change with the page's colours
    for row, variant in enumerate(results.variants):
        values = np.array([value for value in results.values[variant].values() if math.isfinite(value)]) * scale
        colour = PALETTE[0] if variant != results.study.baseline else baseline_colour
        jitter = generator.uniform(-0.09, 0.09, len(values)) if len(values) > 1 else np.zeros(len(values))
        axes.plot(values, row + 0.16 + jitter, "o", ms=4, mew=0, color=colour, alpha=0.6, rasterized=many)
        interval(axes, results.mean(variant), row - 0.14, scale, colour, "D", size=5)


def _enlarged(results: Results) -> tuple[float, float] | None:
    """The range on the side of the widest gap where most variants lie; None if no gap is wide."""
    shown = {}
    for variant, runs in results.values.items():
        mean = results.mean(variant)
        shown[variant] = [v for v in (*runs.values(), mean.low, mean.high) if math.isfinite(v)]
    spans = sorted((min(runs), max(runs)) for runs in shown.values() if runs)
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
