"""Which factors matter, and whether their effects depend on each other."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from analysis import stats
from analysis.results.means import Means
from analysis.results.policy import Policy
from analysis.sources.runs_table import RunsTable, factor_levels
from analysis.sources.source_run import ENDED
from experiments.errors import UserError


@dataclass(frozen=True)
class Factors:
    """The factors of a study. All but `skipped_reason` is empty for a study of one factor."""

    model: stats.Factorial | None = None
    """the effects. They share alpha with the pairs, so the adjusted p of both is multiplied by 2"""
    skipped_reason: str = ""
    """why a study of several factors has no `model`"""
    divergence_sensitive_terms: tuple[str, ...] = ()
    """the terms that are significant only with, or only without, diverged runs at chance level"""


def study_factors(study: RunsTable, means: Means, policy: Policy) -> Factors:
    """The effects of a study's factors."""
    if len(study.factors) < 2:
        return Factors()
    finished, policy = study.of("finished"), policy.sharing_alpha(2)
    model, reason = _model(finished, study, policy)
    return Factors(model, reason, _sensitive(model, study, means, policy))


def _model(runs: pd.DataFrame, study: RunsTable, policy: Policy) -> tuple[stats.Factorial | None, str]:
    """The effects, or why there are none."""
    if policy.waiting:
        return None, f"the first planned look is at {policy.plan[0]} seeds"
    runs = runs.loc[[policy.may_test(seed) for seed in runs["seed"]]]
    frame = runs[["seed", study.metric]].copy()
    for factor in study.factors:
        frame[factor] = factor_levels(runs, factor)
    names, families, looks = list(study.factors), policy.families, policy.looks
    try:
        return stats.factorial(frame, study.metric, names, floor=policy.floor, families=families, looks=looks), ""
    except UserError as error:
        return None, str(error)


def _sensitive(model: stats.Factorial | None, study: RunsTable, means: Means, policy: Policy) -> tuple[str, ...]:
    """Every significant term where the chance level of a diverged run is not known."""
    if model is None or not policy.chance:
        return ()
    significant = _significant(model)
    if policy.unknown_chance:
        return tuple(significant)
    again, _ = _model(_at_chance(study, policy.count_diverged(means.values)), study, policy)
    counted = _significant(again) if again else []
    return tuple(term for term in model.terms["term"] if (term in significant) != (term in counted))


def _significant(model: stats.Factorial) -> list[str]:
    return model.terms.loc[model.terms["p_holm"] <= stats.ALPHA, "term"].tolist()


def _at_chance(study: RunsTable, counted: dict[str, dict[int, float]]) -> pd.DataFrame:
    """The finished and the diverged runs, the latter with their metric in `counted`."""
    ended = study.of(*ENDED)
    runs = ended[ended["status"].isin(["finished", "diverged"])]
    metric = [counted[variant][int(seed)] for variant, seed in zip(runs["variant"], runs["seed"])]
    return runs.assign(**{study.metric: metric}).dropna(subset=[study.metric])
