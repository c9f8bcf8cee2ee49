"""The answer of a study in a few paragraphs, made from its statistics alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from analysis import formatting
from analysis.report.sections.provenance import with_seeds
from analysis.report.text import paragraphs, text
from analysis.results.conduct import Conduct, repeated_looks_rate
from analysis.results.means import Means
from analysis.results.policy import Comparisons, Policy
from analysis.results.variants import Variants
from analysis.sources.source_run import ENDED
from analysis.stats import Estimate
from analysis.stats.comparisons import EQUAL, NEAR_CHANCE
from analysis.stats.power import FEW_SEEDS, SeedsNeeded
from experiments.runs.looks import Look

MOST_RANKED = 3  # significant pairs that the headline names


def headline(
    variants: Variants,
    means: Means,
    comparisons: Comparisons,
    policy: Policy,
    conduct: Conduct,
    *,
    factors: Sequence[str] = (),
    further: Sequence[str] = (),
    claims: Sequence[tuple[str, str, str]] = (),
) -> tuple[str, ...]:
    """The answer, one paragraph for each part. `factors`: their paragraphs; `further`: those after the answer.

    `claims`: statement, outcome and evidence of each published claim, for a study of a single variant.
    """
    study = {"variants": variants, "means": means, "conduct": conduct}
    if not variants.others:
        return tuple(paragraphs("headline", "single_variant", **study, claims=claims))
    if policy.looks.waiting:
        return tuple(paragraphs("looks", "waiting", variants=variants, means=means, policy=policy))
    compared = {"variants": variants, "comparisons": comparisons, "policy": policy}
    versus = {variants.brief[variant]: comparisons.versus[variant] for variant in variants.others}
    by_seeds = {
        "tested": {name: c for name, c in versus.items() if c.n > 1},
        "one_seed": {name: c for name, c in versus.items() if c.n == 1},
        "no_seed": {name: c for name, c in versus.items() if not c.n},
    }
    others = among_others(variants, comparisons, means)
    if by_seeds["tested"]:
        against = [text("headline", "against_baseline", **compared, means=means, **by_seeds)]
    else:
        against = paragraphs(
            "headline", "not_testable", **study, **_not_testable(variants, means, comparisons, conduct)
        )
        if not others.tested:
            return tuple(against)
    answer = [
        *factors,
        *against,
        *further,
        _diverged(variants, comparisons, conduct),
        text("headline", "among_others", variants=variants, means=means, others=others),
        *looks_paragraphs(policy, conduct.looks, conduct),
        text(
            "headline", "limits", variants=variants, conduct=conduct, **_limits(variants, comparisons, policy, conduct)
        ),
    ]
    return tuple(filter(None, answer))


def looks_paragraphs(policy: Policy, looks: Sequence[Look], conduct: Conduct | None = None) -> list[str]:
    """The paragraph on planned looks, or on a second look without a plan; empty where neither is the case.

    `conduct`: of a single study, which may stop variants.
    """
    rate = repeated_looks_rate(looks)
    return paragraphs("looks", "headline", policy=policy, looks=looks, rate=rate, conduct=conduct)


@dataclass(frozen=True)
class Others:
    """How the variants compare with each other, without the baseline. Names are brief."""

    tested: int
    """the pairs with two seeds or more that both have"""
    untested: int
    significant: int
    ranked: list[tuple[str, str]]
    """the better and the worse of the significant pairs; empty where there are many"""
    counts: dict[str, int]
    """other verdict -> how many pairs have it"""
    open: list[Estimate]
    """the differences of the pairs that are not significantly different"""
    too_many: bool
    """whether there are too many variants to compare these pairs"""
    best: list[str]
    """the variants with the best mean; empty where only the baseline was compared"""
    beaten: int | None
    """how many variants the best one is significantly better than; None where several share the best mean"""
    above: list[str]
    """the variants that are significantly better than the best mean, on the seeds that both have"""


def among_others(variants: Variants, comparisons: Comparisons, means: Means) -> Others:
    """Count the pairs without the baseline by their verdicts, and find the best mean and what it beats."""
    pairs = [compared for compared in comparisons.other_pairs.values() if compared.n > 1]
    ranked = [pair for pair in comparisons.ranked if variants.baseline not in pair]
    verdicts = Counter(compared.verdict for compared in pairs)
    too_many = len(variants.others) > 1 and not comparisons.pairs
    shown, alone = bool(pairs) or too_many, len(means.all_best) == 1 and bool(comparisons.pairs)
    return Others(
        tested=len(pairs),
        untested=len(comparisons.other_pairs) - len(pairs),
        significant=len(ranked),
        ranked=[(variants.brief[a], variants.brief[b]) for a, b in ranked] if len(ranked) <= MOST_RANKED else [],
        counts={verdict: verdicts[verdict] for verdict in ("equivalent", EQUAL, NEAR_CHANCE) if verdicts[verdict]},
        open=[compared.diff for compared in pairs if compared.verdict == "not enough evidence"],
        too_many=too_many,
        best=variants.brief_names(means.all_best) if shown else [],
        beaten=sum(better == means.best for better, _ in comparisons.ranked) if alone else None,
        above=variants.brief_names([better for better, worse in comparisons.ranked if worse == means.best]),
    )


def _not_testable(variants: Variants, means: Means, comparisons: Comparisons, conduct: Conduct) -> dict[str, str]:
    """A variant that has a seed in common with the baseline, and what is missing for a test: seeds, metric or baseline."""
    known = [variant for variant in variants.others if comparisons.versus[variant].n]
    counts, reason = conduct.counts.loc[variants.baseline], ""
    if means.of(variants.baseline).n:
        reason = "seeds"
    elif counts["finished"]:
        reason = "metric"
    elif counts[list(ENDED)].sum() == counts.sum():
        reason = "baseline"
    return {"known": means.best if means.best in known else next(iter(known), ""), "reason": reason}


def _diverged(variants: Variants, comparisons: Comparisons, conduct: Conduct) -> str:
    depending = [variant for variant, compared in comparisons.versus.items() if compared.depends_on_diverged]
    return text(
        "comparison",
        "diverged",
        lost={variants.brief[variant]: n for variant, n in conduct.counts["diverged"].items()},
        variants=variants.brief_names(depending),
        other_pairs=sum(compared.depends_on_diverged for compared in comparisons.other_pairs.values()),
    )


def _limits(variants: Variants, comparisons: Comparisons, policy: Policy, conduct: Conduct) -> dict[str, object]:
    """Which differences are too small for the seeds of the study, and how many seeds would give a verdict."""
    metric, margin = variants.metric, variants.margin
    versus = [comparisons.versus[variant] for variant in variants.others]
    undecided = [c for c in (*versus, *comparisons.other_pairs.values()) if c.verdict == "not enough evidence" and c.n]
    shown = [c for c in undecided or versus if math.isfinite(c.detectable)]
    sizes = sorted(c.detectable * metric.scale for c in shown if c.detectable < 1 or not metric.is_share)
    places = formatting.decimals(sizes[0]) if sizes else 0
    ends = dict.fromkeys(formatting.number(size, places) for size in (sizes[:1] + sizes[-1:]))
    needs = [c.seeds_needed for c in undecided if c.seeds_needed is not None]
    few = [c.n for c in undecided if c.seeds_needed is not None and c.n < FEW_SEEDS]
    needed = _range(needs, bool(few)) if needs and not policy.looks else None
    return {
        "undecided": undecided,
        "detectable": " to ".join(ends),
        "shown": shown,
        "hopeless": len(shown) - len(sizes),
        "enough": sum(c.detectable <= margin for c in shown) if sizes and margin is not None else None,
        "needed": formatting.seeds_needed(needed) if needed else "",
        "few": few,
        "command": with_seeds(conduct.plan, needed.low) if needed and needed.low else "",
    }


def _range(needs: Sequence[SeedsNeeded], cautious: bool) -> SeedsNeeded:
    """From what the first pair needs, or if `cautious` what every pair needs, to the most that one can need."""
    lows, highs = [need.low for need in needs], [need.high for need in needs]
    known = [n for n in lows if n is not None]
    low = max(known) if cautious and None not in lows else min(known, default=None)
    return SeedsNeeded(low, None if None in highs else max(n for n in highs if n is not None))
