"""All figures of a study. Results in, figures out; nothing is computed, read or written.

Names are drawn as text (`text.parse_math` is off). The same results give the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from analysis import formatting
from analysis.figures import captions
from analysis.figures.labels import coloured, labels, legend_columns
from analysis.figures.means import accuracy, differences
from analysis.figures.style import FAINT, MARKERS, PALETTE, PAPER, WIDTH, Plot, short, style
from analysis.results import Results

COSTS = {"params": "parameters", "flops_per_image": "FLOPs/image", "device_seconds": "device time (s/run)"}
MOST_ANNOTATED = 150  # cells of a heat map that show their value
TILTED = 6  # levels from which the labels of a heat map are tilted


def all_plots(results: Results) -> list[Plot]:
    """Return every figure of the study; the main one first."""
    makers: list[Callable[[Results], Plot | None]] = [accuracy, differences, curves, interaction, against_cost]
    with style():
        return [plot for plot in (make(results) for make in makers) if plot is not None]


def curves(results: Results) -> Plot | None:
    """Draw the learning curves: means with the band of their intervals."""
    if not results.curves:
        return None
    figure = Figure(figsize=(WIDTH, 3.3))
    panels = figure.subplots(1, len(results.curves), squeeze=False)[0]
    chosen = coloured(results)
    lines = {}
    for axes, (metric, bands) in zip(panels, results.curves.items()):
        for index, variant in enumerate(chosen):
            band, colour, dashes = bands[variant], PALETTE[index], ("-", "--", "-.", ":")[index % 4]
            lines[variant] = axes.plot(band.x, band.centre * metric.scale, color=colour, lw=1.6, ls=dashes)[0]
            axes.fill_between(band.x, band.low * metric.scale, band.high * metric.scale, color=colour, alpha=0.18, lw=0)
        axes.set_xlabel("epoch")
        axes.set_title(f"{metric.label}{metric.unit}", loc="left")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(axis="y")
    _legend(figure, results, lines, chosen)
    return Plot("curves", figure, *captions.curves(results, chosen))


def interaction(results: Results) -> Plot | None:
    """Draw the means over the first two factors as a heat map."""
    study = results.study
    if results.grid is None or results.grid.empty:
        return None
    import seaborn

    table = results.grid * study.metric.scale
    down, across = list(study.factors)[:2]
    figure = Figure(figsize=(WIDTH, min(1.4 + 0.42 * len(table), 14)))
    axes = figure.subplots()
    seaborn.heatmap(
        table,
        ax=axes,
        cmap="cividis",
        annot=table.size <= MOST_ANNOTATED,
        fmt=f".{1 if study.metric.is_share else 3}f",
        linewidths=1,
        linecolor=PAPER,
        cbar_kws={"label": f"{study.metric.label}{study.metric.unit}"},
    )
    axes.set_xlabel(formatting.factor_name(across, results.study.names))
    axes.set_ylabel(formatting.factor_name(down, results.study.names))
    tilt: dict[str, Any] = (
        {"rotation": 45, "ha": "right"} if len(table.columns) >= TILTED else {"rotation": 0, "ha": "center"}
    )
    axes.set_xticks(axes.get_xticks(), [short(str(level)) for level in table.columns], **tilt)
    axes.set_yticks(axes.get_yticks(), [short(str(level)) for level in table.index], rotation=0)
    return Plot("interaction", figure, *captions.interaction(results))


def against_cost(results: Results) -> Plot | None:
    """Draw the metric against parameters, FLOPs and time."""
    metric = results.study.metric
    kinds = {name: words for name, words in COSTS.items() if results.cost[name].notna().any()}
    if not kinds:
        return None
    chosen = coloured(results)
    figure = Figure(figsize=(WIDTH, 3.2))
    panels = figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0]
    for axes, (name, words) in zip(panels, kinds.items()):
        handles = _draw_cost(axes, results, name, chosen)
        axes.set_xlabel(words)
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: formatting.magnitude(value)))
        axes.tick_params(axis="x", labelsize=8)
        axes.grid()
    panels[0].set_ylabel(f"{metric.label}{metric.unit}")
    _legend(figure, results, handles, chosen)
    return Plot("cost", figure, *captions.cost(results, list(kinds.values()), chosen))


def _draw_cost(axes: Axes, results: Results, name: str, chosen: list[str]) -> dict[str, Any]:
    """Draw each variant's mean at its cost; returns a handle for the legend by variant."""
    scale, handles = results.study.metric.scale, {}
    for variant in results.variants:
        mean = results.mean(variant)
        half = formatting.half_width(mean) * scale
        index = chosen.index(variant) if variant in chosen else None
        look: dict[str, Any] = {"color": FAINT, "marker": "o", "ms": 3, "zorder": 1}
        if index is not None:
            look = {"color": PALETTE[index], "marker": MARKERS[index], "ms": 6, "zorder": 2}
        error = half if math.isfinite(half) else None
        x, y = results.cost.loc[variant, name], mean.value * scale
        handles[variant] = axes.errorbar(x, y, yerr=error, lw=1.2, **look)
    return handles


def _legend(figure: Figure, results: Results, handles: dict, chosen: list[str]) -> None:
    names = labels(results, chosen)
    columns = legend_columns(names)
    figure.legend([handles[v] for v in chosen], names, loc="outside lower center", ncols=columns, fontsize=9)
