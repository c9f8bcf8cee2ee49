"""Tables of a study of several factors: tests of factors, main effects, contrasts, interactions."""

from __future__ import annotations

from collections.abc import Mapping

from analysis import formatting
from analysis.formatting import factor_name
from analysis.report.render import Cell, Column, Table
from analysis.report.tables.cells import interval_cell, p_cell, points
from analysis.results import Results
from analysis.stats import Factorial
from experiments.metric import Metric

_FACTOR = Column("factor", ("factor",), numeric=False, key=True)
_LEVEL = Column("level", ("level",), numeric=False, key=True)


def factor_tables(results: Results) -> list[Table]:
    """Return all tables of factors; none for a study of one factor, or without a complete grid."""
    fitted, names = results.factorial, results.study.names
    if fitted is None:
        return []
    tables = [terms_table(fitted, names), effects_table(fitted, names), contrasts_table(fitted, names)]
    if any(len(effect.term) == 2 for effect in fitted.effects):
        tables += [simple_table(fitted, names, results.looks.intervals), interactions_table(fitted, names)]
    return tables


def terms_table(fitted: Factorial, names: Mapping[str, str]) -> Table:
    """Return the test of each factor and interaction: which of them have an effect."""
    rows = tuple(
        (
            Cell(term_name(test.term, names), ("+".join(test.term),)),
            Cell(str(test.contrasts), (test.contrasts,), test.contrasts),
            p_cell(test.p, test.p_holm),
        )
        for test in fitted.terms
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
    notes = (note, *_grid_notes(fitted, names))
    return Table("terms", "Tests of factors and interactions.", columns, rows, notes, folded=True)


def _grid_notes(fitted: Factorial, names: Mapping[str, str]) -> list[str]:
    """Which runs, combinations and seeds the tests leave out."""
    gaps, notes = fitted.gaps, []
    if gaps.missing:
        missing = f"{gaps.missing} of {gaps.cells} combinations finished on fewer than half of the seeds"
        without = formatting.listing([f"{factor_name(factor, names)} = {level}" for factor, level in gaps.left_out])
        if gaps.additive:
            notes.append(f"{missing}, and no complete grid is left. Only main effects are fitted, as if they added up.")
        else:
            notes.append(f"{missing}. The tests use the complete grid without {without}.")
    if gaps.seeds_left_out:
        seeds = formatting.listing([str(seed) for seed in gaps.seeds_left_out])
        many = len(gaps.seeds_left_out) > 1
        notes.append(f"Seed{'s' * many} {seeds} {'lack' if many else 'lacks'} a finished run in some combination.")
    return notes


def effects_table(fitted: Factorial, names: Mapping[str, str]) -> Table:
    """Return the main effects: the mean of each level over the other factors, and its deviation from the grand mean."""
    note = (
        "Mean: average over all combinations of the other factors with equal weights. Effect: this mean − the grand mean. "
        "p: Holm-adjusted over the levels of the factor, and never smaller than the p of the factor under “Tests of factors "
        "and interactions”."
    )
    return _effects(fitted, names, 1, "effects", "Main effects: each level, averaged over the other factors.", note)


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
    return _effects(
        fitted, names, 2, "interactions", "Interactions: each combination of the levels of two factors.", note
    )


def simple_table(fitted: Factorial, names: Mapping[str, str], intervals: str) -> Table:
    """Return the effect of a factor at each level of another one: whether one depends on the other.

    `intervals`: how they are adjusted, see `StudyLooks.intervals`.
    """
    metric, tested = Metric(fitted.metric), {test.term: test for test in fitted.terms}
    rows = []
    for effect in fitted.simple:
        test = tested[effect.factor, effect.other]
        rows.append(
            (
                Cell(factor_name(effect.factor, names), (effect.factor,)),
                Cell(f"{effect.low} → {effect.high}", (effect.high, effect.low)),
                Cell(f"{factor_name(effect.other, names)} = {effect.at}", (effect.other, effect.at)),
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
            Cell(term_name((contrast.factor,), names), (contrast.factor,)),
            Cell(f"{contrast.low} → {contrast.high}", (contrast.high, contrast.low)),
            interval_cell(contrast.diff, metric, signed=True),
            p_cell(contrast.p, contrast.p_holm),
        )
        for contrast in fitted.contrasts
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


def _effects(fitted: Factorial, names: Mapping[str, str], order: int, name: str, caption: str, note: str) -> Table:
    """The table of main effects (order 1) or of interactions of two factors (order 2)."""
    metric = Metric(fitted.metric)
    rows = [
        (
            Cell(term_name(effect.term, names), ("+".join(effect.term),)),
            Cell(" × ".join(map(str, effect.levels)), (" x ".join(map(str, effect.levels)),)),
            interval_cell(effect.mean, metric),
            interval_cell(effect.effect, metric, signed=True),
            p_cell(effect.p, effect.p_holm),
        )
        for effect in fitted.effects
        if len(effect.term) == order
    ]
    columns = (
        _FACTOR if order == 1 else Column("factors", ("factor",), numeric=False, key=True),
        _LEVEL if order == 1 else Column("levels", ("level",), numeric=False, key=True),
        Column(f"mean {metric.label}{metric.unit}", ("mean", "mean_low", "mean_high")),
        Column(f"effect{points(metric)}", ("effect", "effect_low", "effect_high")),
        Column("p (adjusted)", ("p", "p_holm")),
    )
    return Table(name, caption, columns, tuple(rows), (note,), folded=True)
