"""The figure that compares two studies."""

from __future__ import annotations

from matplotlib.figure import Figure

from analysis.comparison import TwoStudies
from analysis.figures import captions
from analysis.figures.style import PALETTE, Plot, Tips, interval, name_artists, plot, rows, shorts


def comparison_plot(both: TwoStudies) -> Plot:
    """Draw the means of both studies, one line for each variant."""
    return plot("compared", lambda tips: _draw(both, tips), *captions.compared(both.a.study.metric, len(both.shared)))


def _draw(both: TwoStudies, tips: Tips) -> Figure:
    metric = both.a.study.metric
    figure, (axes,) = rows(shorts(both.shared))
    handles = []
    sides = (("A", -0.14, both.a, PALETTE[1], "o"), ("B", 0.14, both.b, PALETTE[0], "D"))
    for side, offset, results, colour, marker in sides:
        for row, variant in enumerate(both.shared):
            mean = results.mean(variant)
            marks = interval(axes, mean, row + offset, metric, colour, marker)
            name_artists(marks, f"{side}-{row}", tips, [captions.mean_text(f"{side}: {variant}", mean, metric)])
        handles.append(axes.plot([], [], marker, color=colour)[0])
    axes.set_xlabel(f"{metric.label}{metric.unit}")
    figure.legend(handles, ["A", "B"], loc="outside lower center", ncols=2)
    return figure
