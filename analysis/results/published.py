"""What a study says about published claims."""

from __future__ import annotations

from analysis.claims.check import ClaimResult, check
from analysis.claims.literature import published_claims
from analysis.results.means import Means
from analysis.results.policy import Policy
from analysis.sources.runs_table import RunsTable
from experiments.metric import Metric


def study_claims(study: RunsTable, means: Means, policy: Policy) -> list[ClaimResult]:
    """The claims about the study's variants. None where its margin is of another unit than its metric."""
    if policy.waiting or Metric(study.stated_plan.metric).is_share != study.metric.is_share:
        return []
    plan = study.plan.model_copy(update={"metric": study.metric})  # the user may have asked for another metric
    known = policy.chance and not policy.unknown_chance
    counted = policy.limit(policy.count_diverged(means.values)) if known else None
    values = policy.limit(means.values)
    return check(published_claims(), plan, values, policy.alpha, policy.floor, counted, policy.looks)
