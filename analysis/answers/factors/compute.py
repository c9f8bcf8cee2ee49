"""Which factors matter, and whether their effects depend on each other."""

from dataclasses import dataclass, replace

import pandas as pd

from analysis import stats
from analysis.results.means import Means
from analysis.results.policy import Policy
from analysis.sources.runs_table import RunsTable, factor_levels
from analysis.sources.source_run import ENDED
from analysis.stats.comparisons import with_diverged
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
    if policy.families == 1:
        return Factors(
            skipped_reason="it needs two factors or more with two levels each, and every combination in the plan"
        )
    policy = replace(policy, looks=policy.looks.of(study.variants))  # an effect takes runs of all variants
    if policy.looks.waiting:
        return Factors(skipped_reason=f"the first planned look is at {policy.looks.next} seeds")
    try:
        model = _model(study.of("finished"), study, policy)
    except UserError as error:
        return Factors(skipped_reason=str(error))
    return Factors(model, divergence_sensitive_terms=_sensitive(model, study, means, policy))


def _model(runs: pd.DataFrame, study: RunsTable, policy: Policy) -> stats.Factorial:
    runs = runs.loc[[policy.looks.may_test(seed) for seed in runs["seed"]]]
    frame = runs[["seed", study.metric]].copy()
    for factor in study.factors:
        frame[factor] = factor_levels(runs, factor)
    return stats.factorial(frame, study.metric, list(study.factors), policy.floor, policy.families, policy.looks)


def _sensitive(model: stats.Factorial, study: RunsTable, means: Means, policy: Policy) -> tuple[str, ...]:
    """Every significant term where the chance level of a diverged run is not known, or leaves no complete grid."""
    if not policy.chance:
        return ()
    verdicts = counted = _verdicts(model)
    unknown = list(verdicts) if policy.unknown_chance else []
    try:
        counted = _verdicts(_model(_at_chance(study, policy.count_diverged(means.values)), study, policy))
    except UserError:
        unknown = list(verdicts)
    decided = with_diverged(verdicts, counted, unknown)
    return tuple(term for term, verdict in decided.items() if verdict.depends_on_diverged)


def _verdicts(model: stats.Factorial) -> dict[str, stats.Decided]:
    """Term -> whether it is shown."""
    return {
        term: stats.Decided(verdict="shown" if p <= stats.ALPHA else "not enough evidence")
        for term, p in zip(model.terms["term"], model.terms["p_holm"])
    }


def _at_chance(study: RunsTable, counted: dict[str, dict[int, float]]) -> pd.DataFrame:
    """The finished and the diverged runs, the latter with their metric in `counted`."""
    ended = study.of(*ENDED)
    runs = ended[ended["status"].isin(["finished", "diverged"])]
    metric = [counted[variant][int(seed)] for variant, seed in zip(runs["variant"], runs["seed"])]
    return runs.assign(**{study.metric: metric}).dropna(subset=[study.metric])
