"""The figure that compares two studies."""

from __future__ import annotations

from analysis.comparison import TwoStudies
from analysis.figures import captions
from analysis.figures.style import PALETTE, Plot, interval, rows, short, style


def comparison_plot(both: TwoStudies) -> Plot:
    """Draw the means of both studies, one line for each variant."""
    metric = both.a.study.metric
    with style():
        figure, (axes,) = rows([short(variant) for variant in both.shared])
        handles = []
        for offset, results, colour, marker in ((-0.14, both.a, PALETTE[1], "o"), (0.14, both.b, PALETTE[0], "D")):
            for row, variant in enumerate(both.shared):
                interval(axes, results.mean(variant), row + offset, metric.scale, colour, marker)
            handles.append(axes.plot([], [], marker, color=colour)[0])
        axes.set_xlabel(f"{metric.label}{metric.unit}")
        figure.legend(handles, ["A", "B"], loc="outside lower center", ncols=2)
        return Plot("compared", figure, *captions.compared(metric, len(both.shared)))
