"""The figure of a tuning: the validation accuracy of every trial against a tuned setting."""

from __future__ import annotations

from typing import Any

from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from analysis import formatting
from analysis.figures.drawing import identify, legend, panels
from analysis.figures.labels import Styles
from analysis.figures.style import Drawing, style
from analysis.results.tuning import Tuning

RATE = "optim.lr"


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
    metric, shown, handles = tuning.metric, [v for v in styles.coloured if v in tuning.variants], []
    for variant in shown:
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
        handles.append(best[0])
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
    legend(figure, handles, [styles.names[v] for v in shown], [f"{styles.id(v)}-legend" for v in shown])
    return figure


def _tip(tuning: Tuning, trial: dict[Any, Any]) -> str:
    """`trial 3: 93.1 %, finished after 30 epochs; lr = 0.004, ...`"""
    settings = ", ".join(f"{path.rpartition('.')[2]} = {formatting.setting(trial[path])}" for path in tuning.plan.space)
    ended = f"{trial['status']} after {formatting.plural(trial['epochs'], 'epoch')}"
    return f"trial {trial['trial']}: {formatting.value(trial[tuning.metric], tuning.metric)}, {ended}; {settings}"
