"""Differences between variants: one interval each, and the verdict that is read from it. Arrays in, estimates out.

The interval holds for all pairs of the family together (Bonferroni), at the level of the look. What a reader sees in it
is the verdict:

1. "equivalent": it lies within ±margin, which is stated before the runs. So two one-sided tests at 2.5 % for all pairs
   together show that the difference is smaller than what would matter (Schuirmann, J. Pharmacokinetics and
   Biopharmaceutics 15 (1987), 657-680, at 5 %).
2. "better" or "worse": it lies above or below zero.
3. "not shown" otherwise, which does not mean "no difference".

A difference can be shown to exist and to be smaller than the margin. Its verdict is "equivalent", because the margin
says what would matter.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import numpy as np

from analysis.stats.differences import Differences, Variance, differences
from analysis.stats.estimates import ALPHA, UNKNOWN, Estimate
from analysis.stats.looks import NO_PLAN, Looks, levels, sequential_p
from analysis.stats.power import detectable

Verdict = Literal["better", "worse", "equivalent", "equal on all seeds", "both near chance", "not shown", "baseline"]
EQUAL: Verdict = "equal on all seeds"
"""Of two variants whose runs have the same value on each seed. Nothing is tested: their differences show no spread."""
NEAR_CHANCE: Verdict = "both near chance"
"""Instead of "equivalent" or `EQUAL`: two variants that learned nothing say nothing about what they vary."""
SHOWN: tuple[Verdict, ...] = ("better", "worse", "equivalent")
Values = Mapping[str, Mapping[int, float]]
"""variant -> seed -> the metric's value, not finite where the run diverged"""
Table = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""see `_table`"""
Key = TypeVar("Key", bound=Hashable)
Compared = TypeVar("Compared", bound="Comparison")


@dataclass(frozen=True)
class Rule:
    """What verdicts depend on besides the values."""

    margin: float | None = 0.01
    """the smallest difference that would matter, in the metric's units; None where that is not known"""
    lower_is_better: bool = False
    floor: float = 0.0
    """the smallest standard deviation of differences (see `estimates`)"""
    families: int = 1
    """how many families of tests of differences share `ALPHA` equally"""
    looks: Looks = NO_PLAN
    """the planned looks, where the study plans any: the seeds are then those of the current look, in the planned order;
    variants that stopped have fewer"""
    variance: Variance = "shared"
    """whether standard errors share what all variants tell about their spread, where there are enough of them"""

    @property
    def bound(self) -> float:
        """The margin; NaN where it is not known, within which nothing is shown to lie."""
        return np.nan if self.margin is None else self.margin

    def verdict(self, interval: Estimate) -> Verdict:
        """What an interval shows."""
        if -self.bound <= interval.low and interval.high <= self.bound:
            return "equivalent"
        if interval.low > 0 or interval.high < 0:
            return "better" if (interval.low > 0) != self.lower_is_better else "worse"
        return "not shown"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One variant minus another. What so few seeds cannot tell is NaN."""

    diff: Estimate
    """mean difference of the finished runs with the interval of this pair alone, at the level of the look"""
    adjusted: Estimate = UNKNOWN
    """mean difference with the interval that holds for all pairs together, of which the verdict is read. It also covers
    what the runs show where failed runs count at chance level"""
    p: float = np.nan
    """two-sided t test of no difference at this look"""
    p_adjusted: float = np.nan
    """`p`, adjusted over the family and the looks: at most `ALPHA` where `adjusted` leaves zero out"""
    verdict: Verdict
    """what holds for the finished runs, and also where failed runs count as runs at chance level"""
    verdict_of_finished: Verdict
    """what the finished runs alone show"""
    decided_early: bool = False
    """whether a planned look before the last one shows it: such a mean is too large on average"""
    shown_at: int | None = None
    """the seeds of an earlier look that showed a difference or equivalence which this one does not show"""

    @property
    def depends_on_diverged(self) -> bool:
        """Whether the finished runs alone show what does not hold where diverged runs count at chance level."""
        return self.verdict != self.verdict_of_finished

    @property
    def n(self) -> int:
        """Seeds used: those with a finite value on both sides."""
        return self.diff.n


@dataclass(frozen=True, kw_only=True)
class PairedComparison(Comparison):
    """One variant minus another, over the seeds that both have."""

    dropped: int
    """seeds that only one side has, or on which a side diverged"""
    method: str = ""
    """where the standard error comes from, see `differences`"""
    detectable: float = np.nan
    """the smallest true difference that these seeds show with 80 % power"""


def compare(values: Values, pairs: Sequence[tuple[str, str]], rule: Rule) -> dict[tuple[str, str], PairedComparison]:
    """Each pair (a, b) as a - b; these pairs are the family. A pair is judged at the last look that both reached."""
    if not pairs:
        return {}
    table, compared = _table(values, pairs), dict[tuple[str, str], PairedComparison]()
    at_looks = _differences_at_looks(table, pairs, rule)
    last = list(_last_looks(pairs, rule.looks))
    tests = sum(int(at_looks[len(looks.reached) - 1].known[here].sum()) for looks, here in last)
    for looks, here in last:
        own = [at[here] for at in at_looks[: len(looks.reached)]]
        made = judge(own, tests, replace(rule, looks=looks))
        dropped = _dropped(table, here, looks.reached[-1])
        compared |= dict(zip([pairs[i] for i in here], _paired(made, own[-1], dropped, tests, rule), strict=True))
    return {pair: compared[pair] for pair in pairs}


def judge(at_looks: Sequence[Differences], tests: int, rule: Rule) -> list[Comparison]:
    """The comparisons of pairs of one study with these differences at each look so far; `tests`: of the family.

    A pair of which neither side varies has no interval within the margin: a rare failure may be missed.
    """
    *earlier, now = at_looks
    look, looks = len(earlier), rule.looks
    adjusted = _intervals(now, looks.level(_alpha(tests, rule)), rule)
    alone, p = now.estimates(looks.confidence), now.t_test()
    p_adjusted = np.minimum(rule.families * tests * sequential_p(p, look, looks.plan), 1.0)
    before = [
        (seeds, _intervals(at, levels(looks.plan, _alpha(tests, rule))[k], rule))
        for k, (seeds, at) in enumerate(zip(looks.reached, earlier))
    ]
    compared = list[Comparison]()
    for i, interval in enumerate(adjusted):
        verdict = EQUAL if now.equal[i] else rule.verdict(interval)
        past = [seeds for seeds, intervals in before if rule.verdict(intervals[i]) in SHOWN]
        unknown = np.isnan(interval.low)
        compared.append(
            Comparison(
                diff=alone[i],
                adjusted=interval,
                p=np.nan if unknown else float(p[i]),
                p_adjusted=np.nan if unknown else float(p_adjusted[i]),
                verdict=verdict,
                verdict_of_finished=verdict,
                decided_early=looks.next is not None and verdict in ("better", "worse"),
                shown_at=past[-1] if past and verdict == "not shown" else None,
            )
        )
    return compared


def _alpha(tests: int, rule: Rule) -> float:
    """The level of each test of a family, over all looks (Bonferroni)."""
    return ALPHA / (rule.families * max(tests, 1))


def _intervals(found: Differences, level: float, rule: Rule) -> list[Estimate]:
    """The intervals at 1 - level; unknown where both sides are equal, and within the margin if neither side varies."""
    untested = found.constant & (np.abs(found.mean) + found.half_width(1 - level) <= rule.bound) | found.equal
    return [
        replace(one, low=np.nan, high=np.nan) if unknown else one
        for one, unknown in zip(found.estimates(1 - level), untested, strict=True)
    ]


def _paired(
    made: Sequence[Comparison], now: Differences, dropped: np.ndarray, tests: int, rule: Rule
) -> Iterator[PairedComparison]:
    """The comparisons with what belongs to pairs of variants; `dropped` (pairs,): the seeds that are not used."""
    level = rule.looks.level(_alpha(tests, rule))
    smallest = detectable(now.sd, now.n, level, now.sharing) * now.tail(level)
    for i, one in enumerate(made):
        yield PairedComparison(
            **vars(one), dropped=int(dropped[i]), method=str(now.method[i]), detectable=float(smallest[i])
        )


def with_diverged(
    compared: Mapping[Key, Compared], counted: Mapping[Key, Comparison], rule: Rule
) -> dict[Key, Compared]:
    """The results. Those in `counted`, where failed runs count as runs at chance level, cover both: the interval holds
    what either shows, and the verdict is read from it. A comparison in `counted` without an interval is not known.
    """
    return {key: _covering(one, counted[key], rule) if key in counted else one for key, one in compared.items()}


def _covering(one: Compared, other: Comparison, rule: Rule) -> Compared:
    low, high = (
        float(end([getattr(each.adjusted, name) for each in (one, other)]))
        for end, name in ((np.min, "low"), (np.max, "high"))
    )
    both = replace(one.adjusted, low=low, high=high)
    p = max(one.p_adjusted, other.p_adjusted) if low > 0 or high < 0 else 1.0 if low <= 0 <= high else np.nan
    verdict = EQUAL if {one.verdict, other.verdict} == {EQUAL} else rule.verdict(both)
    early = one.decided_early and verdict in ("better", "worse")
    return replace(one, adjusted=both, p_adjusted=p, verdict=verdict, decided_early=early)


def near_chance(compared: Mapping[Key, Compared], near: Collection[Key]) -> dict[Key, Compared]:
    """The results; those that are `near` the metric of guessing on both sides are called so and not equivalent."""
    words = {"equivalent": NEAR_CHANCE, EQUAL: NEAR_CHANCE}
    fields = ("verdict", "verdict_of_finished")
    renamed = {
        key: {name: words.get(word := getattr(compared[key], name), word) for name in fields}
        for key in compared.keys() & set(near)
    }
    return {key: replace(one, **renamed.get(key, {})) for key, one in compared.items()}


def against_baseline(
    pairs: Mapping[tuple[str, str], PairedComparison], values: Values, baseline: str
) -> dict[str, PairedComparison]:
    """Of some pairs, each variant's comparison with the baseline, and the baseline's own, which has nothing tested."""
    finite = int(sum(map(np.isfinite, values[baseline].values())))
    zero = Estimate(0.0, 0.0, 0.0, finite)
    word: Verdict = "baseline"
    dropped = len(values[baseline]) - finite
    itself = PairedComparison(diff=zero, adjusted=zero, dropped=dropped, verdict=word, verdict_of_finished=word)
    return {variant: itself if variant == baseline else pairs[variant, baseline] for variant in values}


def _dropped(table: Table, here: np.ndarray, most: int | None) -> np.ndarray:
    """How many seeds the pairs `here` do not use (pairs,). `most`: only so many seeds, the first."""
    x, present, a, b = table[0][:, :most], table[1][:, :most], table[2][here], table[3][here]
    usable = np.isfinite(x[a]) & np.isfinite(x[b])
    return ((present[a] | present[b]) & ~usable).sum(axis=-1)


def _differences_at_looks(table: Table, pairs: Sequence[tuple[str, str]], rule: Rule) -> list[Differences]:
    """The differences of the pairs with the seeds of each look so far; the last are those of all seeds."""
    x, _, first, second = table
    return [differences(x[:, :n], first, second, rule.floor, rule.variance) for n in rule.looks.reached]


def _last_looks(pairs: Sequence[tuple[str, str]], looks: Looks) -> Iterator[tuple[Looks, np.ndarray]]:
    """Looks that some pairs have reached and no more, and the places of these pairs."""
    reached = [looks.of(pair) for pair in pairs]
    numbers = np.array([len(own.reached) for own in reached])
    for number in np.unique(numbers):
        here = np.flatnonzero(numbers == number)
        yield reached[here[0]], here


def estimated_differences(values: Values, pairs: Sequence[tuple[str, str]], rule: Rule) -> list[Estimate]:
    """Each pair (a, b) as a - b with the interval of the pair alone, as in `compare`."""
    at_looks, found = _differences_at_looks(_table(values, pairs), pairs, rule), dict[int, Estimate]()
    for looks, here in _last_looks(pairs, rule.looks):
        found |= zip(here.tolist(), at_looks[len(looks.reached) - 1][here].estimates(looks.confidence), strict=True)
    return [found[i] for i in range(len(pairs))]


def _table(values: Values, pairs: Iterable[tuple[str, str]]) -> Table:
    """The values (variants, seeds), whether each has a run, and the rows of both sides of each pair (pairs,)."""
    variants, seeds = list(values), list(dict.fromkeys(seed for runs in values.values() for seed in runs))
    row = {variant: i for i, variant in enumerate(variants)}
    present = np.array([[seed in values[variant] for seed in seeds] for variant in variants], dtype=bool)
    table = np.array([[values[variant].get(seed, np.nan) for seed in seeds] for variant in variants], dtype=float)
    first, second = np.array([(row[a], row[b]) for a, b in pairs], dtype=int).reshape(-1, 2).T
    return np.where(np.isfinite(table), table, np.nan), present, first, second
