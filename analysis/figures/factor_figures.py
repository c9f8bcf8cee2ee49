"""The figures of a study of several factors: the levels of each factor, and every pair of factors. StudyResults in, figures out."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from matplotlib.axes import Axes

from analysis import formatting
from analysis.figures import captions
from analysis.figures.drawing import intervals, rows
from analysis.figures.labels import VariantStyle, shorts
from analysis.figures.style import FAINT, INK, MARKERS, PAPER, Drawing, Plot, style
from analysis.formatting import factor_name, level_name
from analysis.results.study_results import StudyResults
from analysis.stats import Estimate, Factorial
from experiments.metric import Metric

MOST_LINES = 5  # levels of a factor that are drawn as lines; a larger grid is a heat map
MOST_ANNOTATED = 150  # cells of a heat map that show their value
DASHES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (5, 1)))


def main_effects(results: StudyResults) -> Plot | None:
    """Draw the mean of each level of each factor, averaged over the other factors; None without a fitted grid."""
    fitted = results.factorial
    if fitted is None:
        return None
    return Plot("main-effects", _draw_effects(results, fitted), *captions.main_effects(results))


@style()
def _draw_effects(results: StudyResults, fitted: Factorial) -> Drawing:
    metric = Metric(fitted.metric)
    found = [((f,), levels, mean) for f in fitted.factors for levels, mean in fitted.means[f,].items()]
    names = [" × ".join(_level_names(results, term, levels)) for term, levels, _ in found]
    figure, (axes,) = rows(shorts(names))
    for row, (name, (term, _, mean)) in enumerate(zip(names, found, strict=True)):
        tips = [formatting.named_mean(name, mean, metric)]
        intervals(axes, [mean], [row], metric, VariantStyle(INK, "D"), id=f"level-{row}", tips=tips)
        if row and term != found[row - 1][0]:
            axes.axhline(row - 0.5, color=FAINT, lw=0.8)
    axes.set_xlabel(f"mean {metric.label}{metric.unit}")
    return figure


def interactions(results: StudyResults) -> Plot | None:
    """Draw a panel for every pair of factors: a row for each level of one, a line for each level of the other.

    None without a fitted grid, or where both factors of a pair have too many levels for lines.
    """
    pairs = list(_pairs(results.factorial)) if results.factorial is not None else []
    if not pairs:
        return None
    return Plot("interactions", _draw_pairs(results, pairs), *captions.interactions(results))


def _pairs(fitted: Factorial) -> Iterator[tuple[str, str]]:
    """Every pair of factors that can be drawn, as (rows, lines): the factor with fewer levels has the lines."""
    for pair in combinations(fitted.factors, 2):
        down, lines = sorted(pair, key=lambda factor: len(fitted.levels[factor]), reverse=True)
        if len(fitted.levels[lines]) <= MOST_LINES:
            yield down, lines


@style()
def _draw_pairs(results: StudyResults, pairs: list[tuple[str, str]]) -> Drawing:
    """Panels below each other, all with the same scale."""
    assert results.factorial is not None
    metric, levels = Metric(results.study.metric), results.factorial.levels
    most = max(len(levels[factor]) for factor, _ in pairs)
    figure = Drawing((1.25 + 0.5 * most) * len(pairs))
    panels = figure.subplots(len(pairs), 1, sharex=True, squeeze=False).ravel()
    for number, (axes, pair) in enumerate(zip(panels, pairs, strict=True)):
        _draw_pair(axes, results, pair, number)
        axes.set_xlabel(f"mean {metric.label}{metric.unit}")
        axes.tick_params(axis="x", labelbottom=True)
    return figure


def _draw_pair(axes: Axes, results: StudyResults, pair: tuple[str, str], number: int) -> None:
    fitted = results.factorial
    assert fitted is not None
    metric, (down, lines) = Metric(fitted.metric), pair
    means, levels, keys = _by_levels(fitted, pair), fitted.levels[lines], []
    for at, level in enumerate(levels):
        offset = 0.3 * (at - (len(levels) - 1) / 2) / max(1, len(levels) - 1)
        cells = [(row + offset, means[each, level]) for row, each in enumerate(fitted.levels[down])]
        look: dict[str, Any] = {"color": FAINT, "lw": 1.2, "ls": DASHES[at]}
        axes.plot([mean.value * metric.scale for _, mean in cells], [place for place, _ in cells], **look)
        filling: dict[str, Any] = {"markerfacecolor": PAPER if at % 2 else INK, "markeredgecolor": INK}
        keys += axes.plot([], [], marker=MARKERS[at], **look, **filling)
        for row, (place, mean) in enumerate(cells):
            names = _level_names(results, pair, (fitted.levels[down][row], level))
            tip = formatting.named_mean(" × ".join(names), mean, metric)
            black, id = VariantStyle(INK, MARKERS[at]), f"pair-{number}-{at}-{row}"
            mark, _, _ = intervals(axes, [mean], [place], metric, black, size=5.5, id=id, tips=[tip])
            mark.set(**filling)
    rows_of, lines_of = (factor_name(factor, results.study.names) for factor in pair)
    axes.set_yticks(range(len(fitted.levels[down])), shorts(list(map(str, fitted.levels[down]))))
    axes.set_ylim(len(fitted.levels[down]) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.set_ylabel(rows_of)
    axes.grid(axis="x")
    above: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0, "alignment": "left"}
    names = [f"{lines_of} = {level}" for level in shorts(list(map(str, levels)))]
    axes.legend(keys, names, ncols=1 if len(names) > 2 and max(map(len, names)) > 12 else 2, fontsize=9, **above)


def _by_levels(fitted: Factorial, pair: tuple[str, str]) -> dict[tuple[Any, ...], Estimate]:
    """(level of the first, level of the second) -> mean; the fit may hold the pair in the other order."""
    if pair in fitted.means:
        return fitted.means[pair]
    return {levels[::-1]: mean for levels, mean in fitted.means[pair[::-1]].items()}


def _level_names(results: StudyResults, term: tuple[str, ...], levels: tuple[Any, ...]) -> list[str]:
    names = [factor_name(factor, results.study.names) for factor in term]
    return [level_name(name, str(level)) for name, level in zip(names, levels, strict=True)]


def heat_map(results: StudyResults) -> Plot | None:
    """Draw the means over the first two factors, where these are too many for lines or no grid is complete."""
    if results.factors.grid is None or results.factors.grid.empty:
        return None
    first = set(list(results.study.factors)[:2])
    if results.factorial is not None and any(set(pair) == first for pair in _pairs(results.factorial)):
        return None
    return Plot("interaction", _draw_heat_map(results), *captions.interaction(results))


@style()
def _draw_heat_map(results: StudyResults) -> Drawing:
    import seaborn

    study = results.study
    assert results.factors.grid is not None
    table = results.factors.grid * study.metric.scale
    down, across = list(study.factors)[:2]
    figure = Drawing(min(1.4 + 0.42 * len(table), 14))
    axes = figure.subplots()
    seaborn.heatmap(
        table,
        ax=axes,
        cmap="cividis",
        annot=table.size <= MOST_ANNOTATED,
        annot_kws={"fontsize": 8},
        fmt=f".{1 if study.metric.is_share else 3}f",
        linewidths=1,
        linecolor=PAPER,
        cbar_kws={"label": f"{study.metric.label}{study.metric.unit}"},
    )
    axes.set_xlabel(formatting.factor_name(across, study.names))
    axes.set_ylabel(formatting.factor_name(down, study.names))
    axes.set_xticks(axes.get_xticks(), shorts(list(map(str, table.columns))), rotation=45, ha="right")
    axes.set_yticks(axes.get_yticks(), shorts(list(map(str, table.index))), rotation=0)
    return figure
