"""Figures of a tuning: validation accuracy against a tuned setting, and the expected best against the budget."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from analysis import formatting
from analysis.figures import captions
from analysis.figures.drawing import identify, legend, panels
from analysis.figures.labels import brief_names, coloured, labels, variant_styles
from analysis.figures.style import Drawing, Plot, style
from analysis.results.study_results import StudyResults
from analysis.results.tuning import TuningResults

RATE = "optim.lr"
HEIGHT = 2.8  # inches


def tuning_plots(results: StudyResults) -> list[Plot]:
    """Return the figures of the tuning; none for a study that was not tuned."""
    if results.tuning is None:
        return []
    found, variants = results.tuning, [v for v in coloured(results) if v in results.tuning.expected]
    path = _shown_setting(found)
    plots = []
    if path is not None:
        texts = captions.tuning(path, variants)
        plots.append(Plot("tuning", _draw_trials(results, found, path, variants), *texts))
    texts = captions.tuning_budget(variants)
    return [*plots, Plot("tuning-budget", _draw_budget(results, found, variants), *texts)]


def _shown_setting(found: TuningResults) -> str | None:
    """The learning rate, else the first setting with a range; None where all settings have choices only."""
    ranges = [path for path, tried in found.tuning.space.items() if tried.low is not None]
    return RATE if RATE in ranges else next(iter(ranges), None)


@style()
def _draw_trials(results: StudyResults, found: TuningResults, path: str, variants: list[str]) -> Drawing:
    """Filled marks: finished trials. Hollow marks: trials that were stopped early. Large marks: the choices."""
    figure, (axes,) = panels(1, HEIGHT)
    metric = found.metric
    handles: dict[str, Any] = {}
    for variant in variants:
        own, index = variant_styles(results)[variant], results.variants.names.index(variant)
        trials = found.of(variant).dropna(subset=[metric])
        finished = trials["status"] == "finished"
        look: dict[str, Any] = {"color": own.colour, "marker": own.marker, "ls": ""}
        for kind, rows, fill in (("finished", trials[finished], own.colour), ("stopped", trials[~finished], "none")):
            marks = axes.plot(rows[path], rows[metric] * metric.scale, ms=4.5, mfc=fill, **look)
            texts = [_tip(results, found, variant, row) for row in rows.to_dict("records")]
            identify(marks, f"v{index}-{kind}", texts)
            handles[variant] = marks[0] if kind == "finished" else handles[variant]
        choice = found.tuning.variants[variant]
        best = axes.plot(
            choice.settings[path], choice.val_acc * metric.scale, ms=10, mec="white", mew=0.8, zorder=3, **look
        )
        identify(best, f"v{index}-chosen", [f"chosen for {brief_names(results)[variant]}"])
    if found.tuning.space[path].log:
        axes.set_xscale("log")
        low, high = axes.get_xlim()
        if high < 100 * low:  # decades alone would be too few labels
            axes.xaxis.set_major_locator(MaxNLocator(4) if high < 10 * low else LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(formatting.factor_name(path, {RATE: "peak learning rate"}))
    _finish(figure, axes, results, variants, handles)
    return figure


def _tip(results: StudyResults, found: TuningResults, variant: str, trial: dict[Any, Any]) -> str:
    """`none, trial 3: 93.1 %, finished after 30 epochs; lr = 0.004, ...`"""
    metric = found.metric
    settings = ", ".join(
        f"{path.rpartition('.')[2]} = {formatting.setting(trial[path])}" for path in found.tuning.space
    )
    value = formatting.value(float(trial[metric]), metric)
    ended = f"{trial['status']} after {formatting.plural(trial['epochs'], 'epoch')}"
    return f"{brief_names(results)[variant]}, trial {trial['trial']}: {value}, {ended}; {settings}"


@style()
def _draw_budget(results: StudyResults, found: TuningResults, variants: list[str]) -> Drawing:
    figure, (axes,) = panels(1, HEIGHT)
    metric = found.metric
    handles: dict[str, Any] = {}
    for variant in variants:
        own, best = variant_styles(results)[variant], found.expected[variant]
        index = results.variants.names.index(variant)
        every = math.ceil(len(best.epochs) / 12)
        lines = axes.plot(
            best.epochs,
            best.value * metric.scale,
            color=own.colour,
            ls=own.dashes,
            marker=own.marker,
            ms=4,
            markevery=every,
        )
        texts = [
            f"{brief_names(results)[variant]}, {formatting.plural(n, 'trial')}: {formatting.value(float(value), metric)}"
            for n, value in enumerate(best.value, start=1)
        ]
        identify(lines, f"v{index}-budget", texts if every == 1 else ())
        handles[variant] = lines[0]
    axes.set_xlabel("budget: epochs trained in the trials of a variant")
    _finish(figure, axes, results, variants, handles)
    return figure


def _finish(figure: Drawing, axes: Axes, results: StudyResults, variants: list[str], handles: dict[str, Any]) -> None:
    """Add the grid, the label of the accuracy and the legend."""
    assert results.tuning is not None
    metric = results.tuning.metric
    axes.set_ylabel(f"{metric.label}{metric.unit}")
    axes.grid()
    ids = [f"v{results.variants.names.index(variant)}-legend" for variant in variants]
    legend(figure, [handles[variant] for variant in variants], labels(results, variants), ids)
