"""The section on the factors of a study: their effects, whether these depend on each other, and the tests."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import pandas as pd

from analysis.figures.factor_figures import draw_grid, draw_levels, draw_pairs, drawn_pairs
from analysis.figures.style import Plot
from analysis.report import formats
from analysis.report.document import Section, present
from analysis.report.table import Column, Table
from analysis.report.text import facts, text
from analysis.report.variant_columns import signed_column
from analysis.results.factors import Factors
from analysis.results.means import Means
from analysis.results.policy import Policy
from analysis.results.variants import Variants
from analysis.stats import ALPHA, Factorial

MOST_LEVELS = 4  # levels of the other factor for which the headline lists the effect of a factor of two levels
FOLDED = ("effects", "interactions", "terms")


def factors_section(factors: Factors, variants: Variants, means: Means, policy: Policy) -> Section:
    """Return the section "Factors and interactions"; empty for a study of one factor."""
    section, model, metric = Section("factors", text("factors", "heading")), factors.model, variants.metric
    if model is not None:
        contrasts, levels_table, *others = factor_tables(model, variants, policy)
        levels = Plot("main-effects", draw_levels(model, variants), text("factors", "means_figure", metric=metric))
        pairs = None
        if drawn_pairs(model):
            pairs = Plot("interactions", draw_pairs(model, variants), text("factors", "pairs_figure", metric=metric))
        section.items.extend(present(levels, contrasts, levels_table, pairs, *others))
    section.paragraphs.extend(factors_skipped(factors))
    if variants.levels is not None and means.best is not None and not (model and drawn_pairs(model)):
        section.items.append(Plot("grid", draw_grid(variants, means), text("factors", "grid_figure", metric=metric)))
    return section


def factors_skipped(factors: Factors) -> list[str]:
    """Return why the effects of several factors are not tested; empty where they are."""
    return [text("factors", "skipped", reason=factors.skipped_reason)] if factors.skipped_reason else []


def factor_paragraphs(factors: Factors, variants: Variants, policy: Policy) -> list[str]:
    """Return what the headline says: main effects, and interactions; empty without a model."""
    model = factors.model
    if model is None:
        return []
    effects, names = [_largest(model, factor) for factor in model.factors], _names(variants)
    slots = {"names": names, "metric": variants.metric}
    main = text(
        "factors",
        "headline",
        **slots,
        model=model,
        planned=bool(policy.looks),
        effects=[effect for effect in effects if effect["p_holm"] <= ALPHA],
        others=[effect for effect in effects if not effect["p_holm"] <= ALPHA],
        sensitive=[names[term] for term in factors.divergence_sensitive_terms],
        chance_known=not policy.unknown_chance,
    )
    p = dict(zip(model.terms["term"], model.terms["p_holm"]))
    tests = [(*pair, p["+".join(pair)], _simple(model, *pair)) for pair in combinations(model.factors, 2)]
    shown = [test for test in tests if test[2] <= ALPHA]
    others = [test for test in tests if not test[2] <= ALPHA]
    return [main, text("factors", "interactions", **slots, tests=shown, others=others)]


def factor_methods(factors: Factors) -> tuple[tuple[str, str], ...]:
    """Return how the effects of factors are computed; empty for a study without them."""
    return () if factors.model is None else facts("factors", "methods")


def factor_tables(model: Factorial, variants: Variants, policy: Policy) -> list[Table]:
    """Return all tables of the section."""
    metric, names = variants.metric, _names(variants)
    factor, change = Column("factor", "_name", key=True), Column("from → to", "_change", key=True)
    difference, p = signed_column(metric, "difference", "diff"), Column("p (adjusted)", "p_holm", formats.p)
    mean = Column(f"mean {metric.label}{metric.unit}", "mean", formats.interval(metric))
    levels = pd.DataFrame(
        {"factor": factor, "level": level, "mean": estimate, "_name": names[factor], "_level": str(level)}
        for factor in model.factors
        for (level,), estimate in model.means[factor,].items()
    )

    def named(frame: pd.DataFrame, factor: str = "factor") -> pd.DataFrame:
        return frame.assign(_name=frame[factor].map(names))

    def changes(frame: pd.DataFrame) -> pd.DataFrame:
        return named(frame).assign(_change=frame["reference"].map(str) + " → " + frame["level"].map(str))

    simple = changes(model.simple).assign(
        _at=model.simple["other_factor"].map(names) + " = " + model.simple["other_level"].map(str)
    )
    cells = model.interactions["level"].str.replace(" x ", " × ")
    tables: dict[str, tuple[pd.DataFrame, tuple[Column, ...]]] = {
        "contrasts": (changes(model.contrasts), (factor, change, difference, p)),
        "effects": (levels, (factor, Column("level", "_level", key=True), mean)),
        "simple-effects": (
            simple,
            (
                replace(factor, label="effect of"),
                change,
                Column("with", "_at", key=True),
                difference,
                Column("p of interaction (adjusted)", "interaction_p_holm", formats.p),
            ),
        ),
        "interactions": (
            named(model.interactions).assign(_levels=cells),
            (
                replace(factor, label="factors"),
                Column("levels", "_levels", key=True),
                mean,
                signed_column(metric, "effect", "effect"),
                p,
            ),
        ),
        "terms": (
            named(model.terms, "term"),
            (
                replace(factor, label="factor or interaction"),
                Column("contrasts", "contrasts", formats.count, note=text("factors", "contrasts_column")),
                p,
            ),
        ),
    }
    slots = {"model": model, "planned": bool(policy.looks)}
    return [
        Table(
            table,
            text("factors", "caption", table=table),
            frame,
            columns,
            (text("factors", "notes", table=table, **slots),),
            folded=table in FOLDED,
        )
        for table, (frame, columns) in tables.items()
    ]


def _names(variants: Variants) -> dict[str, str]:
    """Each factor and each pair of factors -> what the study calls it."""
    factors = variants.factors
    return factors | {f"{a}+{b}": f"{factors[a]} × {factors[b]}" for a, b in combinations(factors, 2)}


def _largest(model: Factorial, factor: str) -> dict[str, Any]:
    """The largest difference of two levels; of the significant ones if there are any. `count`: of how many."""
    contrasts = model.contrasts[model.contrasts["factor"] == factor].to_dict("records")
    significant = [contrast for contrast in contrasts if contrast["p_holm"] <= ALPHA]
    largest = max(significant or contrasts, key=lambda contrast: abs(contrast["diff"].value))
    return largest | {"count": len(contrasts)}


def _simple(model: Factorial, factor: str, other: str) -> list[dict[str, Any]]:
    """The effect of a factor of two levels at each level of another one; empty where these are many."""
    if len(model.levels[factor]) > 2 or len(model.levels[other]) > MOST_LEVELS:
        return []
    return model.simple[(model.simple["factor"] == factor) & (model.simple["other_factor"] == other)].to_dict("records")
