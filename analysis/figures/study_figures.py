"""The figures of learning curves and cost, and the list of all figures of a study. StudyResults in, figures out.

Names are drawn as text (`text.parse_math` is off). The same results give the same bytes.
"""

from __future__ import annotations

import math

from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.ticker import FuncFormatter, MaxNLocator

from analysis import formatting
from analysis.figures import captions, means
from analysis.figures.captions import mean_text, value_text
from analysis.figures.drawing import identify, intervals, legend, panels
from analysis.figures.factor_figures import heat_map, interactions, main_effects
from analysis.figures.labels import brief_names, coloured, labels, variant_styles
from analysis.figures.line_figures import profile_plots, trend_plots
from analysis.figures.style import FAINT, Drawing, Plot, style
from analysis.results.study_results import StudyResults
from analysis.stats import Band
from experiments.metric import Metric

COSTS = {"params": "parameters", "flops_per_image": "FLOPs/image", "device_seconds": "device time (s/run)"}
MOST_POINTS = 40  # epochs of a curve whose values the page shows under the pointer


def all_plots(results: StudyResults) -> list[Plot]:
    """Return every figure of the study; the main one first."""
    near = means.enlarged(results) is not None
    plots: list[Plot | None] = [Plot("accuracy", means.accuracy(results), *captions.accuracy(results, near))]
    if results.others:
        plots.append(Plot("differences", means.differences(results), *captions.differences(results)))
    plots += [main_effects(results), interactions(results), heat_map(results)]
    if results.curves:
        plots.append(Plot("curves", curves(results), *captions.curves(results, coloured(results))))
    if kinds := costs(results):
        texts = captions.cost(results, list(kinds.values()), coloured(results))
        plots.append(Plot("cost", against_cost(results), *texts))
    return [*(plot for plot in plots if plot is not None), *profile_plots(results), *trend_plots(results)]


@style()
def curves(results: StudyResults) -> Drawing:
    """Draw the learning curves: means with the band of their intervals."""
    figure, below = panels(len(results.curves), 2.0)
    styles, lines, names = variant_styles(results), {}, brief_names(results)
    for number, (axes, (metric, bands)) in enumerate(zip(below, results.curves.items(), strict=True)):
        for variant in coloured(results):
            band, look, index = bands[variant], styles[variant], results.variants.names.index(variant)
            lines[variant] = axes.plot(band.x, band.centre * metric.scale, color=look.colour, lw=1.6, ls=look.dashes)[0]
            low, high = band.low * metric.scale, band.high * metric.scale
            area = axes.fill_between(band.x, low, high, color=look.colour, alpha=0.18, lw=0)
            identify([lines[variant], area], f"v{index}-curve-{number}")
            _add_values(axes, band, metric, names[variant], f"v{index}-values-{number}")
        axes.set_title(f"{metric.label}{metric.unit}", loc="left")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(axis="y")
    below[-1].set_xlabel("epoch")
    _add_legend(figure, results, lines)
    return figure


def _add_values(axes: Axes, band: Band, metric: Metric, name: str, id: str) -> None:
    """Add invisible marks, so that the page can show the values of a curve under the pointer."""
    step = max(1, math.ceil(len(band.x) / MOST_POINTS))
    at = [i for i in range(len(band.x) - 1, -1, -step) if math.isfinite(band.centre[i])]
    marks = axes.plot(band.x[at], band.centre[at] * metric.scale, "o", ms=5, alpha=0)
    identify(marks, id, [f"{name}, epoch {band.x[i]:g}: {value_text(float(band.centre[i]), metric)}" for i in at])


def costs(results: StudyResults) -> dict[str, str]:
    """Return the kinds of cost that are known: column -> words."""
    return {name: words for name, words in COSTS.items() if results.cost[name].notna().any()}


@style()
def against_cost(results: StudyResults) -> Drawing:
    """Draw the metric against parameters, FLOPs and time."""
    metric, kinds = results.study.metric, costs(results)
    figure, below = panels(len(kinds), 1.9)
    for axes, (name, words) in zip(below, kinds.items(), strict=True):
        handles = _draw_cost(axes, results, name, words)
        axes.set_xlabel(words)
        axes.set_ylabel(f"{metric.label}{metric.unit}")
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: formatting.magnitude(value, 5)))
        axes.grid()
    _add_legend(figure, results, handles)
    return figure


def _draw_cost(axes: Axes, results: StudyResults, name: str, words: str) -> dict[str, ErrorbarContainer]:
    """Draw each variant's mean at its cost; returns a handle for the legend by variant."""
    metric, handles, names = results.study.metric, {}, brief_names(results)
    for index, (variant, look) in enumerate(variant_styles(results).items()):
        mean, cost = results.mean(variant), float(results.cost.loc[variant, name])
        tips = [f"{mean_text(names[variant], mean, metric)}, {words}: {formatting.magnitude(cost)}"]
        size, id = 3 if look.colour == FAINT else 6, f"v{index}-{name}"
        handles[variant] = intervals(axes, [mean], [cost], metric, look, vertical=True, size=size, id=id, tips=tips)
    return handles


def _add_legend(figure: Drawing, results: StudyResults, handles: dict) -> None:
    chosen = coloured(results)
    ids = [f"v{results.variants.names.index(variant)}-legend" for variant in chosen]
    legend(figure, [handles[variant] for variant in chosen], labels(results, chosen), ids)
