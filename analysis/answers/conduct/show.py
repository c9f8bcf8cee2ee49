"""How the study was conducted, and what it cannot show: diverged runs, looks, warnings, methods."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from analysis import formatting
from analysis.answers.answer import Answer, Page
from analysis.answers.conduct.compute import Conduct, repeated_looks_rate
from analysis.results.policy import Comparisons, Policy
from analysis.results.variants import Variants
from analysis.write.text import facts, paragraphs, text
from experiments.runs.history import Look

if TYPE_CHECKING:
    from analysis.answers.study_results import StudyResults


def answer(results: StudyResults, page: Page) -> Answer:
    """What the answers stand on, and the differences that are too small for the seeds of the study."""
    variants, comparisons, policy, conduct = results.variants, results.comparisons, results.policy, results.conduct
    compared = [one for variant in variants.others if (one := comparisons.versus[variant]).n > 1]
    said = [
        _diverged(variants, comparisons, conduct),
        *looks_paragraphs(policy, conduct.looks, conduct),
        text("headline", "limits", variants=variants, conduct=conduct, **_limits(variants, comparisons)),
        text("headline", "method", policy=policy, comparisons=comparisons, compared=compared),
    ]
    return Answer(headline=said)


def methods(results: StudyResults) -> tuple[tuple[str, str], ...]:
    """The terms that all answers use."""
    variants, comparisons, policy, conduct = results.variants, results.comparisons, results.policy, results.conduct
    slots = {"variants": variants, "comparisons": comparisons, "conduct": conduct, "policy": policy}
    return facts("methods", "methods", **slots)


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
    metric, margin = variants.metric, variants.margin
    versus = [comparisons.versus[variant] for variant in variants.others]
    undecided = [c for c in (*versus, *comparisons.other_pairs.values()) if c.verdict == "not shown" and c.n]
    shown = [c for c in undecided or versus if math.isfinite(c.detectable)]
    sizes = sorted(c.detectable * metric.scale for c in shown if c.detectable < 1 or not metric.is_share)
    places = formatting.decimals(sizes[0]) if sizes else 0
    ends = dict.fromkeys(formatting.number(size, places) for size in (sizes[:1] + sizes[-1:]))
    return {
        "undecided": undecided,
        "detectable": " to ".join(ends),
        "shown": shown,
        "hopeless": len(shown) - len(sizes),
        "enough": sum(c.detectable <= margin for c in shown) if sizes and margin is not None else None,
    }
