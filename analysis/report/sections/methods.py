"""How every number of a report is computed."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.report.document import Facts, Section
from analysis.report.sections.looks import looks_facts
from analysis.report.text import facts
from analysis.results.comparisons import Comparisons
from analysis.results.conduct import Conduct
from analysis.results.policy import Policy
from analysis.results.variants import Variants


def methods(
    variants: Variants,
    comparisons: Comparisons,
    policy: Policy,
    conduct: Conduct,
    *,
    images: bool,
    further: Sequence[tuple[str, str]] = (),
) -> Section:
    """One term and its explanation for each method that the report uses.

    `images`: whether it has statistics of test images. `further`: the terms of other sections.
    """
    terms = [*facts("methods", "data", metric=variants.metric), *scope(conduct)]
    if images:
        terms += facts("methods", "test_images")
    if variants.others:
        slots = {"policy": policy, "all_pairs": bool(comparisons.pairs), "margin_changed": "margin" in conduct.changes}
        terms += facts("methods", "verdicts", baseline=variants.baseline, **slots)
        terms += looks_facts(policy, conduct.looks, conduct.recorded)
        terms += facts("methods", "precision", policy=policy)
    terms += [*further, *facts("methods", "cost")]
    return Section("methods", "Methods", [Facts(tuple(terms))])


def scope(conduct: Conduct) -> tuple[tuple[str, str], ...]:
    """Which sources of variation the intervals cover: the seed, or the seed and the split."""
    return facts("methods", "scope", split=conduct.split)
