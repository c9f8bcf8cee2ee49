"""The answer of a study in a few paragraphs, made from its statistics alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

from analysis import formatting
from analysis.report.sections.looks import looks_paragraph, not_tested_yet
from analysis.report.text import text
from analysis.results.comparisons import MOST_PAIRS, Comparisons
from analysis.results.conduct import Conduct
from analysis.results.means import Means
from analysis.results.policy import Policy
from analysis.results.variants import Variants
from analysis.sources.source_run import ENDED
from analysis.stats import PairedComparison
from analysis.stats.power import FEW_SEEDS, SeedsNeeded

MOST_NAMED_PAIRS = 3  # significantly different pairs that are named, not counted


def headline(
    variants: Variants,
    means: Means,
    comparisons: Comparisons,
    policy: Policy,
    conduct: Conduct,
    *,
    factors: Sequence[str] = (),
    trends: Sequence[str] = (),
    claims: Sequence[tuple[str, str, str]] = (),
) -> tuple[str, ...]:
    """The answer, one paragraph for each part. `factors`, `trends`: their paragraphs.

    `claims`: statement, outcome and evidence of each published claim, for a study of a single variant.
    """
    if not variants.others:
        return _single_variant(variants, means, conduct, claims)
    if policy.waiting:
        return not_tested_yet(policy, means, variants)
    if max(comparisons.versus[variant].n for variant in variants.others) < 2:
        return _not_testable(variants, means, comparisons, conduct)
    answer = [
        *factors,
        _against_baseline(variants, means, comparisons, policy),
        *trends,
        _diverged(variants, comparisons, policy, conduct),
        _among_others(variants, means, comparisons),
        *looks_paragraph(policy, conduct.looks),
        _limits(variants, comparisons, policy, conduct),
    ]
    return tuple(filter(None, answer))


def _single_variant(
    variants: Variants, means: Means, conduct: Conduct, claims: Sequence[tuple[str, str, str]]
) -> tuple[str, ...]:
    name, mean = variants.baseline, means.of(variants.baseline)
    if not mean.n:
        statuses = {status: n for status, n in conduct.counts.loc[name].items() if n}
        return (text("headline", "no_mean", name=name, metric=variants.metric, statuses=statuses),)
    first = text("headline", "single_mean", name=name, metric=variants.metric, mean=mean)
    interval = formatting.bounds(mean, variants.metric.scale, signed=False) if math.isfinite(mean.low) else ""
    return first, text(
        "headline", "single_interval", mean=mean, interval=interval, metric=variants.metric, claims=claims
    )


def _not_testable(variants: Variants, means: Means, comparisons: Comparisons, conduct: Conduct) -> tuple[str, ...]:
    """At most one seed is shared with the baseline: the numbers, and no comparison."""
    slots = {"baseline": variants.baseline, "metric": variants.metric}
    counts = conduct.counts.loc[variants.baseline]
    if not means.of(variants.baseline).n:
        if counts["finished"]:
            measured = [str(name) for name, by in means.by_metric.items() if any(mean.n for mean in by.values())]
            return text("headline", "nothing", **slots), text("headline", "other_metric", measured=measured, **slots)
        if counts[list(ENDED)].sum() == counts.sum():
            return text("headline", "nothing", **slots), text("headline", "other_baseline", runs=int(counts.sum()))
        return (text("headline", "nothing", **slots),)
    known = [variant for variant in variants.others if comparisons.versus[variant].n]
    if not known:
        return text("headline", "no_common_seed", **slots), text("headline", "more_seeds")
    best = means.best if means.best in known else known[0]
    shown = {name: means.of(name) for name in (best, variants.baseline)}
    return text("headline", "single_seed", means=shown, **slots), text("headline", "more_seeds")


def _against_baseline(variants: Variants, means: Means, comparisons: Comparisons, policy: Policy) -> str:
    versus = {variants.brief[variant]: comparisons.versus[variant] for variant in variants.others}
    tested = {name: compared for name, compared in versus.items() if compared.n > 1}
    return text(
        "headline",
        "against_baseline",
        metric=variants.metric,
        baseline=variants.brief[variants.baseline],
        mean=means.of(variants.baseline),
        compared=tested,
        lost=[name for name, compared in versus.items() if not compared.n],
        single=[name for name, compared in versus.items() if compared.n == 1],
        seeds=[compared.n for compared in tested.values()],
        policy=policy,
        all_pairs=bool(comparisons.pairs),
    )


def _diverged(variants: Variants, comparisons: Comparisons, policy: Policy, conduct: Conduct) -> str:
    """Which variants diverged, and which verdicts depend on that."""
    rates = {variants.brief[variant]: rate for variant, rate in conduct.divergence.items() if rate.value > 0}
    if not rates:
        return ""
    lost = {name: (round(rate.value * rate.n), rate.n) for name, rate in rates.items()}
    depends = [variants.brief[v] for v in variants.others if comparisons.versus[v].depends_on_diverged]
    pairs = [pair for pair, compared in comparisons.other_pairs.items() if compared.depends_on_diverged]
    slots = {"metric": variants.metric, "unknown": bool(policy.unknown_chance), "pairs": len(pairs)}
    return text("headline", "diverged", lost=lost, depends=depends, **slots)


def _among_others(variants: Variants, means: Means, comparisons: Comparisons) -> str:
    """How the variants compare with each other, without the baseline, and which one has the best mean."""
    pairs = {pair: compared for pair, compared in comparisons.other_pairs.items() if compared.n > 1}
    if len(variants.others) < 2 or (comparisons.pairs and not pairs):
        return ""
    open_ = [c.diff for c in pairs.values() if c.verdict == "not enough evidence"]
    ranked = [
        (a, b) if (c.verdict == "better") else (b, a) for (a, b), c in pairs.items() if c.verdict in ("better", "worse")
    ]
    named = [(variants.brief[a], variants.brief[b]) for a, b in ranked] if len(ranked) <= MOST_NAMED_PAIRS else []
    compared = text(
        "headline",
        "pairs",
        total=len(pairs),
        different=len(ranked),
        named=named,
        equivalent=sum(c.verdict == "equivalent" for c in pairs.values()),
        open=len(open_),
        largest=max(open_, key=lambda diff: abs(diff.value)) if open_ else None,
        most_variants=MOST_PAIRS,
        variants=variants,
    )
    return f"{compared} {_best(variants, means, comparisons)}"


def _best(variants: Variants, means: Means, comparisons: Comparisons) -> str:
    """Which variant has the best mean, and how many are shown to be worse."""
    best = means.best or variants.baseline
    better = {"better": 0, "worse": 1}  # the place of the better variant in a pair with this verdict
    winners = [pair[better[c.verdict]] for pair, c in comparisons.pairs.items() if best in pair and c.verdict in better]
    return text(
        "headline",
        "best",
        metric=variants.metric,
        mean=means.of(best),
        best=[variants.brief[v] for v in variants.names if means.of(v).value == means.of(best).value],
        worse=winners.count(best) if comparisons.pairs else None,
        total=len(variants.others),
        above=[variants.brief[variant] for variant in winners if variant != best],  # on the seeds that both have
    )


def _limits(variants: Variants, comparisons: Comparisons, policy: Policy, conduct: Conduct) -> str:
    """What the study cannot show: differences that are too small for its seeds, and other data."""
    metric = variants.metric
    versus = {(variant, variants.baseline): comparisons.versus[variant] for variant in variants.others}
    pairs = list((versus | comparisons.other_pairs).values())
    undecided = [c for c in pairs if c.verdict == "not enough evidence" and c.n]
    shown = [c for c in undecided or versus.values() if math.isfinite(c.detectable)]
    hopeless = [c for c in shown if metric.is_share and c.detectable >= 1]
    known = [c for c in shown if c not in hopeless]
    values = sorted(c.detectable * metric.scale for c in known)
    places = formatting.decimals(values[0]) if values else 0
    ends = dict.fromkeys(formatting.number(value, places) for value in (values[:1] + values[-1:]))
    return text(
        "headline",
        "limits",
        variants=variants,
        undecided=bool(undecided),
        detectable=" to ".join(ends),
        hopeless=len(hopeless),
        pairs=len(shown),
        enough=sum(c.detectable <= variants.margin for c in shown),
        seeds=[c.n for c in shown],
        few_seeds=FEW_SEEDS if undecided and not policy.plan and max(c.n for c in undecided) < FEW_SEEDS else None,
        needed="" if policy.plan else _seeds_needed(undecided),
        conduct=conduct,
    )


def _seeds_needed(undecided: Sequence[PairedComparison]) -> str:
    """The range of seeds that give a verdict; empty where that cannot be estimated."""
    needs = [c.seeds_needed for c in undecided if c.seeds_needed is not None]
    if not needs:
        return ""
    lows, highs = [need.low for need in needs], [need.high for need in needs]
    low = min((n for n in lows if n is not None), default=None)
    high = None if None in highs else max(n for n in highs if n is not None)
    return formatting.seeds_needed(SeedsNeeded(low, high))
