"""The answers of one study, one for each question. No logic of its own."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from analysis.results.comparisons import Comparisons, study_comparisons
from analysis.results.conduct import Conduct, study_conduct
from analysis.results.factors import Factors, study_factors
from analysis.results.images import ImageResults, image_results
from analysis.results.means import Means, study_means
from analysis.results.policy import Policy, study_policy
from analysis.results.profiles import Profile, study_profiles
from analysis.results.published import PublishedResults, published_results
from analysis.results.training import Curves, study_cost, study_curves
from analysis.results.trends import Trend, study_trends
from analysis.results.tuning import Tuning, study_tuning
from analysis.results.variants import Variants, study_variants
from analysis.sources.runs_table import RunsTable
from analysis.sources.source_run import ENDED
from experiments.errors import UserError


@dataclass(frozen=True)
class StudyResults:
    """A study and its answers. The report's sections receive the parts, never the whole."""

    study: RunsTable
    policy: Policy
    variants: Variants
    means: Means
    comparisons: Comparisons
    factors: Factors
    published: PublishedResults
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
    return StudyResults(
        study=study,
        policy=policy,
        variants=variants,
        means=means,
        comparisons=study_comparisons(variants, means, policy),
        factors=study_factors(study, means, policy),
        published=published_results(study, means, policy),
        images=image_results(study, policy),
        profiles=study_profiles(study, means),
        trends=study_trends(study, variants, policy),
        curves=study_curves(study),
        cost=study_cost(study),
        conduct=study_conduct(study),
        tuning=study_tuning(study),
    )
