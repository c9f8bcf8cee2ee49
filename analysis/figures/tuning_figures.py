"""Figures of a tuning: validation accuracy against a tuned setting, and the expected best against the budget."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from analysis import formatting
from analysis.figures.drawing import identify, legend, panels
from analysis.figures.labels import Styles
from analysis.figures.style import Drawing, style
from analysis.results.tuning import Tuning

RATE = "optim.lr"
HEIGHT = 2.8  # inches
MOST_MARKS = 12  # of a line of the expected best


def shown_setting(tuning: Tuning) -> str | None:
    """The learning rate, else the first setting with a range; None where all settings have choices only."""
    ranges = [path for path, tried in tuning.plan.space.items() if tried.low is not None]
    return RATE if RATE in ranges else next(iter(ranges), None)


@style()
def draw_trials(tuning: Tuning, path: str, label: str, styles: Styles) -> Drawing:
    """Draw every trial against the setting `path`, which has this `label`.

    Filled marks: finished trials. Hollow marks: trials that were stopped early. Large marks: the choices.
    """
    figure, (axes,) = panels(1, HEIGHT)
    metric, handles = tuning.metric, {}
    for variant in _shown(tuning, styles):
        (colour, marker, _), id = styles.by_variant[variant], styles.id(variant)
        look: dict[str, Any] = {"color": colour, "marker": marker, "ls": ""}
        trials, choice = tuning.of(variant).dropna(subset=[metric]), tuning.plan.variants[variant]
        finished = trials["status"] == "finished"
        for kind, rows, fill in (("finished", trials[finished], colour), ("stopped", trials[~finished], "none")):
            marks = axes.plot(rows[path], rows[metric] * metric.scale, ms=4.5, mfc=fill, **look)
            identify(
                marks, f"{id}-{kind}", [_tip(tuning, styles.names[variant], row) for row in rows.to_dict("records")]
            )
        best = axes.plot(
            choice.settings[path], choice.val_acc * metric.scale, ms=10, mec="white", mew=0.8, zorder=3, **look
        )
        identify(best, f"{id}-chosen", [f"chosen for {styles.names[variant]}"])
        handles[variant] = best[0]
    if tuning.plan.space[path].log:
        axes.set_xscale("log")
        low, high = axes.get_xlim()
        if high < 100 * low:  # decades alone would be too few labels
            axes.xaxis.set_major_locator(MaxNLocator(4) if high < 10 * low else LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    _finish(figure, axes, tuning, label, styles, handles)
    return figure


@style()
def draw_budget(tuning: Tuning, label: str, styles: Styles) -> Drawing:
    """Draw the expected best against the budget, whose axis has this `label`."""
    figure, (axes,) = panels(1, HEIGHT)
    metric, handles = tuning.metric, {}
    for variant in _shown(tuning, styles):
        (colour, marker, dashes), best = styles.by_variant[variant], tuning.expected[variant]
        every = math.ceil(len(best) / MOST_MARKS)
        look: dict[str, Any] = {"color": colour, "marker": marker, "ls": dashes, "markevery": every}
        lines = axes.plot(best["epochs"], best["value"] * metric.scale, ms=4, **look)
        tips = [
            f"{styles.names[variant]}, {formatting.plural(n, 'trial')}: {formatting.value(value, metric)}"
            for n, value in enumerate(best["value"], start=1)
        ]
        identify(lines, f"{styles.id(variant)}-budget", tips if every == 1 else ())
        handles[variant] = lines[0]
    _finish(figure, axes, tuning, label, styles, handles)
    return figure


def _shown(tuning: Tuning, styles: Styles) -> list[str]:
    """The tuned variants with a colour of their own."""
    return [variant for variant in styles.coloured if variant in tuning.expected]


def _tip(tuning: Tuning, name: str, trial: dict[Any, Any]) -> str:
    """`none, trial 3: 93.1 %, finished after 30 epochs; lr = 0.004, ...`"""
    settings = ", ".join(f"{path.rpartition('.')[2]} = {formatting.setting(trial[path])}" for path in tuning.plan.space)
    ended = f"{trial['status']} after {formatting.plural(trial['epochs'], 'epoch')}"
    return (
        f"{name}, trial {trial['trial']}: {formatting.value(trial[tuning.metric], tuning.metric)}, {ended}; {settings}"
    )


def _finish(figure: Drawing, axes: Axes, tuning: Tuning, label: str, styles: Styles, handles: dict[str, Any]) -> None:
    """Add the grid, the labels of the axes and the legend."""
    axes.set_xlabel(label)
    axes.set_ylabel(f"{tuning.metric.label}{tuning.metric.unit}")
    axes.grid()
    ids = [f"{styles.id(variant)}-legend" for variant in handles]
    legend(figure, list(handles.values()), [styles.names[variant] for variant in handles], ids)
