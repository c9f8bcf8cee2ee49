"""The figures of a study of several factors: every pair of factors."""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from analysis.figures.drawing import intervals
from analysis.figures.style import FAINT, INK, MARKERS, PAPER, Drawing, style
from analysis.figures.styles import VariantStyle, shorts
from analysis.runs.settings import in_order
from analysis.verdicts import Factorial
from analysis.words import level_name, named_mean
from experiments.metric import Metric

MOST_ANNOTATED = 100  # cells of a heat map that show their values
MOST_LINES = len(MARKERS)  # levels of a factor that are drawn as lines
DASHES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (5, 1)))
SPREAD = 0.3  # of the distance of two rows: over how much of it the marks of several lines are spread


def drawn_pairs(model: Factorial) -> list[tuple[str, ...]]:
    """The pairs of factors that can be drawn: those with a factor that has few enough levels for lines."""
    return [pair for pair in combinations(model.factors, 2) if min(len(model.levels[f]) for f in pair) <= MOST_LINES]


@style()
def draw_pairs(model: Factorial, factors: Mapping[str, str], metric: Metric) -> Drawing:
    """Draw a panel for each of `drawn_pairs`: a row for each level of one factor, a line for each of the other."""
    pairs = drawn_pairs(model)
    most = max(len(model.levels[factor]) for pair in pairs for factor in pair)
    figure = Drawing((1.25 + 0.5 * most) * len(pairs))
    panels = figure.subplots(len(pairs), 1, sharex=True, squeeze=False).ravel()
    for number, (axes, pair) in enumerate(zip(panels, pairs, strict=True)):
        _draw_pair(axes, model, factors, metric, pair, f"pair-{number}")
    return figure


def _draw_pair(
    axes: Axes, model: Factorial, factors: Mapping[str, str], metric: Metric, pair: tuple[str, ...], id: str
) -> None:
    """The factor with more levels has the rows."""
    levels, handles = model.levels, []
    down, across = sorted(pair, key=lambda factor: -len(levels[factor]))
    means = {frozenset(zip(pair, at)): mean for at, mean in model.means[pair].items()}
    points = [level_name(factors[down], str(level)) for level in levels[down]]
    names = shorts(list(map(str, levels[across])))
    for number, (name, level) in enumerate(zip(names, levels[across], strict=True)):
        estimates = [means[frozenset({(down, row), (across, level)})] for row in levels[down]]
        shift = SPREAD * (number - (len(names) - 1) / 2) / max(1, len(names) - 1)
        places = [row + shift for row in range(len(points))]
        line = f"{factors[across]} = {name}"
        tips = [named_mean(f"{point} × {line}", mean, metric) for point, mean in zip(points, estimates, strict=True)]
        look, dashes = VariantStyle(INK, MARKERS[number]), DASHES[number % len(DASHES)]
        drawn = intervals(axes, estimates, places, metric, look, size=5.5, line=dashes, id=f"{id}-{number}", tips=tips)
        drawn.lines[0].set(markerfacecolor=PAPER if number % 2 else INK, markeredgecolor=INK, color=FAINT)
        handles.append(drawn.lines[0])
    axes.set_yticks(range(len(points)), shorts(points))
    axes.set_ylim(len(points) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelbottom=True)
    axes.set_xlabel(f"mean {metric.label}{metric.unit}")
    axes.grid(axis="x")
    columns = 1 if max(map(len, names)) > 12 else 3
    above: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0, "alignment": "left"}
    axes.legend(handles, names, title=factors[across], ncols=columns, **above)


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
