"""The main figures of a study: the means of the variants, and their differences from the baseline."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import formatting
from analysis.figures import captions
from analysis.figures.labels import brief_names, labels, variant_styles
from analysis.figures.style import BAND, FAINT, INK, VERDICTS, Plot, Tips, interval, name_artists, narrow, plot, rows
from analysis.results.study_results import StudyResults

MANY_POINTS = 1500  # from this number on, points are drawn as pixels, also in SVG
MOST_ENLARGED = 40  # variants up to which a second panel enlarges a range
WIDE_GAP = 0.5  # of the whole range; a gap between variants from which the rest is enlarged


def accuracy(results: StudyResults) -> Plot:
    """Draw every run as a dot, and the mean with its interval; a second panel enlarges most variants if needed."""
    near = _enlarged(results)

    def draw(tips: Tips) -> Figure:
        figure, panels = rows(labels(results, results.variants.names), columns=2 if near else 1)
        for number, axes in enumerate(panels):
            _draw_runs(axes, results, number, near if number else None, tips)
            axes.set_xlabel(f"{results.study.metric.label}{results.study.metric.unit}")
        for row, variant in enumerate(results.variants.names):
            if lost := int(results.conduct.counts.loc[variant, "diverged"]):
                place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": 8}
                panels[0].annotate(f" {lost} diverged", (1, row), color=VERDICTS["worse"][0], **place)
        if near:
            panels[1].set_xlim(*(bound * results.study.metric.scale for bound in near))
            panels[1].set_title("enlarged", loc="left", fontweight="normal")
        return figure

    return plot("accuracy", draw, *captions.accuracy(results, near is not None))


def differences(results: StudyResults) -> Plot | None:
    """Draw each difference from the baseline with its interval, and the equivalence margin as a band."""
    if not results.others:
        return None
    return plot("differences", lambda tips: _draw_differences(results, tips), *captions.differences(results))


def _draw_differences(results: StudyResults, tips: Tips) -> Figure:
    metric, scale = results.study.metric, results.study.metric.scale
    figure, (axes,) = rows(labels(results, results.others))
    margin = results.study.margin * scale
    axes.axvspan(-margin, margin, color=BAND, lw=0, zorder=0)
    axes.axvline(0, color=FAINT, lw=1, zorder=1)
    colours, names = variant_styles(results), brief_names(results)
    for row, variant in enumerate(results.others):
        compared = results.versus[variant]
        marks = interval(
            axes, compared.diff, row, metric, colours[variant].colour, VERDICTS[compared.verdict][1], difference=True
        )
        value = formatting.with_interval(compared.diff, scale, signed=True)
        tip = f"{names[variant]}: {value}{metric.points}, {compared.verdict}"
        name_artists(marks, f"v{results.variants.names.index(variant)}-difference", tips, [tip])
    found = [word for word in VERDICTS if any(results.versus[variant].verdict == word for variant in results.others)]
    handles = [axes.plot([], [], VERDICTS[word][1], color=FAINT, ms=6)[0] for word in found]
    figure.legend(handles, found, loc="outside lower center", ncols=min(2 if narrow() else 4, len(found)), fontsize=9)
    (baseline,) = labels(results, [results.study.baseline])
    baseline = "the baseline" if "," in baseline else baseline
    axes.set_xlabel(f"difference from {baseline}{', points' if metric.is_share else ''}")
    return figure


def _draw_runs(axes: Axes, results: StudyResults, number: int, near: tuple[float, float] | None, tips: Tips) -> None:
    """Draw each variant's runs as dots, with jitter, and their mean above them; in the panel `number`, within `near`."""
    generator, metric = np.random.default_rng(0), results.study.metric
    many = sum(map(len, results.values.values())) > MANY_POINTS
    colours, names = variant_styles(results), brief_names(results)
    for row, variant in enumerate(results.variants.names):
        seeds = [(seed, value) for seed, value in results.values[variant].items() if math.isfinite(value)]
        jitter = generator.uniform(-0.09, 0.09, len(seeds)) if len(seeds) > 1 else np.zeros(len(seeds))
        inside = [near is None or near[0] <= value <= near[1] for _, value in seeds]
        shown = [each for each, keep in zip(seeds, inside, strict=True) if keep]
        colour = colours[variant].colour
        if many and colour == INK:
            colour = FAINT  # pixels cannot change with the page's colours
        look: dict[str, Any] = {"ms": 4, "mew": 0, "color": colour, "alpha": 0.6, "rasterized": many}
        dots = axes.plot([value * metric.scale for _, value in shown], row + 0.16 + jitter[inside], "o", **look)
        texts = [f"{names[variant]}, seed {seed}: {captions.value_text(value, metric)}" for seed, value in shown]
        name_artists(dots, f"v{row}-runs-{number}", tips, [] if many else texts)
        mean = results.mean(variant)
        if near is None or near[0] <= mean.value <= near[1]:
            marks = interval(axes, mean, row - 0.14, metric, colours[variant].colour, "D", size=5)
            name_artists(marks, f"v{row}-mean-{number}", tips, [captions.mean_text(names[variant], mean, metric)])


def _enlarged(results: StudyResults) -> tuple[float, float] | None:
    """The range on the side of the widest gap where most variants lie; None if no gap is wide."""
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
