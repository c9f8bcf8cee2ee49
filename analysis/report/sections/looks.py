"""How often a study was looked at, and what that does to its tests."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.report.text import facts, text
from analysis.results.means import Means
from analysis.results.policy import Policy
from analysis.results.variants import Variants
from analysis.stats import repeated_rate
from experiments.runs.looks import Look


def looks_paragraph(policy: Policy, looks: Sequence[Look]) -> tuple[str, ...]:
    """The paragraph on planned looks, or on a second look without a plan."""
    if policy.plan:
        return (text("looks", "planned", policy=policy),)
    if len(looks) < 2:
        return ()
    rate = repeated_looks_rate(looks, policy.alpha)
    return (text("looks", "repeated", looks=looks, rate=rate, policy=policy),)


def repeated_looks_rate(looks: Sequence[Look], alpha: float) -> float | None:
    """How often tests at each look so far find a false difference; None where the numbers of seeds do not rise."""
    rising = sorted({look.most for look in looks if look.most > 1})
    return repeated_rate(rising, alpha) if len(rising) > 1 else None


def not_tested_yet(policy: Policy, means: Means, variants: Variants) -> tuple[str, ...]:
    """Before the first planned look: the best mean, and no comparison."""
    first = text("looks", "waiting", policy=policy)
    if means.best is None:
        return (first,)
    best = text("looks", "best_so_far", metric=means.metric, best=variants.brief[means.best], mean=means.of(means.best))
    return first, best


def looks_facts(policy: Policy, looks: Sequence[Look], recorded: bool) -> tuple[tuple[str, str], ...]:
    """How looks are counted and tested. `recorded`: whether looks at these runs are recorded."""
    return facts("looks", "methods", policy=policy, looks=looks, recorded=recorded)
