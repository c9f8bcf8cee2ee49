"""Figures of points: the means of the variants against their cost, and the trials of a tuning against a setting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from analysis import formatting
from analysis.figures.drawing import identify, intervals, legend, panels
from analysis.figures.labels import Styles
from analysis.figures.style import FAINT, Drawing, style
from analysis.results.means import Means

if TYPE_CHECKING:
    from analysis.answers.tuning.compute import Tuning

RATE = "optim.lr"
ALIKE, SPREAD = 0.01, 0.08  # of the axis: costs that are drawn apart, and over how much of it


@style()
def against_cost(cost: pd.DataFrame, kinds: Mapping[str, str], means: Means, styles: Styles) -> Drawing:
    """Draw the mean of each variant against each cost. `kinds`: columns of `cost` that vary, with their labels."""
    metric = means.metric
    figure, below = panels(len(kinds), 1.9)
    handles = {}
    for axes, (kind, words) in zip(below, kinds.items(), strict=True):
        costs = cost[kind].astype(float).dropna()
        for (variant, place), apart in zip(costs.items(), _apart(costs.to_numpy()), strict=True):
            mean, look = means.of(variant), styles.by_variant[variant]
            name = formatting.named_mean(styles.names[variant], mean, metric)
            mark: dict[str, Any] = {"size": 3 if look.colour == FAINT else 6, "id": f"{styles.id(variant)}-{kind}"}
            tips = [f"{name}, {words}: {formatting.magnitude(place)}"]
            handles[variant] = intervals(axes, [mean], [apart], metric, look, vertical=True, tips=tips, **mark)
        axes.set_xlabel(words)
        axes.set_ylabel(f"{metric.label}{metric.unit}")
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: formatting.magnitude(value, 5)))
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


def shown_setting(tuning: Tuning) -> str | None:
    """The learning rate, else the first setting with a range; None where all settings have choices only."""
    ranges = [path for path, tried in tuning.plan.space.items() if tried.choices is None]
    return RATE if RATE in ranges else next(iter(ranges), None)


@style()
def draw_trials(tuning: Tuning, path: str, label: str, styles: Styles) -> Drawing:
    """Draw every trial against the setting `path`, whose axis has this `label`.

    Filled marks: finished trials. Hollow marks: trials that were stopped early. Large marks: the choices.
    """
    figure, (axes,) = panels(1, 2.8)
    metric, handles = tuning.metric, {}
    for variant in (variant for variant in styles.coloured if variant in tuning.variants):
        (colour, marker, _), id = styles.by_variant[variant], styles.id(variant)
        look: dict[str, Any] = {"color": colour, "marker": marker, "ls": ""}
        trials, choice = tuning.of(variant).dropna(subset=[metric]), tuning.plan.variants[variant]
        finished = trials["status"] == "finished"
        for kind, rows, fill in (("finished", trials[finished], colour), ("stopped", trials[~finished], "none")):
            marks = axes.plot(rows[path], rows[metric] * metric.scale, ms=4.5, mfc=fill, **look)
            tips = [f"{styles.names[variant]}, {_tip(tuning, row)}" for row in rows.to_dict("records")]
            identify(marks, f"{id}-{kind}", tips)
        place = choice.settings[path], choice.val_acc * metric.scale
        best = axes.plot(*place, ms=10, mec="white", mew=0.8, zorder=3, **look)
        identify(best, f"{id}-chosen", [f"chosen for {styles.names[variant]}"])
        handles[variant] = best[0]
    if tuning.plan.space[path].log:
        axes.set_xscale("log")
        low, high = axes.get_xlim()
        if high < 100 * low:  # decades alone would be too few labels
            axes.xaxis.set_major_locator(MaxNLocator(4) if high < 10 * low else LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel(label)
    axes.set_ylabel(f"{metric.label}{metric.unit}")
    axes.grid()
    legend(figure, handles, styles)
    return figure


def _tip(tuning: Tuning, trial: dict[Any, Any]) -> str:
    """`trial 3: 93.1 %, finished after 30 epochs; lr = 0.004, ...`"""
    settings = ", ".join(f"{path.rpartition('.')[2]} = {formatting.setting(trial[path])}" for path in tuning.plan.space)
    ended = f"{trial['status']} after {formatting.plural(trial['epochs'], 'epoch')}"
    return f"trial {trial['trial']}: {formatting.value(trial[tuning.metric], tuning.metric)}, {ended}; {settings}"
