"""The figure of the learning curves."""

from __future__ import annotations

import math

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from analysis import formatting
from analysis.figures.drawing import identify, panels, variants_legend
from analysis.figures.labels import Styles
from analysis.figures.style import Drawing, style
from analysis.results.curves import Curves
from analysis.stats import Band
from experiments.metric import Metric

MOST_POINTS = 40  # epochs of a curve whose values the page shows under the pointer


@style()
def curves(metrics: Curves, styles: Styles) -> Drawing:
    """Draw the mean of each metric by epoch, with the band of its interval, for the variants with a colour."""
    figure, below = panels(len(metrics), 2.0)
    lines = {}
    for number, (axes, (metric, bands)) in enumerate(zip(below, metrics.items(), strict=True)):
        for variant in styles.coloured:
            band, look, id = bands[variant], styles.by_variant[variant], styles.id(variant)
            lines[variant] = axes.plot(band.x, band.centre * metric.scale, color=look.colour, lw=1.6, ls=look.dashes)[0]
            low, high = band.low * metric.scale, band.high * metric.scale
            area = axes.fill_between(band.x, low, high, color=look.colour, alpha=0.18, lw=0)
            identify([lines[variant], area], f"{id}-curve-{number}")
            _add_values(axes, band, metric, styles.names[variant], f"{id}-values-{number}")
        axes.set_title(f"{metric.label}{metric.unit}", loc="left")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(axis="y")
    below[-1].set_xlabel("epoch")
    variants_legend(figure, lines, styles)
    return figure


def _add_values(axes: Axes, band: Band, metric: Metric, name: str, id: str) -> None:
    """Add invisible marks, so that the page can show the values of a curve under the pointer."""
    step = max(1, math.ceil(len(band.x) / MOST_POINTS))
    at = [i for i in range(len(band.x) - 1, -1, -step) if math.isfinite(band.centre[i])]
    marks = axes.plot(band.x[at], band.centre[at] * metric.scale, "o", ms=5, alpha=0)
    identify(marks, id, [f"{name}, epoch {band.x[i]:g}: {formatting.value(float(band.centre[i]), metric)}" for i in at])
