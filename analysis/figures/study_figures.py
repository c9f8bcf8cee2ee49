"""The figures of a report, from results: one style, colours that the colour-blind can tell apart, the same bytes every
time.

A figure returns with the words that stand for it where it cannot be seen. No statistics are computed here.
Names are drawn as text (`text.parse_math` is off), and nothing is read from or written to a file.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from analysis import formatting
from analysis.figures.style import BAND, FAINT, INK, PALETTE, PAPER, VERDICTS, WIDTH, Plot, interval, rows, short, style
from analysis.report.render import plain
from analysis.report.tables import NOT_ADJUSTED, margin_text
from analysis.results import Results
from analysis.sources.study import factor_levels

MOST_CURVES = len(PALETTE)
MANY_POINTS = 1500  # above which points are drawn as pixels also in an SVG


def all_plots(results: Results) -> list[Plot]:
    """Every figure that these results give; the first is the main one."""
    makers: list[Callable[[Results], Plot | None]] = [accuracy, differences, curves, interaction, against_cost]
    with style():
        return [plot for plot in (make(results) for make in makers) if plot is not None]


def accuracy(results: Results) -> Plot:
    """Every seed as a point, the mean with its interval above them, one line a variant; beside it, if need be,
    enlarged.
    """
    metric, scale = results.study.metric, results.study.metric.scale
    near = _enlarged(results)
    figure, panels = rows(_names(results, results.variants), columns=2 if near else 1)
    for axes in panels:
        _seeds(axes, results, scale)
        axes.set_xlabel(f"{metric.label}{metric.unit}")
    for row, variant in enumerate(results.variants):
        if lost := int(results.counts.loc[variant, "diverged"]):
            panels[0].annotate(
                f" {lost} diverged",
                (1, row),
                xycoords=("axes fraction", "data"),
                va="center",
                fontsize=8,
                color=VERDICTS["worse"][0],
            )
    if near:
        panels[1].set_xlim(*(bound * scale for bound in near))
        panels[1].set_title("enlarged", loc="left", fontweight="normal")
    alt = "; ".join(
        f"{plain(variant)}: {formatting.with_interval(results.mean(variant), scale)}{' %' if scale == 100 else ''} from "
        f"{results.mean(variant).n} runs"
        for variant in results.variants[:12]
    )
    more = f"; and {len(results.variants) - 12} more variants, as in the table" if len(results.variants) > 12 else ""
    caption = (
        f"{metric.label.capitalize()} by variant. Each dot is a run (one seed); the diamond above is their "
        "mean with its 95 % interval."
    )
    if near:
        caption += " The right panel enlarges where most variants lie."
    return Plot("accuracy", figure, caption, f"Points and intervals of {metric.label} by variant. {alt}{more}.")


def _seeds(axes: Axes, results: Results, scale: float) -> None:
    """Each variant's runs as dots, scattered so that they can be told apart, and their mean above them."""
    generator = np.random.default_rng(0)
    many = sum(map(len, results.values.values())) > MANY_POINTS
    for row, variant in enumerate(results.variants):
        values = np.array([value for value in results.values[variant].values() if math.isfinite(value)]) * scale
        colour = (
            PALETTE[0] if variant != results.study.baseline else FAINT if many else INK
        )  # pixels cannot follow the page's ink
        jitter = generator.uniform(-0.09, 0.09, len(values)) if len(values) > 1 else np.zeros(len(values))
        axes.plot(values, row + 0.16 + jitter, "o", ms=4, mew=0, color=colour, alpha=0.6, rasterized=many)
        interval(axes, results.mean(variant), row - 0.14, scale, colour, "D", size=5)


def _enlarged(results: Results) -> tuple[float, float] | None:
    """The range of the variants on one side of the widest gap between values, where that gap would squeeze them; else
    None.
    """
    shown = {}
    for variant, runs in results.values.items():
        mean = results.mean(variant)
        shown[variant] = [v for v in (*runs.values(), mean.low, mean.high) if math.isfinite(v)]
    spans = sorted((min(runs), max(runs)) for runs in shown.values() if runs)
    if len(spans) < 3 or len(spans) > 40:
        return None
    highest, gaps = spans[0][1], []
    for at, (low, high) in enumerate(spans[1:], start=1):
        gaps.append((low - highest, at))
        highest = max(highest, high)
    gap, at = max(gaps)
    group = spans[at:] if len(spans) - at >= at else spans[:at]
    low, high = min(span[0] for span in group), max(span[1] for span in group)
    if len(group) < 2 or gap < 0.5 * (highest - spans[0][0]) or high <= low:
        return None
    return low - 0.05 * (high - low), high + 0.05 * (high - low)


def differences(results: Results) -> Plot | None:
    """Each difference to the baseline with its interval, and the band within which it would not matter."""
    if not results.others:
        return None
    scale = results.study.metric.scale
    figure, (axes,) = rows(_names(results, results.others))
    margin = results.study.margin * scale
    axes.axvspan(-margin, margin, color=BAND, lw=0, zorder=0)
    axes.axvline(0, color=FAINT, lw=1, zorder=1)
    for row, variant in enumerate(results.others):
        compared = results.versus[variant]
        colour, marker = VERDICTS[compared.verdict]
        interval(axes, compared.diff, row, scale, colour, marker)
    found = [word for word in VERDICTS if any(results.versus[variant].verdict == word for variant in results.others)]
    handles = [axes.plot([], [], VERDICTS[word][1], color=VERDICTS[word][0], ms=6)[0] for word in found]
    figure.legend(handles, found, loc="outside lower center", ncols=len(found), fontsize=9)
    axes.set_xlabel(f"difference to {_names(results, [results.study.baseline])[0]}{', points' if scale == 100 else ''}")
    alt = "; ".join(
        f"{plain(variant)}: {formatting.with_interval(results.versus[variant].diff, scale, signed=True)}, "
        f"{results.versus[variant].verdict}"
        for variant in results.others[:12]
    )
    more = f"; and {len(results.others) - 12} more, as in the table" if len(results.others) > 12 else ""
    caption = (
        f"Differences to {results.study.baseline}, paired by seed, with 95 % intervals. The shaded band is "
        f"±{margin_text(results)}, "
        f"the margin that the study states; the mark shows the verdict. Of the intervals, {NOT_ADJUSTED}"
    )
    return Plot(
        "differences", figure, caption, f"Differences to {plain(results.study.baseline)} with intervals. {alt}{more}."
    )


def curves(results: Results) -> Plot | None:
    """Validation accuracy and training loss by epoch: means and the band of their 95 % intervals."""
    shown = list(results.curves)
    if not shown:
        return None
    figure = Figure(figsize=(WIDTH, 3.3))
    panels = figure.subplots(1, len(shown), squeeze=False)[0]
    chosen = coloured(results)
    lines = {}
    for axes, metric in zip(panels, shown):
        scale = metric.scale
        for index, variant in enumerate(chosen):
            band, colour = results.curves[metric][variant], PALETTE[index]
            lines[variant] = axes.plot(
                band.x, band.centre * scale, color=colour, lw=1.6, ls=("-", "--", "-.", ":")[index % 4]
            )[0]
            axes.fill_between(band.x, band.low * scale, band.high * scale, color=colour, alpha=0.18, lw=0)
        axes.set_xlabel("epoch")
        axes.set_title(f"{metric.label}{metric.unit}", loc="left")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(axis="y")
    figure.legend(
        [lines[variant] for variant in chosen],
        _names(results, chosen),
        loc="outside lower center",
        ncols=_columns(results, chosen),
        fontsize=9,
    )
    left = len(results.variants) - len(chosen)
    caption = "Learning curves: means over the finished runs with the band of their 95 % intervals, epoch by epoch."
    if left:
        caption += (
            f" Shown are the baseline and the {len(chosen) - 1} variants with the highest and lowest means; {left} "
            "more are in the tables."
        )
    return Plot(
        "curves",
        figure,
        caption,
        f"Learning curves of {formatting.listing([plain(variant) for variant in chosen])}: "
        f"{' and '.join(metric.label for metric in shown)} by epoch.",
    )


def interaction(results: Results) -> Plot | None:
    """The means of a study of two factors or more as a heat map over its first two."""
    study = results.study
    if results.grid is None or results.grid.empty:
        return None
    import seaborn

    table = results.grid * study.metric.scale
    down, across = list(study.factors)[:2]
    figure = Figure(figsize=(WIDTH, min(1.4 + 0.42 * len(table), 14)))
    axes = figure.subplots()
    places = 1 if study.metric.is_share else 3
    seaborn.heatmap(
        table,
        ax=axes,
        cmap="cividis",
        annot=table.size <= 150,
        fmt=f".{places}f",
        linewidths=1,
        linecolor=PAPER,
        cbar_kws={"label": f"{study.metric.label}{study.metric.unit}"},
    )
    axes.set_xlabel(across)
    axes.set_ylabel(down)
    axes.set_xticks(
        axes.get_xticks(),
        [short(str(level)) for level in table.columns],
        rotation=0 if len(table.columns) < 6 else 45,
        ha="center" if len(table.columns) < 6 else "right",
    )
    axes.set_yticks(axes.get_yticks(), [short(str(level)) for level in table.index], rotation=0)
    rest = f", averaged over {formatting.listing(list(study.factors)[2:])}" if len(study.factors) > 2 else ""
    caption = (
        f"Mean {study.metric.label} by {down} and {across}{rest}. An empty cell was not planned or has no finished run."
    )
    return Plot(
        "interaction",
        figure,
        caption,
        f"Heat map of mean {study.metric.label} by {plain(down)} and {plain(across)}; the numbers are in the tables.",
    )


def against_cost(results: Results) -> Plot | None:
    """The metric against what it costs: parameters, FLOPs, device seconds."""
    metric, scale = results.study.metric, results.study.metric.scale
    kinds = {"params": "parameters", "flops_per_image": "FLOPs an image", "device_seconds": "device seconds a run"}
    kinds = {name: words for name, words in kinds.items() if results.cost[name].notna().any()}
    chosen = coloured(results)
    if not kinds:
        return None
    figure = Figure(figsize=(WIDTH, 3.2))
    panels = figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0]
    handles = {}
    for axes, (name, words) in zip(panels, kinds.items()):
        for variant in results.variants:
            index = chosen.index(variant) if variant in chosen else None
            colour = FAINT if index is None else PALETTE[index]
            mean = results.mean(variant)
            half = formatting.half_width(mean) * scale
            handles[variant] = axes.errorbar(
                results.cost.loc[variant, name],
                mean.value * scale,
                yerr=half if math.isfinite(half) else None,
                color=colour,
                marker="o" if index is None else "osD^vP*X"[index],
                ms=3 if index is None else 6,
                lw=1.2,
                zorder=1 if index is None else 2,
            )
        axes.set_xlabel(words)
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: formatting.magnitude(value)))
        axes.tick_params(axis="x", labelsize=8)
        axes.grid()
    panels[0].set_ylabel(f"{metric.label}{metric.unit}")
    figure.legend(
        [handles[variant] for variant in chosen],
        _names(results, chosen),
        loc="outside lower center",
        ncols=_columns(results, chosen),
        fontsize=9,
    )
    caption = f"{metric.label.capitalize()} against cost: means with 95 % intervals."
    if len(chosen) < len(results.variants):
        caption += " Small and grey: the variants between these; the table of costs names them."
    return Plot(
        "cost",
        figure,
        caption,
        f"{metric.label.capitalize()} against {formatting.listing(list(kinds.values()))}; the numbers are in "
        "the cost table.",
    )


def _columns(results: Results, chosen: list[str]) -> int:
    """As many columns as a legend has room for."""
    return max(1, min(4, 88 // (max(map(len, _names(results, chosen))) + 8)))


def coloured(results: Results) -> list[str]:
    """The variants that get a colour: all where there are colours enough, else the baseline and those at both ends."""
    if len(results.variants) <= MOST_CURVES:
        return results.variants
    known = sorted((v for v in results.others if results.mean(v).n), key=lambda v: results.mean(v).value)
    half = (MOST_CURVES - 1) // 2
    wanted = {results.study.baseline, *known[:half], *known[len(known) - (MOST_CURVES - 1 - half) :]}
    return [variant for variant in results.variants if variant in wanted]


def _names(results: Results, variants: list[str]) -> list[str]:
    """What the figures call variants: where there are several factors, their levels alone, if that keeps them apart."""
    if len(results.study.factors) > 1:
        runs = results.study.runs.drop_duplicates("variant").set_index("variant").loc[results.variants]
        levels = zip(*(factor_levels(runs, factor) for factor in results.study.factors))
        brief = dict(zip(results.variants, (", ".join(map(str, row)) for row in levels)))
        if len(set(brief.values())) == len(brief):
            return [short(brief[variant]) for variant in variants]
    return [short(variant) for variant in variants]
