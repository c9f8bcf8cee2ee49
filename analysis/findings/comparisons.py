"""The comparisons of a study: every pair of variants, and each variant with the baseline."""

from dataclasses import dataclass
from itertools import combinations

from analysis import verdicts
from analysis.findings.policy import Policy
from analysis.findings.variants import Variants
from analysis.verdicts.comparisons import NOT_TESTED, SHOWN, Comparison, Values, Verdict
from experiments.study import MOST_PAIRS


@dataclass(frozen=True)
class Comparisons:
    """The comparisons of a study."""

    baseline: str
    versus: dict[str, Comparison]  # each variant against the baseline: the same comparisons as in `pairs`
    pairs: dict[tuple[str, str], Comparison]
    """(a, b) -> a - b, where b is the baseline or comes later; all pairs are one family. Empty where there are too many
    variants; then the pairs with the baseline are the family"""

    @property
    def other_pairs(self) -> dict[tuple[str, str], Comparison]:
        """Every pair without the baseline."""
        return {pair: compared for pair, compared in self.pairs.items() if self.baseline not in pair}

    @property
    def verdicts(self) -> set[str]:
        """The verdicts that there are."""
        return {compared.verdict for compared in (*self.pairs.values(), *self.versus.values())}

    @property
    def methods(self) -> set[str]:
        """Where standard errors come from, see `verdicts.differences`."""
        return {compared.method for compared in (self.pairs or self.versus).values() if compared.tested}

    @property
    def untested(self) -> list[str]:
        """The variants of which no comparison has a verdict, so that nothing is known of their place."""
        known = [pair for pair, one in self._family.items() if one.verdict != NOT_TESTED]
        return [variant for variant in self.versus if not any(variant in pair for pair in known)]

    @property
    def ranked(self) -> list[tuple[str, str]]:
        """The pairs of which a difference is shown, the better variant first."""
        better = {"better": lambda a, b: (a, b), "worse": lambda a, b: (b, a)}
        return [better[c.verdict](*pair) for pair, c in self.pairs.items() if c.verdict in better]

    def with_verdict(self, variant: str | None, *verdicts: Verdict) -> frozenset[str]:
        """The variants with which this one has one of these verdicts."""
        return frozenset(
            (set(pair) - {variant}).pop()
            for pair, compared in self._family.items()
            if variant in pair and compared.verdict in verdicts
        )

    @property
    def _family(self) -> dict[tuple[str, str], Comparison]:
        return self.pairs or {(v, self.baseline): one for v, one in self.versus.items() if v != self.baseline}

    @property
    def undecided(self) -> dict[str, list[str]]:
        """Variant -> the others with which neither a difference nor equivalence is shown."""
        shown = {name: {name} | self.with_verdict(name, *SHOWN) for name in self.versus}
        return {name: [other for other in shown if other not in known] for name, known in shown.items()}


def study_comparisons(variants: Variants, values: Values, policy: Policy) -> Comparisons:
    """Every pair of variants, or each variant with the baseline where there are too many."""
    baseline, few = variants.baseline, len(variants.names) <= MOST_PAIRS
    pairs = (
        [(b, a) if a == baseline else (a, b) for a, b in combinations(variants.names, 2)]
        if few
        else [(variant, baseline) for variant in variants.others]
    )
    compared = policy.compare(values, pairs)
    versus = verdicts.against_baseline(compared, policy.looks.limit(values), baseline)
    return Comparisons(baseline, versus, compared if few else {})
