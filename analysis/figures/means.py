"""Figures with a row for each variant: its runs and their mean, and its difference from the baseline."""

import math
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from analysis import words
from analysis.figures.drawing import identify, intervals, legend, rows
from analysis.figures.style import BAND, FAINT, INK, VERDICTS, Drawing, style, text_size
from analysis.figures.styles import Styles, VariantStyle
from analysis.verdicts import Comparison, Estimate
from analysis.verdicts.comparisons import Values
from experiments.metric import Metric

Means = Mapping[str, Estimate]  # variant -> its mean
MANY_POINTS = 1500  # from this number on, points are drawn as pixels, also in SVG
MOST_ENLARGED = 40  # variants up to which a second panel enlarges a range
WIDE_GAP = 0.5  # of the whole range; a gap between variants from which the rest is enlarged


@style()
def accuracy(
    values: Values, means: Means, metric: Metric, styles: Styles, diverged: Mapping[str, int], unit: str = "seed"
) -> Drawing:
    """Draw every run as a dot, and the mean with its interval; a second panel enlarges most variants if needed.

    `diverged`: variant -> how many runs have no dot. `unit`: see `Rule.unit`.
    """
    shown = list(filter(None, (list(values), enlarged(values, means, metric))))
    figure, sides = rows(*([styles.names[variant] for variant in names] for names in shown))
    for number, (axes, names, title) in enumerate(zip(sides, shown, ("all variants", "enlarged"))):
        axes.set_title(title if len(shown) > 1 else "", loc="left", fontweight="normal")
        axes.set_xlabel(f"{metric.label}{metric.unit}")
        _draw_runs(axes, {name: values[name] for name in names}, f"{number}", means, metric, styles, unit)
    for row, variant in enumerate(values):
        if diverged[variant]:
            place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": text_size(8)}
            sides[0].annotate(f" {diverged[variant]} diverged", (1, row), color=VERDICTS["worse"][0], **place)
    return figure


def _draw_runs(axes: Axes, values: Values, panel: str, means: Means, metric: Metric, styles: Styles, unit: str) -> None:
    """Draw the runs of variants as dots, with jitter, and the mean of each above them."""
    generator, many = np.random.default_rng(0), sum(map(len, values.values())) > MANY_POINTS
    for row, (variant, by_seed) in enumerate(values.items()):
        look, name, id = styles.by_variant[variant], styles.names[variant], styles.id(variant)
        runs = {seed: value for seed, value in by_seed.items() if math.isfinite(value)}
        jitter = generator.uniform(-0.09, 0.09, len(runs)) * (len(runs) > 1)
        # pixels cannot change with the page's colours
        dot: dict[str, Any] = {"color": FAINT if many and look.colour == INK else look.colour, "rasterized": many}
        shown = [value * metric.scale for value in runs.values()]
        dots = axes.plot(shown, row + 0.16 + jitter, "o", ms=4, mew=0, alpha=0.6, **dot)
        tips = [f"{name}, {unit} {seed}: {words.value(value, metric)}" for seed, value in runs.items()]
        identify(dots, f"{id}-runs-{panel}", [] if many else tips)
        mean, diamond = means[variant], VariantStyle(look.colour, "D")
        tips = [words.named_mean(name, mean, metric)]
        intervals(axes, [mean], [row - 0.14], metric, diamond, size=5, id=f"{id}-mean-{panel}", tips=tips)


def enlarged(values: Values, means: Means, metric: Metric) -> list[str]:
    """Return the variants on the side of the widest gap where most are, in their order; none if no gap is wide."""
    spans, (lowest, highest) = [], words.limits(metric)
    for variant, runs in values.items():
        mean = means[variant]
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
    return [variant for variant in values if variant in chosen]


@style()
def differences(
    panels: Mapping[str, Mapping[str, Comparison]], margin: float | None, baseline: str, metric: Metric, styles: Styles
) -> Drawing:
    """Draw each difference from the baseline, which the axis calls `baseline`; a band is the margin.

    `panels`: title -> variant -> its comparison with the baseline.
    """
    figure, sides = rows(*([styles.names[variant] for variant in versus] for versus in panels.values()))
    for number, (axes, (title, versus)) in enumerate(zip(sides, panels.items())):
        axes.set_title(title, loc="left", fontweight="normal")
        if margin is not None:
            axes.axvspan(*(margin * metric.scale * np.array([-1, 1])), color=BAND, lw=0, zorder=0)
        axes.axvline(0, color=FAINT, lw=1, zorder=1)
        for row, (variant, compared) in enumerate(versus.items()):
            look = VariantStyle(*VERDICTS[compared.verdict])
            value = words.with_interval(compared.adjusted, metric, signed=True)
            why = f" ({compared.reason})" if compared.reason else ""
            tips = [f"{styles.names[variant]}: {value}{metric.points}, {compared.verdict}{why}"]
            mark: dict[str, Any] = {"id": f"{styles.id(variant)}-difference{number or ''}", "tips": tips}
            intervals(axes, [compared.adjusted], [row], metric, look, difference=True, **mark)
    shown = (one for versus in panels.values() for one in versus.values() if math.isfinite(one.adjusted.value))
    drawn = {compared.verdict for compared in shown}
    known = {word: look for word, look in VERDICTS.items() if word in drawn}
    legend(figure, {word: axes.plot([], [], mark, color=colour, ms=6)[0] for word, (colour, mark) in known.items()})
    axes.set_xlabel(f"difference from {baseline}{metric.difference_unit}")
    return figure
