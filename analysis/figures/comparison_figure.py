"""The figure that compares two studies."""

from __future__ import annotations

from analysis.comparison import TwoStudies
from analysis.figures import captions
from analysis.figures.drawing import intervals, legend, rows
from analysis.figures.labels import VariantStyle, shorts
from analysis.figures.style import PALETTE, Drawing, Plot, style


def comparison_plot(both: TwoStudies) -> Plot:
    """Draw the means of both studies, one line for each variant."""
    return Plot("compared", _draw(both), *captions.compared(both.a.study.metric, len(both.shared)))


@style()
def _draw(both: TwoStudies) -> Drawing:
    metric = both.a.study.metric
    figure, (axes,) = rows(shorts(both.shared))
    handles = []
    sides = (("A", -0.14, both.a, VariantStyle(PALETTE[1], "o")), ("B", 0.14, both.b, VariantStyle(PALETTE[0], "D")))
    for side, offset, results, look in sides:
        for row, variant in enumerate(both.shared):
            mean = results.mean(variant)
            tips = [captions.mean_text(f"{side}: {variant}", mean, metric)]
            drawn = intervals(axes, [mean], [row + offset], metric, look, id=f"{side}-{row}", tips=tips)
        handles.append(drawn)
    axes.set_xlabel(f"{metric.label}{metric.unit}")
    legend(figure, handles, ["A", "B"])
    return figure
