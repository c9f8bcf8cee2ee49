"""The section on the factors of a study: their effects, whether these depend on each other, and the tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from analysis.figures.factor_figures import draw_grid, draw_levels, draw_pairs, drawn_pairs
from analysis.figures.style import Plot
from analysis.report import formats
from analysis.report.document import Section, present
from analysis.report.table import Column, Table, estimate_fields
from analysis.report.text import facts, text
from analysis.report.variant_columns import count_column, p_column
from analysis.results.factors import Factors
from analysis.results.means import Means
from analysis.results.policy import Policy
from analysis.results.variants import Variants
from analysis.stats import Effect, Factorial

MOST_LEVELS = 4  # levels of the other factor for which the headline lists the effect of a factor of two levels
FOLDED = ("effects", "interactions", "terms")


def factors_section(factors: Factors, variants: Variants, means: Means, policy: Policy) -> Section:
    """Return the section "Factors and interactions"; empty for a study of one factor."""
    section, model = Section("factors", text("factors", "heading")), factors.model
    if model is not None:
        contrasts, levels_table, *others = factor_tables(model, variants, policy)
        levels = Plot("main-effects", draw_levels(model, variants), *_texts("means", variants))
        pairs = None
        if drawn_pairs(model):
            pairs = Plot("interactions", draw_pairs(model, variants), *_texts("pairs", variants))
        section.items.extend(present(levels, contrasts, levels_table, pairs, *others))
    elif factors.skipped_reason:
        section.paragraphs.append(text("factors", "skipped", reason=factors.skipped_reason))
    if variants.levels is not None and means.best is not None and not (model and drawn_pairs(model)):
        section.items.append(Plot("grid", draw_grid(variants, means), *_texts("grid", variants)))
    return section


def factor_paragraphs(factors: Factors, variants: Variants, policy: Policy) -> list[str]:
    """Return what the headline says: main effects, and interactions; empty without a model."""
    model, alpha = factors.model, policy.alpha
    if model is None:
        return []
    effects = [_largest(model.effects[factor,], alpha) for factor in model.factors]
    slots = {"model": model, "names": variants.factors, "metric": variants.metric}
    main = text(
        "factors",
        "headline",
        **slots,
        alpha=alpha,
        planned=bool(policy.plan),
        effects=[effect for effect in effects if effect.p_holm <= alpha],
        others=[effect for effect in effects if not effect.p_holm <= alpha],
        sensitive=[_name(term, variants) for term in factors.divergence_sensitive_terms],
        chance_known=not policy.unknown_chance,
    )
    shown = [term for term in model.simple if model.terms[term].p_holm <= alpha]
    others = [term for term in model.simple if term not in shown]
    return [main, text("factors", "interactions", **slots, terms=shown, others=others, most=MOST_LEVELS)]


def factor_methods(factors: Factors) -> tuple[tuple[str, str], ...]:
    """Return how the effects of factors are computed; empty for a study without them."""
    return () if factors.model is None else facts("factors", "methods")


def factor_tables(model: Factorial, variants: Variants, policy: Policy) -> list[Table]:
    """Return all tables of the section."""
    metric, names = variants.metric, {"+".join(term): _name(term, variants) for term in model.terms}
    points = ", points" if metric.is_share else ""
    difference = Column(f"difference{points}", formats.interval("diff", metric, signed=True), sort="diff")
    effect = Column(f"effect{points}", formats.interval("effect", metric, signed=True), sort="effect")
    mean = Column(f"mean {metric.label}{metric.unit}", formats.interval("mean", metric), sort="mean")
    p, interaction_p = p_column("p (adjusted)", "p_holm"), p_column("p of interaction (adjusted)", "interaction_p_holm")
    contrasts = count_column("contrasts", text("factors", "contrasts_column"))

    def name(label: str, field: str = "factor") -> Column:
        return Column(label, formats.each(field, names.__getitem__), numeric=False, key=True)

    def words(label: str, show: str) -> Column:
        return Column(label, formats.rows(lambda row: show.format(**row)), numeric=False, key=True)

    change, at = words("from → to", "{reference} → {level}"), words("with", "{_other} = {other_level}")
    tables = {
        "contrasts": (_contrasts(model), (name("factor"), change, difference, p)),
        "effects": (_means(model), (name("factor"), words("level", "{level}"), mean)),
        "simple-effects": (_simple(model, names), (name("effect of"), change, at, difference, interaction_p)),
        "interactions": (_interactions(model), (name("factors"), words("levels", "{_levels}"), mean, effect, p)),
        "terms": (_terms(model), (name("factor or interaction", "term"), contrasts, p)),
    }
    slots = {"metric": metric, "model": model, "planned": bool(policy.plan)}
    return [
        Table(
            table,
            text("factors", "caption", table=table),
            pd.DataFrame(rows),
            columns,
            (text("factors", "notes", table=table, **slots),),
            folded=table in FOLDED,
        )
        for table, (rows, columns) in tables.items()
    ]


def _contrasts(model: Factorial) -> Iterator[dict[str, Any]]:
    """The difference of each pair of levels of each factor, averaged over the other factors."""
    for factor in model.factors:
        for effect in model.effects[factor,]:
            yield {"factor": factor, **_levels(effect), **estimate_fields("diff", effect.diff), **_p(effect)}


def _means(model: Factorial) -> Iterator[dict[str, Any]]:
    """The mean of each level over the other factors."""
    for factor in model.factors:
        for (level,), mean in model.means[factor,].items():
            yield {"factor": factor, "level": level, **estimate_fields("mean", mean)}


def _simple(model: Factorial, names: dict[str, str]) -> Iterator[dict[str, Any]]:
    """The effect of a factor at each level of another one."""
    for (factor, other), effects in model.simple.items():
        test = {f"interaction_{field}": p for field, p in _p(model.terms[factor, other]).items()}
        for effect in effects:
            at = {"other_factor": other, "_other": names[other], "other_level": effect.levels[1]}
            yield {"factor": factor, **_levels(effect), **at, **estimate_fields("diff", effect.diff), **test}


def _interactions(model: Factorial) -> Iterator[dict[str, Any]]:
    """What each combination of two levels adds to the two main effects."""
    for term in model.simple:
        for effect in model.effects[term]:
            levels = {"level": " x ".join(map(str, effect.levels)), "_levels": " × ".join(map(str, effect.levels))}
            estimates = {
                **estimate_fields("mean", model.means[term][effect.levels]),
                **estimate_fields("effect", effect.diff),
            }
            yield {"factor": "+".join(term), **levels, **estimates, **_p(effect)}


def _terms(model: Factorial) -> Iterator[dict[str, Any]]:
    """The test of each factor and interaction."""
    for term, test in model.terms.items():
        yield {"term": "+".join(term), "contrasts": test.effects, **_p(test)}


def _texts(figure: str, variants: Variants) -> tuple[str, str]:
    """Caption and alternative text."""
    caption = text("factors", f"{figure}_figure", metric=variants.metric)
    return caption, text("figures", "alt", caption=caption)


def _levels(effect: Effect) -> dict[str, Any]:
    return {"level": effect.levels[0], "reference": effect.reference[0]}


def _p(test: Any) -> dict[str, float]:
    return {"p": test.p, "p_holm": test.p_holm}


def _name(term: tuple[str, ...], variants: Variants) -> str:
    return " × ".join(variants.factors[factor] for factor in term)


def _largest(effects: tuple[Effect, ...], alpha: float) -> Effect:
    """The largest difference of two levels; of the significant ones if there are any."""
    significant = [effect for effect in effects if effect.p_holm <= alpha]
    return max(significant or effects, key=lambda effect: abs(effect.diff.value))
