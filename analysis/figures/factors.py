"""The heat map of a study of several factors."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.figures.style import PAPER, Drawing, style
from analysis.figures.styles import shorts
from analysis.runs.settings import in_order
from experiments.metric import Metric

MOST_ANNOTATED = 100  # cells of a heat map that show their values


@style()
def draw_grid(levels: pd.DataFrame, means: Mapping[str, float], factors: Mapping[str, str], metric: Metric) -> Drawing:
    """Draw the means of the first two factors as a heat map, empty without a finished run; `levels`: see `Variants`."""
    import seaborn  # 0.5 s, and few reports have a heat map

    down, across = list(factors)[:2]
    values = pd.Series([means[variant] * metric.scale for variant in levels.index], index=levels.index)
    table = values.groupby([levels[down], levels[across]]).mean().unstack()
    table = table.reindex(index=in_order(levels[down]), columns=in_order(levels[across]))
    figure = Drawing(min(1.4 + 0.42 * len(table), 14))
    colours: dict[str, Any] = {"cmap": "cividis", "linewidths": 1, "linecolor": PAPER}
    shown: dict[str, Any] = {"annot": table.size <= MOST_ANNOTATED, "fmt": f".{1 if metric.is_share else 3}f"}
    label = f"{metric.label}{metric.unit}"
    axes = seaborn.heatmap(table, ax=figure.subplots(), cbar_kws={"label": label}, **colours, **shown)
    axes.set(xlabel=factors[across], ylabel=factors[down])
    axes.set_xticks(axes.get_xticks(), shorts(list(table.columns)), rotation=45, ha="right")
    axes.set_yticks(axes.get_yticks(), shorts(list(table.index)), rotation=0)
    return figure
