"""The figures of a study of several factors: the levels of each factor, and every pair of factors. Results in, figures out."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import formatting
from analysis.figures import captions
from analysis.figures.style import (
    FAINT,
    INK,
    MARKERS,
    PAPER,
    Plot,
    Tips,
    interval,
    name_artists,
    narrow,
    plot,
    rows,
    shorts,
    width,
)
from analysis.formatting import factor_name, level_name
from analysis.results.study_results import StudyResults
from analysis.stats import Estimate, Factorial
from experiments.metric import Metric

MOST_LINES = 5  # levels of a factor that are drawn as lines; a larger grid is a heat map
MOST_ANNOTATED = 150  # cells of a heat map that show their value
TILTED = 6  # levels from which the labels of a heat map are tilted
DASHES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (5, 1)))


def main_effects(results: StudyResults) -> Plot | None:
    """Draw the mean of each level of each factor, averaged over the other factors; None without a fitted grid."""
    fitted = results.factorial
    if fitted is None:
        return None
    return plot("main-effects", lambda tips: _draw_effects(results, fitted, tips), *captions.main_effects(results))


def _draw_effects(results: StudyResults, fitted: Factorial, tips: Tips) -> Figure:
    metric = Metric(fitted.metric)
    found = [((f,), levels, mean) for f in fitted.factors for levels, mean in fitted.means[f,].items()]
    names = [" × ".join(_level_names(results, term, levels)) for term, levels, _ in found]
    figure, (axes,) = rows(shorts(names))
    for row, (name, (term, _, mean)) in enumerate(zip(names, found, strict=True)):
        marks = interval(axes, mean, row, metric, INK, "D")
        name_artists(marks, f"level-{row}", tips, [captions.mean_text(name, mean, metric)])
        if row and term != found[row - 1][0]:
            axes.axhline(row - (0.72 if narrow() else 0.5), color=FAINT, lw=0.8)
    axes.set_xlabel(f"mean {metric.label}{metric.unit}")
    return figure


def interactions(results: StudyResults) -> Plot | None:
    """Draw a panel for every pair of factors: a row for each level of one, a line for each level of the other.

    None without a fitted grid, or where both factors of a pair have too many levels for lines.
    """
    pairs = list(_pairs(results.factorial)) if results.factorial is not None else []
    if not pairs:
        return None
    return plot("interactions", lambda tips: _draw_pairs(results, pairs, tips), *captions.interactions(results))


def _pairs(fitted: Factorial) -> Iterator[tuple[str, str]]:
    """Every pair of factors that can be drawn, as (rows, lines): the factor with fewer levels has the lines."""
    for pair in combinations(fitted.factors, 2):
        down, lines = sorted(pair, key=lambda factor: len(fitted.levels[factor]), reverse=True)
        if len(fitted.levels[lines]) <= MOST_LINES:
            yield down, lines


def _draw_pairs(results: StudyResults, pairs: list[tuple[str, str]], tips: Tips) -> Figure:
    """One column of panels in a narrow figure, else two; all with the same scale."""
    assert results.factorial is not None
    metric, levels = Metric(results.study.metric), results.factorial.levels
    across = 1 if narrow() or len(pairs) == 1 else 2
    down = -(-len(pairs) // across)
    most = max(len(levels[factor]) for factor, _ in pairs)
    figure = Figure(figsize=(width(), (1.25 + 0.5 * most) * down))
    panels = figure.subplots(down, across, sharex=True, squeeze=False).ravel()
    for number, (axes, pair) in enumerate(zip(panels, pairs, strict=False)):
        _draw_pair(axes, results, pair, number, tips)
        axes.set_xlabel(f"mean {metric.label}{metric.unit}")
        axes.tick_params(axis="x", labelbottom=True)
    for axes in panels[len(pairs) :]:
        axes.set_visible(False)
    return figure


def _draw_pair(axes: Axes, results: StudyResults, pair: tuple[str, str], number: int, tips: Tips) -> None:
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
            marks = interval(axes, mean, place, metric, INK, MARKERS[at], size=5.5)
            for mark in marks[:1]:
                mark.set(**filling)
            names = _level_names(results, pair, (fitted.levels[down][row], level))
            tip = captions.mean_text(" × ".join(names), mean, metric)
            name_artists(marks, f"pair-{number}-{at}-{row}", tips, [tip])
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
    return plot("interaction", lambda tips: _draw_heat_map(results), *captions.interaction(results))


def _draw_heat_map(results: StudyResults) -> Figure:
    import seaborn

    study = results.study
    assert results.factors.grid is not None
    table = results.factors.grid * study.metric.scale
    down, across = list(study.factors)[:2]
    figure = Figure(figsize=(width(), min(1.4 + 0.42 * len(table), 14)))
    axes = figure.subplots()
    seaborn.heatmap(
        table,
        ax=axes,
        cmap="cividis",
        annot=table.size <= MOST_ANNOTATED,
        annot_kws={"fontsize": 8} if narrow() else None,
        fmt=f".{1 if study.metric.is_share else 3}f",
        linewidths=1,
        linecolor=PAPER,
        cbar_kws={"label": f"{study.metric.label}{study.metric.unit}"},
    )
    axes.set_xlabel(formatting.factor_name(across, study.names))
    axes.set_ylabel(formatting.factor_name(down, study.names))
    tilted = len(table.columns) >= TILTED or narrow()
    tilt: dict[str, Any] = {"rotation": 45, "ha": "right"} if tilted else {"rotation": 0, "ha": "center"}
    axes.set_xticks(axes.get_xticks(), shorts(list(map(str, table.columns))), **tilt)
    axes.set_yticks(axes.get_yticks(), shorts(list(map(str, table.index))), rotation=0)
    return figure
