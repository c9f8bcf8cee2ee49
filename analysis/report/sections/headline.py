"""The answer of a study in a few paragraphs, made from its statistics alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

from analysis import formatting
from analysis.report.text import paragraphs, text
from analysis.results.conduct import Conduct, repeated_looks_rate
from analysis.results.means import Means
from analysis.results.policy import Comparisons, Policy
from analysis.results.variants import Variants
from analysis.sources.source_run import ENDED
from experiments.runs.looks import Look


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
    if any(c.n > 1 for c in versus.values()):
        against = [text("headline", "against_baseline", **compared, means=means, versus=versus)]
    else:
        against = paragraphs("headline", "not_testable", **study, comparisons=comparisons, ended=list(ENDED))
        if all(c.n < 2 for c in comparisons.other_pairs.values()):
            return tuple(against)
    answer = [
        *factors,
        *against,
        *further,
        _diverged(variants, comparisons, conduct),
        text("headline", "among_others", variants=variants, comparisons=comparisons, means=means),
        *looks_paragraphs(policy, conduct.looks, conduct),
        text("headline", "limits", variants=variants, conduct=conduct, **_limits(variants, comparisons)),
    ]
    return tuple(filter(None, answer))


def looks_paragraphs(policy: Policy, looks: Sequence[Look], conduct: Conduct | None = None) -> list[str]:
    """The paragraph on planned looks, or on a second look without a plan; empty where neither is the case.

    `conduct`: of a single study, which may stop variants.
    """
    rate = repeated_looks_rate(looks)
    return paragraphs("looks", "headline", policy=policy, looks=looks, rate=rate, conduct=conduct)


def _diverged(variants: Variants, comparisons: Comparisons, conduct: Conduct) -> str:
    depending = [variant for variant, compared in comparisons.versus.items() if compared.depends_on_diverged]
    return text(
        "comparison",
        "diverged",
        lost={variants.brief[variant]: n for variant, n in conduct.counts["diverged"].items()},
        variants=variants.brief_names(depending),
        other_pairs=sum(compared.depends_on_diverged for compared in comparisons.other_pairs.values()),
    )


def _limits(variants: Variants, comparisons: Comparisons) -> dict[str, object]:
    """Which differences are too small for the seeds of the study."""
    metric = variants.metric
    versus = [comparisons.versus[variant] for variant in variants.others]
    undecided = [c for c in (*versus, *comparisons.other_pairs.values()) if c.verdict == "not enough evidence" and c.n]
    shown = [c for c in undecided or versus if math.isfinite(c.detectable)]
    sizes = sorted(c.detectable * metric.scale for c in shown if c.detectable < 1 or not metric.is_share)
    places = formatting.decimals(sizes[0]) if sizes else 0
    ends = dict.fromkeys(formatting.number(size, places) for size in (sizes[:1] + sizes[-1:]))
    return {
        "undecided": undecided,
        "detectable": " to ".join(ends),
        "shown": shown,
        "hopeless": len(shown) - len(sizes),
    }
