"""Figures of points: the means of the variants against their cost, and the trials of a tuning against a setting."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from analysis import words
from analysis.figures.drawing import identify, intervals, legend, panels
from analysis.figures.style import FAINT, Drawing, style
from analysis.figures.styles import Styles
from analysis.verdicts import Estimate
from experiments.metric import Metric

ALIKE, SPREAD = 0.01, 0.08  # of the axis: costs that are drawn apart, and over how much of it
SMALLEST_AXIS = 0.1  # of the largest cost: an axis that shows less of it makes noise look large


@style()
def against_cost(
    cost: pd.DataFrame, kinds: Mapping[str, str], means: Mapping[str, Estimate], metric: Metric, styles: Styles
) -> Drawing:
    """Draw the mean of each variant against each cost. `kinds`: columns of `cost` that vary, with their labels."""
    figure, below = panels(len(kinds), 1.9)
    handles = {}
    for axes, (kind, label) in zip(below, kinds.items(), strict=True):
        costs = cost[kind].astype(float).dropna()
        for (variant, place), apart in zip(costs.items(), _apart(costs.to_numpy()), strict=True):
            mean, look = means[variant], styles.by_variant[variant]
            name = words.named_mean(styles.names[variant], mean, metric)
            mark: dict[str, Any] = {"size": 3 if look.colour == FAINT else 6, "id": f"{styles.id(variant)}-{kind}"}
            tips = [f"{name}, {label}: {words.magnitude(place)}"]
            handles[variant] = intervals(axes, [mean], [apart], metric, look, vertical=True, tips=tips, **mark)
        missing = SMALLEST_AXIS * costs.max() - np.ptp(axes.get_xlim())
        if missing > 0:
            low, high = axes.get_xlim()
            axes.set_xlim(low - missing / 2, high + missing / 2)
        axes.set_xlabel(label)
        axes.set_ylabel(f"{metric.label}{metric.unit}")
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: words.magnitude(value, 5)))
        axes.grid()
    legend(figure, handles, styles)
    return figure


def _apart(costs: np.ndarray) -> np.ndarray:
    """The costs, those that are nearly equal side by side, since their marks would cover each other."""
    places, width, order = costs.copy(), np.ptp(costs), np.argsort(costs)
    groups = np.split(order, np.flatnonzero(np.diff(costs[order]) > ALIKE * width) + 1)
    for group in groups:
        places[group] += SPREAD * width * ((np.arange(len(group)) + 0.5) / len(group) - 0.5)
    return places


@style()
def draw_trials(
    trials: pd.DataFrame, chosen: dict[str, tuple[float, float]], name: str, log: bool, metric: Metric, styles: Styles
) -> Drawing:
    """Draw every trial of a tuning against the setting that the axis calls `name`.

    `trials`: columns variant, x, y (the metric), status, tip. `chosen`: variant -> x and y of its choice. Marks are
    filled for finished trials, hollow for those that were stopped early, and large for the choices.
    """
    figure, (axes,) = panels(1, 2.8)
    handles = {}
    for variant in (variant for variant in styles.coloured if variant in chosen):
        (colour, marker, _), id = styles.by_variant[variant], styles.id(variant)
        look: dict[str, Any] = {"color": colour, "marker": marker, "ls": ""}
        own = trials[trials["variant"] == variant].dropna(subset=["y"])
        finished = own["status"] == "finished"
        for kind, rows, fill in (("finished", own[finished], colour), ("stopped", own[~finished], "none")):
            marks = axes.plot(rows["x"], rows["y"] * metric.scale, ms=4.5, mfc=fill, **look)
            identify(marks, f"{id}-{kind}", [f"{styles.names[variant]}, {tip}" for tip in rows["tip"]])
        x, y = chosen[variant]
        best = axes.plot(x, y * metric.scale, ms=10, mec="white", mew=0.8, zorder=3, **look)
        identify(best, f"{id}-chosen", [f"chosen for {styles.names[variant]}"])
        handles[variant] = best[0]
    if log:
        axes.set_xscale("log")
        low, high = axes.get_xlim()
        if high < 100 * low:  # decades alone would be too few labels
            axes.xaxis.set_major_locator(MaxNLocator(4) if high < 10 * low else LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel(name)
    axes.set_ylabel(f"{metric.label}{metric.unit}")
    axes.grid()
    legend(figure, handles, styles)
    return figure
