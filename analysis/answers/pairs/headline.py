"""What the headline of a study says about its pairs of variants, made from its statistics alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.answers.published.show import evidence
from analysis.sources.source_run import ENDED
from analysis.write.text import paragraphs, text

if TYPE_CHECKING:
    from analysis.answers.study_results import StudyResults


def against_baseline(results: StudyResults) -> list[str]:
    """How the variants compare with the baseline, and with each other."""
    variants, means, comparisons, policy = results.variants, results.means, results.comparisons, results.policy
    versus = {variants.brief[variant]: comparisons.versus[variant] for variant in variants.others}
    if any(c.n > 1 for c in versus.values()):
        slots = {"variants": variants, "means": means, "comparisons": comparisons}
        against = [text("headline", "against_baseline", **slots, policy=policy, versus=versus)]
    else:
        against = not_testable(results)
    return [*against, text("headline", "among_others", variants=variants, comparisons=comparisons, means=means)]


def without_comparison(results: StudyResults) -> list[str]:
    """The whole answer of a study in which nothing can be compared yet, or which has one variant; else empty."""
    variants, means, policy, comparisons = results.variants, results.means, results.policy, results.comparisons
    if not variants.others:
        claims = [(claim.claim.statement, claim.outcome, evidence(claim)) for claim in results.published.claims]
        slots = {"variants": variants, "means": means, "conduct": results.conduct}
        return paragraphs("headline", "single_variant", **slots, claims=claims)
    if policy.looks.waiting:
        return paragraphs("looks", "waiting", variants=variants, means=means, policy=policy)
    pairs = [*comparisons.other_pairs.values(), *(comparisons.versus[variant] for variant in variants.others)]
    return [] if any(compared.n > 1 for compared in pairs) else not_testable(results)


def not_testable(results: StudyResults) -> list[str]:
    """Why nothing is tested against the baseline, and what to do."""
    slots = {"variants": results.variants, "means": results.means, "conduct": results.conduct}
    return paragraphs("headline", "not_testable", **slots, comparisons=results.comparisons, ended=list(ENDED))
