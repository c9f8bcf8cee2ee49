"""The figure of the metric against what a variant costs."""

from __future__ import annotations

import pandas as pd
from matplotlib.ticker import FuncFormatter, MaxNLocator

from analysis import formatting
from analysis.figures.drawing import intervals, panels, variants_legend
from analysis.figures.labels import Styles
from analysis.figures.style import FAINT, Drawing, style
from analysis.results.means import Means

COSTS = {"params": "parameters", "flops_per_image": "FLOPs/image", "device_seconds": "device time (s/run)"}


def known_costs(cost: pd.DataFrame) -> dict[str, str]:
    """Return the kinds of cost that are known: column -> words."""
    return {name: words for name, words in COSTS.items() if cost[name].notna().any()}


@style()
def against_cost(cost: pd.DataFrame, means: Means, styles: Styles) -> Drawing:
    """Draw the mean of each variant against each known cost."""
    metric, kinds = means.metric, known_costs(cost)
    figure, below = panels(len(kinds), 1.9)
    for axes, (kind, words) in zip(below, kinds.items(), strict=True):
        handles = {}
        for variant, look in styles.by_variant.items():
            mean, place = means.of(variant), float(cost.loc[variant, kind])
            tips = [
                f"{formatting.named_mean(styles.names[variant], mean, metric)}, {words}: {formatting.magnitude(place)}"
            ]
            size, id = 3 if look.colour == FAINT else 6, f"{styles.id(variant)}-{kind}"
            handles[variant] = intervals(
                axes, [mean], [place], metric, look, vertical=True, size=size, id=id, tips=tips
            )
        axes.set_xlabel(words)
        axes.set_ylabel(f"{metric.label}{metric.unit}")
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: formatting.magnitude(value, 5)))
        axes.grid()
    variants_legend(figure, handles, styles)
    return figure
