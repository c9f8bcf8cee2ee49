"""What a study says about published claims and tables."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.claims.check import ClaimResult, check
from analysis.claims.claim import variant_settings
from analysis.claims.literature import paper_places, published_claims
from analysis.claims.theory import Expected, derived
from analysis.results.means import Means
from analysis.results.policy import Policy
from analysis.sources.runs_table import RunsTable
from experiments.metric import Metric


@dataclass(frozen=True)
class PublishedResults:
    """What the study says about published claims, its places in a published table, and what theory predicts for it."""

    claims: list[ClaimResult]
    paper: dict[tuple[str, str], str]
    """(kind, site) in Table 8 of the ViT paper -> variant; empty for a study that does not vary these"""
    expected: dict[str, Expected]
    """variant -> the accuracies that theory predicts on a generated probe, where it applies"""


def published_results(study: RunsTable, means: Means, policy: Policy) -> PublishedResults:
    """Compare a study with what was published."""
    places = paper_places(study.metric, study.varied, variant_settings(study.plan, means.values))
    return PublishedResults(_claims(study, means, policy), places, derived(study.metric, study.settings()))


def _claims(study: RunsTable, means: Means, policy: Policy) -> list[ClaimResult]:
    """None where the study's margin is of another unit than its metric."""
    if policy.looks.waiting or Metric(study.stated_plan.metric).is_share != study.metric.is_share:
        return []
    plan = study.plan.model_copy(update={"metric": study.metric})  # the user may have asked for another metric
    values = policy.looks.limit(means.values)
    counted = policy.looks.limit(policy.count_diverged(means.values)) if policy.chance else None
    return check(published_claims(), plan, values, policy.floor, counted, policy.looks)
