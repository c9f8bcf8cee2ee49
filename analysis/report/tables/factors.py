"""Tables of a study of several factors: tests of factors, main effects, contrasts, interactions."""

from __future__ import annotations

from collections.abc import Mapping

from analysis import formatting
from analysis.formatting import factor_name
from analysis.report.render import Cell, Column, Table
from analysis.report.tables.cells import interval_cell, p_cell, points
from analysis.results.study_results import StudyResults
from analysis.stats import Factorial
from experiments.metric import Metric

_FACTOR = Column("factor", ("factor",), numeric=False, key=True)
_LEVEL = Column("level", ("level",), numeric=False, key=True)


def factor_tables(results: StudyResults) -> list[Table]:
    """Return all tables of factors; none for a study of one factor, or without a complete grid."""
    fitted, names = results.factorial, results.study.names
    if fitted is None:
        return []
    tables = [terms_table(fitted, names), means_table(fitted, names), contrasts_table(fitted, names)]
    return [*tables, simple_table(fitted, names, results.policy.intervals), interactions_table(fitted, names)]


def terms_table(fitted: Factorial, names: Mapping[str, str]) -> Table:
    """Return the test of each factor and interaction: which of them have an effect."""
    rows = tuple(
        (
            Cell(term_name(term, names), ("+".join(term),)),
            Cell(str(test.effects), (test.effects,), test.effects),
            p_cell(test.p, test.p_holm),
        )
        for term, test in fitted.terms.items()
    )
    columns = (
        Column("factor or interaction", ("term",), numeric=False),
        Column("contrasts", ("contrasts",), help="pairs of levels, or distinct effects of combinations"),
        Column("p (adjusted)", ("p", "p_holm")),
    )
    note = (
        "Contrasts: the number of differences tested. Each is computed for each seed and tested over the "
        f"{formatting.plural(len(fitted.seeds), 'seed')} with a t test. p: the smallest p of the contrasts, "
        "Holm-adjusted over them, then over all factors and interactions, and multiplied by 2 (factors and pairs of variants "
        "share the 5 %)."
    )
    notes = (note, *_lost_seeds(fitted))
    return Table("terms", "Tests of factors and interactions.", columns, rows, notes, folded=True)


def _lost_seeds(fitted: Factorial) -> list[str]:
    if not fitted.seeds_left_out:
        return []
    return [
        f"Left out for lack of a finished run in some combination: seed {formatting.listing([*map(str, fitted.seeds_left_out)])}."
    ]


def means_table(fitted: Factorial, names: Mapping[str, str]) -> Table:
    """Return the mean of each level over the other factors."""
    metric = Metric(fitted.metric)
    rows = tuple(
        (Cell(factor_name(factor, names), (factor,)), Cell(str(level), (level,)), interval_cell(mean, metric))
        for factor in fitted.factors
        for (level,), mean in fitted.means[factor,].items()
    )
    columns = (_FACTOR, _LEVEL, Column(f"mean {metric.label}{metric.unit}", ("mean", "mean_low", "mean_high")))
    note = "Mean: average over all combinations of the other factors with equal weights."
    caption = "Means of each level, averaged over the other factors."
    return Table("effects", caption, columns, rows, (note,), folded=True)


def interactions_table(fitted: Factorial, names: Mapping[str, str]) -> Table:
    """Return the interactions: what each combination of two levels adds to the two main effects."""
    note = (
        "Effect: the mean of the combination − the mean that the two main effects predict. It is zero for all "
        "combinations if there is no interaction. p: Holm-adjusted over the combinations of the two factors, and never "
        "smaller than the p of the interaction under “Tests of factors and interactions”."
    )
    if all(len(levels) == 2 for levels in fitted.levels.values()):
        note += (
            " With two levels each, all four effects have the same size: a quarter of the difference between the effect of "
            "one factor at the two levels of the other."
        )
    metric = Metric(fitted.metric)
    rows = tuple(
        (
            Cell(term_name(term, names), ("+".join(term),)),
            Cell(" × ".join(map(str, effect.levels)), (" x ".join(map(str, effect.levels)),)),
            interval_cell(fitted.means[term][effect.levels], metric),
            interval_cell(effect.diff, metric, signed=True),
            p_cell(effect.p, effect.p_holm),
        )
        for term, effects in fitted.effects.items()
        if len(term) == 2
        for effect in effects
    )
    columns = (
        Column("factors", ("factor",), numeric=False, key=True),
        Column("levels", ("level",), numeric=False, key=True),
        Column(f"mean {metric.label}{metric.unit}", ("mean", "mean_low", "mean_high")),
        Column(f"effect{points(metric)}", ("effect", "effect_low", "effect_high")),
        Column("p (adjusted)", ("p", "p_holm")),
    )
    caption = "Interactions: each combination of the levels of two factors."
    return Table("interactions", caption, columns, rows, (note,), folded=True)


def simple_table(fitted: Factorial, names: Mapping[str, str], intervals: str) -> Table:
    """Return the effect of a factor at each level of another one: whether one depends on the other.

    `intervals`: how they are adjusted, see `StudyLooks.intervals`.
    """
    metric = Metric(fitted.metric)
    rows = []
    for effect in (effect for effects in fitted.simple.values() for effect in effects):
        test, (factor, other), (high, at) = fitted.terms[effect.term], effect.term, effect.levels
        rows.append(
            (
                Cell(factor_name(factor, names), (factor,)),
                Cell(f"{effect.reference[0]} → {high}", (high, effect.reference[0])),
                Cell(f"{factor_name(other, names)} = {at}", (other, at)),
                interval_cell(effect.diff, metric, signed=True),
                p_cell(test.p, test.p_holm),
            )
        )
    columns = (
        Column("effect of", ("factor",), numeric=False, key=True),
        Column("from → to", ("level", "reference"), numeric=False, key=True),
        Column("with", ("other_factor", "other_level"), numeric=False, key=True),
        Column(f"difference{points(metric)}", ("diff", "diff_low", "diff_high")),
        Column("p of interaction (adjusted)", ("interaction_p", "interaction_p_holm")),
    )
    caption = "Does the effect of one factor depend on another? The effect of a factor at each level of the other."
    note = (
        "A small p of the interaction (below 0.05) means that the effect depends on the other factor. Otherwise a "
        "dependence is not shown, even if the differences look unequal. Intervals are at 95 %; they "
        f"{intervals}."
    )
    return Table("simple-effects", caption, columns, tuple(rows), (note,))


def contrasts_table(fitted: Factorial, names: Mapping[str, str]) -> Table:
    """Return the difference of each pair of levels of each factor, averaged over the other factors."""
    metric = Metric(fitted.metric)
    rows = tuple(
        (
            Cell(term_name((factor,), names), (factor,)),
            Cell(f"{contrast.reference[0]} → {contrast.levels[0]}", (contrast.levels[0], contrast.reference[0])),
            interval_cell(contrast.diff, metric, signed=True),
            p_cell(contrast.p, contrast.p_holm),
        )
        for factor in fitted.factors
        for contrast in fitted.effects[factor,]
    )
    columns = (
        _FACTOR,
        Column("from → to", ("level", "reference"), numeric=False, key=True),
        Column(f"difference{points(metric)}", ("diff", "diff_low", "diff_high")),
        Column("p (adjusted)", ("p", "p_holm")),
    )
    note = (
        "p: Holm-adjusted over the pairs of levels of the factor, and never smaller than the p of the factor under “Tests of "
        "factors and interactions”."
    )
    caption = "Effect of each factor: the difference from one level to another, averaged over the other factors."
    return Table("contrasts", caption, columns, rows, (note,))


def term_name(term: tuple[str, ...], names: Mapping[str, str]) -> str:
    """Return a term as text: `pos_embed × pos_site`."""
    return " × ".join(factor_name(factor, names) for factor in term)
