"""The comparisons of a study: its pairs of variants, their verdicts and ranks."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from analysis import verdicts
from analysis.findings.policy import Outcomes, Policy
from analysis.verdicts import Comparison
from analysis.verdicts.comparisons import NOT_TESTED, of_baseline


@dataclass(frozen=True)
class Comparisons:
    """The comparisons of a study."""

    baseline: str
    versus: dict[str, Comparison]  # each variant against the baseline: the same comparisons as in `pairs`
    pairs: dict[tuple[str, str], Comparison]
    """(a, b) -> a - b, where b is the baseline or comes later; all pairs are one family. Empty where the pairs with the
    baseline are the family"""

    @property
    def other_pairs(self) -> dict[tuple[str, str], Comparison]:
        """Every pair without the baseline."""
        return {pair: compared for pair, compared in self.pairs.items() if self.baseline not in pair}

    @property
    def verdicts(self) -> set[str]:
        """The verdicts that there are."""
        return {compared.verdict for compared in (*self.pairs.values(), *self.versus.values())}

    @cached_property
    def untested(self) -> list[str]:
        """The variants of which no comparison has a verdict, so that nothing is known of their place."""
        tested = {
            variant for pair, comparison in self.family.items() if comparison.verdict != NOT_TESTED for variant in pair
        }
        return [variant for variant in self.versus if variant not in tested]

    @property
    def ranked(self) -> list[tuple[str, str]]:
        """The pairs of which a difference is shown, the better variant first."""
        better = {"better": lambda a, b: (a, b), "worse": lambda a, b: (b, a)}
        return [better[c.verdict](*pair) for pair, c in self.pairs.items() if c.verdict in better]

    @property
    def ranks(self) -> dict[str, tuple[int, int]]:
        """Variant -> its first and last possible rank, 1 for the best; empty where not all pairs are compared.

        They hold together wherever all intervals do, and a pair without a verdict widens them. Source: Al Mohamad,
        Goeman and van Zwet, Biometrics 78 (2022), 238-247.
        """
        above, below = (Counter(pair[side] for pair in self.ranked) for side in (1, 0))
        return {v: (1 + above[v], len(self.versus) - below[v]) for v in self.versus} if self.pairs else {}

    @cached_property
    def family(self) -> dict[tuple[str, str], Comparison]:
        """The pairs that are tested together: all, or those with the baseline."""
        return self.pairs or {
            (v, self.baseline): comparison for v, comparison in self.versus.items() if v != self.baseline
        }


def compare_variants(outcomes: Outcomes, baseline: str, policy: Policy) -> Comparisons:
    """Every pair of variants, or each variant with the baseline, as the policy says. These pairs are one family."""
    tested, variants = outcomes.at(policy.looks), list(outcomes.values)
    everything, place = policy.family == "all", {variant: row for row, variant in enumerate(variants)}
    pairs = [(b, a) if a == baseline else (a, b) for a, b in combinations(variants, 2)]
    if not everything:
        pairs = [(variant, baseline) for variant in variants if variant != baseline]
    rows = [(place[a], place[b]) for a, b in pairs]
    x, ended, failed = (frame.to_numpy().T for frame in (tested.values, tested.ended, tested.failed))
    made = verdicts.compare(x, rows, policy, ended, failed, tested.chance.to_numpy())
    compared = dict(zip(pairs, made, strict=True))
    itself = of_baseline(tested.values.loc[tested.ended[baseline], baseline].to_numpy())
    versus = {variant: itself if variant == baseline else compared[variant, baseline] for variant in variants}
    return Comparisons(baseline, versus, compared if everything else {})
