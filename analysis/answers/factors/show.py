"""The section on the factors of a study: their effects, whether these depend on each other, and the tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis import formatting
from analysis.answers.answer import Answer, Page
from analysis.answers.columns import VERDICT, signed_column
from analysis.answers.factors.compute import Factors
from analysis.figures.factor_figures import draw_grid, draw_levels, draw_pairs, drawn_pairs
from analysis.figures.style import Plot
from analysis.results.means import Means
from analysis.results.policy import Policy
from analysis.results.variants import Variants
from analysis.stats import Factorial
from analysis.write.document import Section
from analysis.write.table import Column, Table
from analysis.write.text import facts, paragraphs, text

if TYPE_CHECKING:
    from analysis.answers.study_results import StudyResults

MOST_LEVELS = 4  # levels of the other factor for which the headline lists the effect of a factor of two levels
FOLDED = ("effects", "interactions", "terms")


def factors_section(factors: Factors, variants: Variants, means: Means, policy: Policy) -> Section:
    """Return the section "Factors and interactions"; empty for a study of one factor."""
    section, model, metric = Section("factors", text("factors", "heading")), factors.model, variants.metric
    has_pairs = model is not None and bool(drawn_pairs(model))
    if model is not None:
        contrasts, levels_table, *others = factor_tables(model, variants, policy)
        levels = Plot("main-effects", draw_levels(model, variants), text("factors", "means_figure", metric=metric))
        section.items.extend([levels, contrasts, levels_table])
        if has_pairs:
            caption = text("factors", "pairs_figure", metric=metric)
            section.items.append(Plot("interactions", draw_pairs(model, variants), caption))
        section.items.extend(others)
    section.paragraphs.extend(paragraphs("factors", "skipped", reason=factors.skipped_reason))
    measured = [variant for variant in variants.names if means.of(variant).n]
    varied = variants.levels is not None and variants.levels.loc[measured].iloc[:, :2].nunique().min() > 1
    if varied and not has_pairs:
        section.items.append(Plot("grid", draw_grid(variants, means), text("factors", "grid_figure", metric=metric)))
    return section


def factor_paragraphs(factors: Factors, variants: Variants, policy: Policy) -> list[str]:
    """Return what the headline says: main effects, and interactions; empty without a model."""
    model, names = factors.model, _names(variants)
    if model is None:
        return []
    verdict = dict(zip(model.terms["term"], model.terms["verdict"]))
    tests = [
        {"factor": a, "other": b, "verdict": verdict[f"{a}+{b}"], "effects": _simple(model, a, b)}
        for a, b in combinations(model.factors, 2)
    ]
    effects = [_largest(model, factor) for factor in model.factors]
    sensitive = [names[term] for term in factors.divergence_sensitive_terms]
    slots = {"names": names, "metric": variants.metric}
    return [
        text("factors", "headline", model=model, effects=effects, sensitive=sensitive, policy=policy, **slots),
        text("factors", "interactions", tests=tests, **slots),
    ]


def factor_tables(model: Factorial, variants: Variants, policy: Policy) -> list[Table]:
    """Return all tables of the section."""
    metric, names = variants.metric, _names(variants)
    means = pd.DataFrame(
        {"factor": factor, "level": level, "mean": estimate}
        for factor in model.factors
        for (level,), estimate in model.means[factor,].items()
    )

    name, levels = (partial(Column, field=field, key=True) for field in ("_name", "_levels"))
    difference, effect = (signed_column(metric, label, "_shown") for label in ("difference", "effect"))
    at, p = Column("with", "_at", key=True), Column("p (adjusted)", "p_adjusted", formatting.p_values, detail=True)
    interaction = Column("interaction", "verdict"), replace(p, field="interaction_p_adjusted")
    mean = Column(f"mean {metric.label}{metric.unit}", "mean", formatting.intervals(metric))
    contrasts = Column("contrasts", "contrasts", formatting.counts, note=text("factors", "contrasts_column"))
    alone = signed_column(metric, "difference", "diff")
    tables = {
        "contrasts": (model.contrasts, (name("factor"), levels("from → to"), difference, VERDICT, p)),
        "effects": (means, (name("factor"), levels("level"), mean)),
        "simple-effects": (model.simple, (name("effect of"), levels("from → to"), at, alone, *interaction)),
        "interactions": (model.interactions, (name("factors"), levels("levels"), mean, effect, VERDICT, p)),
        "terms": (model.terms, (name("factor or interaction"), contrasts, VERDICT, p)),
    }
    slots = {"model": model, "planned": bool(policy.looks)}
    return [
        Table(
            table,
            text("factors", "caption", table=table),
            _named(frame, names),
            columns,
            tuple(paragraphs("factors", "notes", table=table, **slots)),
            folded=table in FOLDED,
        )
        for table, (frame, columns) in tables.items()
    ]


def _named(frame: pd.DataFrame, names: Mapping[str, str]) -> pd.DataFrame:
    """A frame of the model with the names of its rows: factor or term, its levels, the level of another factor."""
    words = [
        {
            "_name": names[row["term" if "term" in row else "factor"]],
            "_levels": (f"{row['reference']} → " if "reference" in row else "")
            + str(row.get("level", "")).replace(" x ", " × "),
            "_at": f"{names[row['other_factor']]} = {row['other_level']}" if "other_factor" in row else "",
        }
        for row in frame.to_dict("records")
    ]
    named = frame.join(pd.DataFrame(words, index=frame.index, columns=["_name", "_levels", "_at"]))
    if "adjusted" in named:
        ends = {f"adjusted_{end}": [getattr(one, end) for one in named["adjusted"]] for end in ("low", "high")}
        named = named.rename(columns={"adjusted": "_shown"}).assign(**ends)
    return named.assign(_verdict_mark=named["verdict"].str.replace(" ", "-")) if "verdict" in named else named


def _names(variants: Variants) -> dict[str, str]:
    """Each factor and each pair of factors -> what the study calls it."""
    factors = variants.factors
    return factors | {f"{a}+{b}": f"{factors[a]} × {factors[b]}" for a, b in combinations(factors, 2)}


def _largest(model: Factorial, factor: str) -> dict[str, Any]:
    """The largest difference of two levels; of those that are shown if there are any. `count`: of how many."""
    contrasts = model.contrasts[model.contrasts["factor"] == factor].to_dict("records")
    shown = [contrast for contrast in contrasts if contrast["verdict"] == "shown"]
    largest = max(shown or contrasts, key=lambda contrast: abs(contrast["diff"].value))
    return largest | {"count": len(contrasts)}


def _simple(model: Factorial, factor: str, other: str) -> list[dict[str, Any]]:
    """The effect of a factor of two levels at each level of another one; empty where these are many."""
    if len(model.levels[factor]) > 2 or len(model.levels[other]) > MOST_LEVELS:
        return []
    return model.simple[(model.simple["factor"] == factor) & (model.simple["other_factor"] == other)].to_dict("records")


def answer(results: StudyResults, page: Page) -> Answer:
    """The effects of the factors; nothing where they are not tested."""
    if results.factors.model is None:
        return Answer()
    return _answer(results, factor_paragraphs(results.factors, results.variants, results.policy))


def untested(results: StudyResults, page: Page) -> Answer:
    """The grid of the factors, and why their effects are not tested; nothing where they are."""
    if results.factors.model is not None:
        return Answer()
    return _answer(results, paragraphs("factors", "skipped", reason=results.factors.skipped_reason))


def _answer(results: StudyResults, said: list[str]) -> Answer:
    parts = results.factors, results.variants, results.means, results.policy
    return Answer(lambda: [factors_section(*parts)], said, facts("factors", "methods", factors=results.factors))
