"""The answers of one study, one for each question, and what it says about published claims and tables."""

from dataclasses import dataclass

import pandas as pd

from analysis.answers.conduct.compute import Conduct, study_conduct
from analysis.answers.factors.compute import Factors, study_factors
from analysis.answers.images.compute import ImageResults, image_results
from analysis.answers.metrics.compute import Curves, study_cost, study_curves
from analysis.answers.profiles.compute import Profile, study_profiles
from analysis.answers.trends.compute import Trend, study_trends
from analysis.answers.tuning.compute import Tuning, study_tuning
from analysis.claims.check import ClaimResult, check
from analysis.claims.claim import Evidence, variant_settings
from analysis.claims.literature import paper_places, published_claims
from analysis.claims.theory import Expected, derived
from analysis.results.means import Means, study_means
from analysis.results.policy import Comparisons, Policy, study_comparisons, study_policy
from analysis.results.variants import Variants, study_variants
from analysis.sources.runs_table import RunsTable
from analysis.sources.source_run import ENDED
from experiments.errors import UserError


@dataclass(frozen=True)
class StudyResults:
    """A study and what is computed of it, for the answers of a report."""

    study: RunsTable
    policy: Policy
    variants: Variants
    means: Means
    comparisons: Comparisons
    factors: Factors
    claims: list[ClaimResult]
    """what the study says about published claims"""
    paper: dict[tuple[str, str], str]
    """(kind, site) in Table 8 of the ViT paper -> variant; empty for a study that does not vary these"""
    expected: dict[str, Expected]
    """variant -> the accuracies that theory predicts on a generated probe, where it applies"""
    images: ImageResults | None
    """None where no record holds test predictions"""
    profiles: list[Profile]
    trends: list[Trend]
    curves: Curves
    cost: pd.DataFrame
    conduct: Conduct
    tuning: Tuning | None
    """None where the variants were not tuned"""


def analyze(study: RunsTable) -> StudyResults:
    """Answer every question. Raises `UserError` where no run has ended."""
    if study.of(*ENDED).empty:
        raise UserError(f"{study.name}: no run has finished yet; there is nothing to report")
    policy, variants, means = study_policy(study), study_variants(study), study_means(study)
    comparisons = study_comparisons(variants, means.values, policy)
    return StudyResults(
        study=study,
        policy=policy,
        variants=variants,
        means=means,
        comparisons=comparisons,
        factors=study_factors(study, means, policy),
        claims=study_claims(study, means, policy, comparisons),
        paper=paper_places(study.metric, study.varied, variant_settings(study.plan, means.values)),
        expected=derived(study.metric, study.settings()),
        images=image_results(study),
        profiles=study_profiles(study, means),
        trends=study_trends(study, variants, policy),
        curves=study_curves(study),
        cost=study_cost(study),
        conduct=study_conduct(study),
        tuning=study_tuning(study),
    )


def study_claims(study: RunsTable, means: Means, policy: Policy, comparisons: Comparisons) -> list[ClaimResult]:
    """What a study says about published claims: nothing before the first planned look or without a margin.

    Claims about differences are left out where all their variants are near chance: nothing was learned.
    """
    if policy.looks.waiting or policy.margin is None:
        return []
    plan = study.plan.model_copy(update={"metric": study.metric})  # the user may have asked for another metric
    values = policy.looks.limit(means.values)
    counted = policy.looks.limit(policy.count_diverged(means.values)) if policy.chance else None
    near = policy.near_chance(values)
    return [
        result
        for result in check(published_claims(), Evidence(plan, values, comparisons.pairs, policy.rule, counted))
        if any(h.is_published or not near.issuperset(h.variants) for h in result.hypotheses)
    ]
