"""Which variants differ: every pair of variants, compared by the study's metric."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

from analysis import stats
from analysis.results.means import Means
from analysis.results.policy import Policy
from analysis.results.variants import Variants
from analysis.stats import PairedComparison

MOST_PAIRS = 150
"""Up to this many variants every pair is compared. Beyond it the number of pairs is too large to compute and to read."""


@dataclass(frozen=True)
class Comparisons:
    """The comparisons of a study."""

    baseline: str
    versus: dict[str, PairedComparison]
    """each variant against the baseline: the same comparisons as in `pairs`"""
    pairs: dict[tuple[str, str], PairedComparison]
    """(a, b) -> a - b, where b is the baseline or comes later; all pairs are one family. Empty where there are too many
    variants; then the pairs with the baseline are the family"""

    @property
    def other_pairs(self) -> dict[tuple[str, str], PairedComparison]:
        """Every pair without the baseline."""
        return {pair: compared for pair, compared in self.pairs.items() if self.baseline not in pair}

    @property
    def ranked(self) -> list[tuple[str, str]]:
        """The pairs that differ significantly, the better variant first."""
        better = {"better": lambda a, b: (a, b), "worse": lambda a, b: (b, a)}
        return [better[c.verdict](*pair) for pair, c in self.pairs.items() if c.verdict in better]

    def with_variant(self, variant: str | None) -> dict[str, PairedComparison]:
        """Every other variant -> its pair with this one, where that was tested."""
        return {
            (set(pair) - {variant}).pop(): compared
            for pair, compared in self.pairs.items()
            if variant in pair and math.isfinite(compared.p_holm)
        }

    def equivalent_to(self, variant: str | None) -> frozenset[str]:
        """The variants whose difference to this one is shown to be within the margin, also if diverged runs count."""
        return frozenset(
            (set(pair) - {variant}).pop()
            for pair, compared in self.pairs.items()
            if variant in pair and compared.verdict == "equivalent" and not compared.depends_on_diverged
        )


def study_comparisons(variants: Variants, means: Means, policy: Policy) -> Comparisons:
    """Every pair of variants, or each variant with the baseline where there are too many."""
    baseline, few = variants.baseline, len(variants.names) <= MOST_PAIRS
    pairs = (
        [(b, a) if a == baseline else (a, b) for a, b in combinations(variants.names, 2)]
        if few
        else [(variant, baseline) for variant in variants.others]
    )
    compared = policy.compare(means.values, pairs)
    versus = stats.against_baseline(compared, policy.looks.limit(means.values), baseline)
    return Comparisons(baseline, versus, compared if few else {})
