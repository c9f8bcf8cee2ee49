"""The figure of the learning curves."""

from __future__ import annotations

import math

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from analysis import formatting
from analysis.figures.drawing import identify, panels, variants_legend
from analysis.figures.labels import Styles
from analysis.figures.style import Drawing, style
from analysis.results.curves import Curves
from experiments.metric import Metric

MOST_POINTS = 40  # epochs of a curve whose values the page shows under the pointer


@style()
def curves(metrics: Curves, styles: Styles) -> Drawing:
    """Draw the mean of each metric by epoch, with the band of its interval, for the variants with a colour."""
    figure, below = panels(len(metrics), 2.0)
    lines = {}
    for number, (axes, (metric, by_variant)) in enumerate(zip(below, metrics.items(), strict=True)):
        for variant in styles.coloured:
            curve, look, id = by_variant[variant] * metric.scale, styles.by_variant[variant], styles.id(variant)
            (lines[variant],) = axes.plot(curve.index, curve["value"], color=look.colour, lw=1.6, ls=look.dashes)
            area = axes.fill_between(curve.index, curve["low"], curve["high"], color=look.colour, alpha=0.18, lw=0)
            identify([lines[variant], area], f"{id}-curve-{number}")
            _add_values(axes, by_variant[variant]["value"], metric, styles.names[variant], f"{id}-values-{number}")
        axes.set_title(f"{metric.label}{metric.unit}", loc="left")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(axis="y")
    below[-1].set_xlabel("epoch")
    variants_legend(figure, lines, styles)
    return figure


def _add_values(axes: Axes, curve: pd.Series, metric: Metric, name: str, id: str) -> None:
    """Add invisible marks, so that the page can show the values of a curve (epoch -> value) under the pointer."""
    step = max(1, math.ceil(len(curve) / MOST_POINTS))
    shown = curve.iloc[::-1].iloc[::step].dropna()
    marks = axes.plot(shown.index, shown * metric.scale, "o", ms=5, alpha=0)
    identify(
        marks, id, [f"{name}, epoch {epoch:g}: {formatting.value(value, metric)}" for epoch, value in shown.items()]
    )
