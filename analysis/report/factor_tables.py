"""Tables of a study of several factors: main effects, interactions, contrasts, analysis of variance. Results in,
tables out.
"""

from __future__ import annotations

import math

from analysis import formatting
from analysis.report.cells import points
from analysis.report.render import Cell, Column, Table
from analysis.results import Results
from analysis.stats import Estimate, Factorial

TERM, LEVEL = Column("factor", ("factor",), numeric=False), Column("level", ("level",), numeric=False)


def factor_tables(results: Results) -> list[Table]:
    """All of them; none for a study of one factor, or one that the linear model does not fit."""
    fitted = results.factorial
    if fitted is None:
        return []
    return [variance(fitted), effects(fitted, 1), contrasts(fitted), *_interactions(fitted)]


def variance(fitted: Factorial) -> Table:
    """Which factors and interactions move the metric at all."""
    rows = []
    for row in fitted.anova:
        rows.append(
            (
                Cell(term_name(row.term), ("+".join(row.term),)),
                Cell(str(row.df), (row.df,), row.df),
                Cell(_significant(row.sum_sq), (row.sum_sq,), row.sum_sq),
                Cell(_significant(row.f), (row.f,), row.f),
                Cell(formatting.p_value(row.p_holm), (row.p, row.p_holm), row.p_holm),
                Cell(formatting.number(row.eta_sq, 3), (row.eta_sq,), row.eta_sq),
            )
        )
    columns = (
        Column("source of variance", ("term",), numeric=False),
        Column("df", ("df",)),
        Column("sum of squares", ("sum_sq",)),
        Column("F", ("f",)),
        Column("p", ("p", "p_holm")),
        Column("partial η²", ("eta_sq",)),
    )
    note = (
        f"Type II analysis of variance of {fitted.n} runs, {fitted.metric.label} as a fraction; a seed is a "
        "block where the cells share seeds. "
        "p is Holm-adjusted over the factors and interactions."
    )
    return Table(
        "variance",
        "What moves the metric: factors and their interactions.",
        columns,
        tuple(rows),
        (note, *fitted.notes),
    )


def effects(fitted: Factorial, order: int) -> Table:
    """Main effects (order 1) or interactions of two factors (order 2): marginal mean and what the level adds."""
    scale, metric = fitted.metric.scale, fitted.metric
    rows = [
        (
            Cell(term_name(effect.term), ("+".join(effect.term),)),
            Cell(" × ".join(map(str, effect.levels)), (" x ".join(map(str, effect.levels)),)),
            _estimate(effect.mean, scale),
            _estimate(effect.effect, scale, signed=True),
            Cell(formatting.p_value(effect.p_holm), (effect.p, effect.p_holm), effect.p_holm),
        )
        for effect in fitted.effects
        if len(effect.term) == order
    ]
    columns = (
        TERM,
        LEVEL,
        Column(f"{metric.label}{metric.unit}", ("mean", "mean_low", "mean_high")),
        Column(f"effect{points(metric)}", ("effect", "effect_low", "effect_high")),
        Column("p", ("p", "p_holm")),
    )
    if order == 1:
        note = (
            "Mean over all combinations of the other factors, each weighing the same; effect: that mean less the "
            "grand mean."
        )
        return Table(
            "effects", "Main effects: each level, averaged over the other factors.", columns, tuple(rows), (note,)
        )
    note = (
        "Effect: what the cell has beyond the sum of its row's and its column's effects; none means that the factors "
        "add up."
    )
    return Table(
        "interactions", "Interactions: each combination of two factors' levels.", columns, tuple(rows), (note,)
    )


def contrasts(fitted: Factorial) -> Table:
    """Every pair of levels of each factor, averaged over the others."""
    scale = fitted.metric.scale
    rows = tuple(
        (
            Cell(term_name((contrast.factor,)), (contrast.factor,)),
            Cell(str(contrast.high), (contrast.high,)),
            Cell(str(contrast.low), (contrast.low,)),
            _estimate(contrast.diff, scale, signed=True),
            Cell(formatting.p_value(contrast.p_holm), (contrast.p, contrast.p_holm), contrast.p_holm),
        )
        for contrast in fitted.contrasts
    )
    columns = (
        TERM,
        LEVEL,
        Column("less", ("less",), numeric=False),
        Column(f"difference{points(fitted.metric)}", ("diff", "diff_low", "diff_high")),
        Column("p", ("p", "p_holm")),
    )
    note = "p is Holm-adjusted over the pairs of levels of the factor. The model takes all cells to spread alike."
    return Table("contrasts", "Level against level, averaged over the other factors.", columns, rows, (note,))


def term_name(term: tuple[str, ...]) -> str:
    """`pos_embed × pos_site`."""
    return " × ".join(factor_name(factor) for factor in term)


def factor_name(factor: str) -> str:
    """A factor without its section: `pos_embed`; linked settings are joined by "+"."""
    return " + ".join(path.rpartition(".")[2] for path in factor.split("+"))


def _interactions(fitted: Factorial) -> list[Table]:
    return [effects(fitted, 2)] if any(len(effect.term) == 2 for effect in fitted.effects) else []


def _estimate(estimate: Estimate, scale: float, signed: bool = False) -> Cell:
    return Cell(
        formatting.with_interval(estimate, scale, signed), (estimate.value, estimate.low, estimate.high), estimate.value
    )


def _significant(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else formatting.DASH
