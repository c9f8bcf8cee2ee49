"""What the headline of a study says about its pairs of variants, made from its statistics alone."""

import math
from collections import Counter
from typing import Any

from analysis.answers.published.show import evidence
from analysis.answers.study_results import StudyResults
from analysis.results.means import Means
from analysis.results.policy import Comparisons
from analysis.results.variants import Variants
from analysis.sources.source_run import ENDED
from analysis.stats import PairedComparison
from analysis.stats.comparisons import EQUAL, NEAR_CHANCE
from analysis.write.text import paragraphs, text

MOST_RANKED = 3  # pairs that differ which the headline names


def among_others(variants: Variants, comparisons: Comparisons, means: Means) -> dict[str, Any]:
    """Count the pairs without the baseline by their verdicts, and find the best mean and what it beats.

    Names are brief. `counts`: other verdict -> pairs. `open`: the differences of pairs of which nothing is
    shown. `too_many`: whether there are too many variants to compare these pairs. `best`: empty where only the
    baseline was compared. `beaten`: how many variants the best is shown to be better than; None where several share
    the best mean. `above`: the variants that are shown to be better than the best mean, on the seeds that both have.
    """
    pairs = [compared for compared in comparisons.other_pairs.values() if compared.n > 1]
    ranked = [pair for pair in comparisons.ranked if variants.baseline not in pair]
    verdicts = Counter(compared.verdict for compared in pairs)
    too_many = len(variants.others) > 1 and not comparisons.pairs
    shown, alone = bool(pairs) or too_many, len(means.all_best) == 1 and bool(comparisons.pairs)
    return {
        "tested": len(pairs),
        "untested": len(comparisons.other_pairs) - len(pairs),
        "differing": len(ranked),
        "ranked": [(variants.brief[a], variants.brief[b]) for a, b in ranked] if len(ranked) <= MOST_RANKED else [],
        "counts": {verdict: verdicts[verdict] for verdict in ("equivalent", EQUAL, NEAR_CHANCE) if verdicts[verdict]},
        "open": [compared.diff for compared in pairs if compared.verdict == "not shown"],
        "too_many": too_many,
        "best": variants.brief_names(means.all_best) if shown else [],
        "beaten": sum(better == means.best for better, _ in comparisons.ranked) if alone else None,
        "above": variants.brief_names([better for better, worse in comparisons.ranked if worse == means.best]),
    }


def against_baseline(results: StudyResults) -> list[str]:
    """How the variants compare with the baseline, and with each other."""
    variants, means, comparisons, policy = results.variants, results.means, results.comparisons, results.policy
    versus = {variants.brief[variant]: comparisons.versus[variant] for variant in variants.others}
    by_seeds = {
        "tested": {name: c for name, c in versus.items() if c.n > 1 and not _untested(c)},
        "constant": {name: c for name, c in versus.items() if c.n > 1 and _untested(c)},
        "one_seed": {name: c for name, c in versus.items() if c.n == 1},
        "no_seed": {name: c for name, c in versus.items() if not c.n},
    }
    if by_seeds["tested"] or by_seeds["constant"]:
        slots = {"variants": variants, "means": means, "comparisons": comparisons, "policy": policy}
        against = [text("headline", "against_baseline", **slots, **by_seeds)]
    else:
        against = not_testable(results)
    others = among_others(variants, comparisons, means)
    return [*against, text("headline", "among_others", variants=variants, means=means, others=others)]


def _untested(compared: PairedComparison) -> bool:
    """Whether neither side varies over the seeds and they differ, so that nothing is known of their spread."""
    return compared.verdict == "not shown" and not math.isfinite(compared.p)


def without_comparison(results: StudyResults) -> list[str]:
    """The whole answer of a study in which nothing can be compared yet, or which has one variant; else empty."""
    variants, means, policy, comparisons = results.variants, results.means, results.policy, results.comparisons
    if not variants.others:
        claims = [(claim.claim.statement, claim.outcome, evidence(claim)) for claim in results.claims]
        slots = {"variants": variants, "means": means, "conduct": results.conduct}
        return paragraphs("headline", "single_variant", **slots, claims=claims)
    if policy.looks.waiting:
        return paragraphs("looks", "waiting", variants=variants, means=means, policy=policy)
    pairs = [*comparisons.other_pairs.values(), *(comparisons.versus[variant] for variant in variants.others)]
    return [] if any(compared.n > 1 for compared in pairs) else not_testable(results)


def not_testable(results: StudyResults) -> list[str]:
    """Why nothing is tested against the baseline, and what to do."""
    variants, means, conduct = results.variants, results.means, results.conduct
    known = [variant for variant in variants.others if results.comparisons.versus[variant].n]
    counts, reason = conduct.counts.loc[variants.baseline], ""
    if means.of(variants.baseline).n:
        reason = "seeds"
    elif counts["finished"]:
        reason = "metric"
    elif counts[list(ENDED)].sum() == counts.sum():
        reason = "baseline"
    slots = {"known": means.best if means.best in known else next(iter(known), ""), "reason": reason}
    return paragraphs("headline", "not_testable", variants=variants, means=means, conduct=conduct, **slots)
