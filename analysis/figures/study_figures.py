"""All figures of a study. Results in, figures out; nothing is computed, read or written.

Names are drawn as text (`text.parse_math` is off). The same results give the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from analysis import formatting
from analysis.figures import captions
from analysis.figures.factor_figures import heat_map, interactions, main_effects
from analysis.figures.labels import brief_names, coloured, labels, legend_columns, variant_styles
from analysis.figures.line_figures import profile_plots, trend_plots
from analysis.figures.means import accuracy, differences
from analysis.figures.style import FAINT, Plot, Tips, bars, name_artists, narrow, panels, plot
from analysis.results.study_results import StudyResults
from analysis.stats import Band
from experiments.metric import Metric

COSTS = {"params": "parameters", "flops_per_image": "FLOPs/image", "device_seconds": "device time (s/run)"}
MOST_POINTS = 40  # epochs of a curve whose values the page shows under the pointer


def all_plots(results: StudyResults) -> list[Plot]:
    """Return every figure of the study; the main one first."""
    makers: list[Callable[[StudyResults], Plot | None]] = [
        accuracy,
        differences,
        main_effects,
        interactions,
        heat_map,
        curves,
        against_cost,
    ]
    made = [plot for plot in (make(results) for make in makers) if plot is not None]
    return [*made, *profile_plots(results), *trend_plots(results)]


def curves(results: StudyResults) -> Plot | None:
    """Draw the learning curves: means with the band of their intervals."""
    if not results.curves:
        return None
    return plot("curves", lambda tips: _draw_curves(results, tips), *captions.curves(results, coloured(results)))


def _draw_curves(results: StudyResults, tips: Tips) -> Figure:
    figure, panels_ = panels(len(results.curves), 2.4 if narrow() else 3.0, _legend_height(results))
    shown, lines = variant_styles(results), {}
    for number, (axes, (metric, bands)) in enumerate(zip(panels_, results.curves.items(), strict=True)):
        for variant in coloured(results):
            band, own = bands[variant], shown[variant]
            lines[variant] = axes.plot(band.x, band.centre * metric.scale, color=own.colour, lw=1.6, ls=own.dashes)[0]
            low, high = band.low * metric.scale, band.high * metric.scale
            area = axes.fill_between(band.x, low, high, color=own.colour, alpha=0.18, lw=0)
            index = results.variants.names.index(variant)
            name_artists([lines[variant], area], f"v{index}-curve-{number}", tips)
            _add_values(axes, band, metric, brief_names(results)[variant], f"v{index}-values-{number}", tips)
        axes.set_xlabel("epoch")
        axes.set_title(f"{metric.label}{metric.unit}", loc="left")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(axis="y")
    _legend(figure, results, lines, tips)
    return figure


def _add_values(axes: Axes, band: Band, metric: Metric, name: str, gid: str, tips: Tips) -> None:
    """Add invisible marks, so that the page can show the values of a curve under the pointer."""
    step = max(1, math.ceil(len(band.x) / MOST_POINTS))
    at = [i for i in range(len(band.x) - 1, -1, -step) if math.isfinite(band.centre[i])]
    marks = axes.plot(band.x[at], band.centre[at] * metric.scale, "o", ms=5, alpha=0)
    texts = [f"{name}, epoch {band.x[i]:g}: {captions.value_text(float(band.centre[i]), metric)}" for i in at]
    name_artists(marks, gid, tips, texts)


def against_cost(results: StudyResults) -> Plot | None:
    """Draw the metric against parameters, FLOPs and time."""
    kinds = {name: words for name, words in COSTS.items() if results.cost[name].notna().any()}
    if not kinds:
        return None
    texts = captions.cost(results, list(kinds.values()), coloured(results))
    return plot("cost", lambda tips: _draw_costs(results, kinds, tips), *texts)


def _draw_costs(results: StudyResults, kinds: dict[str, str], tips: Tips) -> Figure:
    metric = results.study.metric
    figure, panels_ = panels(len(kinds), 1.9 if narrow() else 2.9, _legend_height(results), sharey=True)
    for axes, (name, words) in zip(panels_, kinds.items(), strict=True):
        handles = _draw_cost(axes, results, name, words, tips)
        axes.set_xlabel(words)
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: formatting.magnitude(value, 5)))
        axes.tick_params(axis="x", labelsize=8)
        axes.grid()
        if narrow() or axes is panels_[0]:
            axes.set_ylabel(f"{metric.label}{metric.unit}")
    _legend(figure, results, handles, tips)
    return figure


def _draw_cost(axes: Axes, results: StudyResults, name: str, words: str, tips: Tips) -> dict[str, ErrorbarContainer]:
    """Draw each variant's mean at its cost; returns a handle for the legend by variant."""
    metric, handles, names = results.study.metric, {}, brief_names(results)
    for index, (variant, own) in enumerate(variant_styles(results).items()):
        mean = results.mean(variant)
        grey = own.colour == FAINT
        drawn: dict[str, Any] = {"color": own.colour, "marker": own.marker, "ms": 3 if grey else 6}
        error = bars([mean], metric.scale, formatting.limits(metric)) if math.isfinite(mean.low) else None
        x, y = results.cost.loc[variant, name], mean.value * metric.scale
        handles[variant] = axes.errorbar(x, y, yerr=error, lw=1.2, zorder=1 if grey else 2, **drawn)
        mark, _, segments = handles[variant].lines
        tip = f"{captions.mean_text(names[variant], mean, metric)}, {words}: {formatting.magnitude(float(x))}"
        name_artists([mark, *segments], f"v{index}-{name}", tips, [tip])
    return handles


def _legend_height(results: StudyResults) -> float:
    """The height of `_legend` in inches."""
    names = labels(results, coloured(results))
    return 0.19 * -(-len(names) // legend_columns(names))


def _legend(figure: Figure, results: StudyResults, handles: dict, tips: Tips) -> None:
    chosen = coloured(results)
    names = labels(results, chosen)
    shown = [handles[v] for v in chosen]
    legend = figure.legend(shown, names, loc="outside lower center", ncols=legend_columns(names), fontsize=9)
    for variant, text in zip(chosen, legend.get_texts(), strict=True):
        name_artists([text], f"v{results.variants.names.index(variant)}-legend", tips)
