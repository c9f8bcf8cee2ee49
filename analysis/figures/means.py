"""The main figures of a study: the means of the variants, and their differences from the baseline."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from analysis import formatting
from analysis.figures.captions import mean_text, value_text
from analysis.figures.drawing import identify, intervals, legend, rows
from analysis.figures.labels import VariantStyle, brief_names, labels, variant_styles
from analysis.figures.style import BAND, FAINT, INK, VERDICTS, Drawing, style
from analysis.results.study_results import StudyResults

MANY_POINTS = 1500  # from this number on, points are drawn as pixels, also in SVG
MOST_ENLARGED = 40  # variants up to which a second panel enlarges a range
WIDE_GAP = 0.5  # of the whole range; a gap between variants from which the rest is enlarged


@style()
def accuracy(results: StudyResults) -> Drawing:
    """Draw every run as a dot, and the mean with its interval; a second panel enlarges most variants if needed."""
    near, metric = enlarged(results), results.study.metric
    figure, panels = rows(labels(results, results.variants.names), columns=2 if near else 1)
    for number, axes in enumerate(panels):
        _draw_runs(axes, results, number, near if number else None)
        axes.set_xlabel(f"{metric.label}{metric.unit}")
    for row, variant in enumerate(results.variants.names):
        if lost := int(results.conduct.counts.loc[variant, "diverged"]):
            place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": 8}
            panels[0].annotate(f" {lost} diverged", (1, row), color=VERDICTS["worse"][0], **place)
    if near:
        panels[1].set_xlim(*(bound * metric.scale for bound in near))
        panels[1].set_title("enlarged", loc="left", fontweight="normal")
    return figure


@style()
def differences(results: StudyResults) -> Drawing:
    """Draw each difference from the baseline with its interval, and the equivalence margin as a band."""
    metric, scale = results.study.metric, results.study.metric.scale
    figure, (axes,) = rows(labels(results, results.others))
    margin = results.study.margin * scale
    axes.axvspan(-margin, margin, color=BAND, lw=0, zorder=0)
    axes.axvline(0, color=FAINT, lw=1, zorder=1)
    styles, names = variant_styles(results), brief_names(results)
    for row, variant in enumerate(results.others):
        compared = results.versus[variant]
        look = VariantStyle(styles[variant].colour, VERDICTS[compared.verdict][1])
        value = formatting.with_interval(compared.diff, scale, signed=True)
        tips, id = (
            [f"{names[variant]}: {value}{metric.points}, {compared.verdict}"],
            results.variants.names.index(variant),
        )
        intervals(axes, [compared.diff], [row], metric, look, difference=True, id=f"v{id}-difference", tips=tips)
    shown = [word for word in VERDICTS if any(results.versus[variant].verdict == word for variant in results.others)]
    handles = [axes.plot([], [], VERDICTS[word][1], color=FAINT, ms=6)[0] for word in shown]
    legend(figure, handles, shown)
    (baseline,) = labels(results, [results.study.baseline])
    baseline = "the baseline" if "," in baseline else baseline
    axes.set_xlabel(f"difference from {baseline}{', points' if metric.is_share else ''}")
    return figure


def _draw_runs(axes: Axes, results: StudyResults, number: int, near: tuple[float, float] | None) -> None:
    """Draw each variant's runs as dots, with jitter, and their mean above them; in the panel `number`, within `near`."""
    generator, metric = np.random.default_rng(0), results.study.metric
    many = sum(map(len, results.values.values())) > MANY_POINTS
    styles, names = variant_styles(results), brief_names(results)
    for row, variant in enumerate(results.variants.names):
        seeds = [(seed, value) for seed, value in results.values[variant].items() if math.isfinite(value)]
        jitter = generator.uniform(-0.09, 0.09, len(seeds)) if len(seeds) > 1 else np.zeros(len(seeds))
        inside = [near is None or near[0] <= value <= near[1] for _, value in seeds]
        shown = [run for run, keep in zip(seeds, inside, strict=True) if keep]
        colour = styles[variant].colour
        if many and colour == INK:
            colour = FAINT  # pixels cannot change with the page's colours
        look: dict[str, Any] = {"ms": 4, "mew": 0, "color": colour, "alpha": 0.6, "rasterized": many}
        dots = axes.plot([value * metric.scale for _, value in shown], row + 0.16 + jitter[inside], "o", **look)
        texts = [f"{names[variant]}, seed {seed}: {value_text(value, metric)}" for seed, value in shown]
        identify(dots, f"v{row}-runs-{number}", [] if many else texts)
        mean = results.mean(variant)
        if near is None or near[0] <= mean.value <= near[1]:
            tip, diamond = mean_text(names[variant], mean, metric), VariantStyle(styles[variant].colour, "D")
            intervals(axes, [mean], [row - 0.14], metric, diamond, size=5, id=f"v{row}-mean-{number}", tips=[tip])


def enlarged(results: StudyResults) -> tuple[float, float] | None:
    """Return the range on the side of the widest gap where most variants lie; None if no gap is wide."""
    shown, (lowest, highest) = {}, formatting.limits(results.study.metric)
    for variant, runs in results.values.items():
        mean = results.mean(variant)
        ends = max(mean.low, lowest), min(mean.high, highest)
        shown[variant] = [v for v in (*runs.values(), *ends) if math.isfinite(v)]
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
