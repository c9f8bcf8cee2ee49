"""Differences between variants, paired by seed, and their verdicts. Arrays in, estimates out.

How a verdict is reached for a family of m pairs at level `ALPHA` and a margin that is stated before the runs:

1. "equivalent": two one-sided t tests show that the difference lies within ±margin.
2. "better" or "worse": the two-sided t test shows that the difference is not zero.
3. "not enough evidence" otherwise. This does not mean "no difference".

A difference can be shown to exist and to be smaller than the margin. Its verdict is "equivalent", because the margin
says what would matter; `p_holm` and `diff` still show the difference. The tests of differences and those of
equivalence are two families, each adjusted by Holm's method: false differences occur in at most alpha of all studies,
and so do false equivalences.

`diff` has the interval of the single comparison. `adjusted` has one that never contradicts the verdict: it holds for
all pairs of the family together (Bonferroni), and is cut at zero, or at the margin, where the verdict says more, since
Holm's method finds more differences than such intervals show. No interval that is informative can follow Holm's method
exactly (Strassburger and Bretz, Statistics in Medicine 27 (2008), 4914-4927), so a cut interval could
make the rate of studies with a miss exceed alpha; `tests/analysis/stats/test_families.py` finds no such case.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from analysis.stats.differences import Differences, Variance, correlation, differences
from analysis.stats.estimates import ALPHA, UNKNOWN, Estimate, estimates, moments
from analysis.stats.looks import NO_PLAN, Looks, median_unbiased
from analysis.stats.power import detectable

Verdict = Literal[
    "better", "worse", "equivalent", "equal on all seeds", "both near chance", "not enough evidence", "baseline"
]
EQUAL: Verdict = "equal on all seeds"
"""Of two variants that do not vary over the seeds.

What fails rarely may not have failed yet, so it is no equivalence.
"""
NEAR_CHANCE: Verdict = "both near chance"
"""Instead of "equivalent" or `EQUAL`: two variants that learned nothing say nothing about what they vary."""
Values = Mapping[str, Mapping[int, float]]
"""variant -> seed -> the metric's value, not finite where the run diverged"""
Table = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""see `_table`"""
Key = TypeVar("Key", bound=Hashable)
Compared = TypeVar("Compared", bound="Decided")
Variant = TypeVar("Variant", bound=Hashable)


@dataclass(frozen=True)
class Rule:
    """What verdicts depend on besides the values."""

    margin: float | None = 0.01
    """the smallest difference that would matter, in the metric's units; None where that is not known"""
    lower_is_better: bool = False
    floor: float = 0.0
    """the smallest standard deviation of differences (see `estimates`)"""
    families: int = 1
    """how many families of tests of differences share `ALPHA` equally; their adjusted p-values are multiplied by it"""
    looks: Looks = NO_PLAN
    """the planned looks, where the study plans any: the seeds are then those of the current look, in the planned order;
    variants that stopped have fewer"""
    variance: Variance = "shared"
    """whether standard errors share what all variants tell about their spread, where there are enough of them"""

    @property
    def bound(self) -> float:
        """The margin; NaN where it is not known, within which nothing is shown to lie."""
        return np.nan if self.margin is None else self.margin

    def verdict(self, sign: float, equal: bool = False) -> Verdict:
        """The verdict in words; `sign` as in `verdicts`, `equal` as in `Differences`."""
        if equal:
            return EQUAL
        if np.isnan(sign):
            return "not enough evidence"
        if sign == 0:
            return "equivalent"
        return "better" if (sign > 0) != self.lower_is_better else "worse"


@dataclass(frozen=True, kw_only=True)
class Decided:
    """What the finished runs show, and whether that changes where diverged runs count as runs at chance level."""

    verdict: str
    verdict_with_diverged: str | None = None
    """the verdict if diverged runs count; None where that is the same in any case"""

    @property
    def depends_on_diverged(self) -> bool:
        """Whether the verdict is another one if diverged runs count as runs at chance level."""
        return self.verdict_with_diverged not in (None, self.verdict)


@dataclass(frozen=True, kw_only=True)
class Comparison(Decided):
    """One variant minus another. What so few seeds cannot tell is NaN."""

    verdict: Verdict

    diff: Estimate
    """mean difference with its Student t interval, wider where several looks share `ALPHA`"""
    adjusted: Estimate = UNKNOWN
    """mean difference with an interval that holds for all pairs together and agrees with the verdict"""
    p: float = np.nan
    """two-sided t test of no difference"""
    p_holm: float = np.nan
    """`p`, adjusted over the family"""
    decided_early: bool = False
    """whether this planned look, not the last one, shows it first: such a mean is too large on average"""
    median_unbiased: float = np.nan
    """then the estimate that accounts for the looks before (see `stats.looks`); NaN at the first look"""

    @property
    def from_earlier_look(self) -> bool:
        """Whether an earlier planned look showed this difference, and the data of this look alone would not.

        An adjusted p-value is never smaller than the test of its own look, which the interval inverts.
        """
        return self.verdict in ("better", "worse") and self.diff.low <= 0 <= self.diff.high

    @property
    def n(self) -> int:
        """Seeds used: those with a finite value on both sides."""
        return self.diff.n


@dataclass(frozen=True, kw_only=True)
class PairedComparison(Comparison):
    """One variant minus another, seed by seed."""

    dropped: int
    """seeds that only one side has, or on which a side diverged"""
    tost_p: float = np.nan
    """two one-sided tests: p-value of a difference of a margin or more"""
    tost_p_holm: float = np.nan
    """`tost_p`, adjusted over the family"""
    seed_correlation: float = np.nan
    """correlation between the two variants over the seeds: the closer to 1, the more pairing reduces the error"""
    variance: Variance = "paired"
    """where the standard error comes from"""
    variance_ratio: float = np.nan
    """the variance of the differences relative to the sum of both variances: below 1 where pairing by seed reduces
    the error
    """
    detectable: float = np.nan
    """the smallest true difference that these seeds find with 80 % power at the family's strictest level"""


def compare(values: Values, pairs: Sequence[tuple[str, str]], rule: Rule) -> dict[tuple[str, str], PairedComparison]:
    """Each pair (a, b) as a - b; these pairs are the family."""
    if not pairs:
        return {}
    table, compared = _table(values, pairs), dict[tuple[str, str], PairedComparison]()
    at_looks = _differences_at_looks(table, pairs, rule)
    p_holm, q_holm, signs = verdicts(at_looks, rule)
    strictest = single_step_level(p_holm, rule)
    for looks, here in _last_looks(pairs, rule.looks):
        family = zip(p_holm[here].tolist(), q_holm[here].tolist(), signs[here].tolist(), strict=True)
        own = [at[here] for at in at_looks[: len(looks.reached)]]
        sides = _sides(table, here, looks.reached[-1])
        made = _compared(sides, own, list(family), strictest, replace(rule, looks=looks))
        compared |= dict(zip([pairs[i] for i in here], made, strict=True))
    return {pair: compared[pair] for pair in pairs}


def _compared(
    sides: tuple[np.ndarray, np.ndarray, np.ndarray],
    at_looks: Sequence[Differences],
    family: Sequence[tuple[float, float, float]],
    strictest: float,
    rule: Rule,
) -> Iterator[PairedComparison]:
    """The comparisons of pairs with the differences `at_looks`, the last those of `rule`; `sides`: see `_sides`.

    `family`: what `verdicts` says of each. `strictest`: the level of the first step of its adjustment.
    """
    (a, b, dropped), (*earlier, now), looks = sides, at_looks, rule.looks
    level = rule.looks.level(strictest)
    smallest = detectable(now.sd, now.n, level, now.sharing) * now.tail(level)
    intervals, half = now.estimates(rule.looks.confidence), now.half_width(1 - level)
    signs = np.array([sign for *_, sign in family])
    adjusted = estimates(now.mean, *agreeing(now.mean, half, signs, rule), now.n)
    p, q, over_seeds = now.t_test(), now.tost(rule.bound), correlation(a, b)
    spread_of_pair, *spreads = (np.nan_to_num(moments(side)[1]) ** 2 for side in (a - b, a, b))
    ratio = np.divide(spread_of_pair, sum(spreads), out=np.full(len(family), np.nan), where=sum(spreads) > 0)
    before = looks.smallest_p([at.t_test() for at in earlier])[0] <= strictest if earlier else np.zeros(len(p), bool)
    for i, (p_holm, q_holm, sign) in enumerate(family):
        verdict = rule.verdict(sign, bool(now.equal[i]))
        early = looks.next is not None and verdict in ("better", "worse") and not before[i]
        unbiased = np.nan
        if early and earlier:
            unbiased = float(now.mean[i]) * median_unbiased(float(p[i]), len(earlier), looks.plan, strictest)
        yield PairedComparison(
            diff=intervals[i],
            adjusted=adjusted[i],
            p=float(p[i]),
            p_holm=p_holm,
            verdict=verdict,
            decided_early=early,
            median_unbiased=unbiased,
            dropped=int(dropped[i]),
            tost_p=float(q[i]),
            tost_p_holm=q_holm,
            seed_correlation=float(over_seeds[i]),
            variance=now.variance,
            variance_ratio=float(ratio[i]),
            detectable=float(smallest[i]),
        )


def single_step_level(p: np.ndarray, rule: Rule) -> float:
    """The level of each test of a family with these p-values, NaN where there is no test, by Bonferroni."""
    return ALPHA / (rule.families * max(int(np.isfinite(p).sum()), 1))


def agreeing(mean: np.ndarray, half: np.ndarray, sign: np.ndarray, rule: Rule) -> tuple[np.ndarray, np.ndarray]:
    """Ends of intervals mean ± half (..., family), cut where the verdict says more; `sign` as in `verdicts`.

    Not cut where the mean contradicts the verdict, which an earlier look can have reached.
    """
    least = np.select([sign == 1, sign == 0], [0.0, -rule.bound], -np.inf)
    most = np.select([sign == -1, sign == 0], [0.0, rule.bound], np.inf)
    agrees = (least <= mean) & (mean <= most)
    ends = mean - half, mean + half
    low, high = (np.where(agrees, np.clip(end, least, most), end) for end in ends)
    return low, high


def with_diverged(
    compared: Mapping[Key, Compared], counted: Mapping[Key, Decided], unknown: Collection[Key] = ()
) -> dict[Key, Compared]:
    """The results, each with its verdict in `counted`, where diverged runs count as runs at chance level.

    No verdict stands on the finished runs alone for those where that level is `unknown`.
    """
    verdicts = {key: "not enough evidence" if key in unknown else counted[key].verdict for key in compared}
    return {key: replace(comparison, verdict_with_diverged=verdicts[key]) for key, comparison in compared.items()}


def near_chance(compared: Mapping[Key, Compared], near: Collection[Key]) -> dict[Key, Compared]:
    """The results; those that are `near` the metric of guessing on both sides are called so and not equivalent."""
    words = {"equivalent": NEAR_CHANCE, EQUAL: NEAR_CHANCE}
    fields = ("verdict", "verdict_with_diverged")
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
    itself = PairedComparison(diff=zero, adjusted=zero, verdict="baseline", dropped=len(values[baseline]) - finite)
    return {variant: itself if variant == baseline else pairs[variant, baseline] for variant in values}


def _sides(table: Table, here: np.ndarray, most: int | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Both sides of the pairs `here` (pairs, seeds), NaN where either is not finite; the seeds dropped (pairs,).

    `most`: only so many seeds, the first.
    """
    x, present, a, b = table[0][:, :most], table[1][:, :most], table[2][here], table[3][here]
    usable = np.isfinite(x[a]) & np.isfinite(x[b])
    dropped = ((present[a] | present[b]) & ~usable).sum(axis=-1)
    return np.where(usable, x[a], np.nan), np.where(usable, x[b], np.nan), dropped


def differences_at_looks(
    values: Mapping[Variant, Mapping[int, float]], pairs: Sequence[tuple[Variant, Variant]], rule: Rule
) -> list[Differences]:
    """The differences of the pairs with the seeds of each look so far; the last are those of all seeds.

    A pair has no test at looks that a side has not reached: an error of NaN.
    """
    return _differences_at_looks(_table(values, pairs), pairs, rule)


def _differences_at_looks(table: Table, pairs: Sequence[tuple[Variant, Variant]], rule: Rule) -> list[Differences]:
    x, _, first, second = table
    at_looks = [differences(x[:, :n], first, second, rule.floor, rule.variance) for n in rule.looks.reached]
    for looks, here in _last_looks(pairs, rule.looks):
        for later in at_looks[len(looks.reached) :]:
            later.error[..., here] = np.nan
    return at_looks


def _last_looks(pairs: Sequence[tuple[Variant, Variant]], looks: Looks) -> Iterator[tuple[Looks, np.ndarray]]:
    """Looks that some pairs have reached and no more, and the places of these pairs."""
    reached = [looks.of(map(str, pair)) for pair in pairs]
    numbers = np.array([len(own.reached) for own in reached])
    for number in np.unique(numbers):
        here = np.flatnonzero(numbers == number)
        yield reached[here[0]], here


def estimated_differences(values: Values, pairs: Sequence[tuple[str, str]], rule: Rule) -> list[Estimate]:
    """Each pair (a, b) as a - b with its interval, as in `compare`."""
    at_looks, found = differences_at_looks(values, pairs, rule), dict[int, Estimate]()
    for looks, here in _last_looks(pairs, rule.looks):
        found |= zip(here.tolist(), at_looks[len(looks.reached) - 1][here].estimates(looks.confidence), strict=True)
    return [found[i] for i in range(len(pairs))]


def verdicts(at_looks: Sequence[Differences], rule: Rule) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Adjusted p of a difference, adjusted p of equivalence, and the verdict, of a family (..., family) at each look.

    p-values are for all looks so far. The verdict is 1: above zero, -1: below, 0: equivalent (which takes precedence),
    NaN: not enough evidence. The sign is that of the look that shows the difference best.
    """
    p, best = rule.looks.smallest_p([found.t_test() for found in at_looks])
    q, _ = rule.looks.smallest_p([found.tost(rule.bound) for found in at_looks])
    means = np.stack([found.mean for found in at_looks])
    p_holm, q_holm = np.minimum(rule.families * holm(p), 1.0), holm(q)
    sign = np.where(p_holm <= ALPHA, np.sign(np.take_along_axis(means, best[None], axis=0)[0]), np.nan)
    return p_holm, q_holm, np.where(q_holm <= ALPHA, 0.0, sign)


def holm(p: ArrayLike, weights: ArrayLike = 1.0) -> np.ndarray:
    """Holm's step-down adjustment along the last axis of p (..., family). NaN, not tested, stays and does not count.

    A test with twice the weight has twice the share of the level. Source: Holm, Scandinavian J. Statistics 6 (1979),
    65-70.
    """
    p = np.asarray(p, dtype=float)
    weights = np.broadcast_to(np.asarray(weights, dtype=float), p.shape)
    order = np.argsort(p / weights, axis=-1)  # NaN last
    ordered = np.take_along_axis(np.where(np.isnan(p), 0.0, weights), order, axis=-1)
    left = np.flip(np.cumsum(np.flip(ordered, axis=-1), axis=-1), axis=-1)
    return _step_down(p, order, left / np.take_along_axis(weights, order, axis=-1))


def holm_exclusive(p: ArrayLike, q: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Adjust p and q (..., family) together, where of the two null hypotheses of a place at most one is true.

    For example "no difference" (p) and "a difference of a margin or more" (q). Among m places at most m null hypotheses
    are true, so Holm's factor starts at m instead of 2 m, and falls by one for each place whose hypotheses are both
    rejected. All false rejections together, of either kind, occur in at most alpha of all families.
    Source: Shaffer, J. American Statistical Association 81 (1986), 826-831.
    """
    both = np.concatenate([np.asarray(p, dtype=float), np.asarray(q, dtype=float)], axis=-1)
    places = both.shape[-1] // 2
    order = np.argsort(both, axis=-1)
    rank = np.argsort(order, axis=-1)
    # where a place's last hypothesis stands; a q that was not tested does not count
    complete = np.where(
        np.isnan(both[..., places:]), rank[..., :places], np.maximum(rank[..., :places], rank[..., places:])
    )
    settled = np.zeros(both.shape, dtype=int)
    np.put_along_axis(settled, complete, 1, axis=-1)
    before = np.cumsum(settled, axis=-1) - settled
    tested = np.isfinite(both[..., :places]).sum(axis=-1, keepdims=True)
    adjusted = _step_down(both, order, tested - before)
    return adjusted[..., :places], adjusted[..., places:]


def _step_down(p: np.ndarray, order: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """p times the factor of its step (both in the order of the steps), at most 1 and never falling along the steps."""
    stepped = np.maximum.accumulate(np.take_along_axis(p, order, axis=-1) * np.maximum(factor, 1), axis=-1)
    adjusted = np.empty_like(p)
    np.put_along_axis(adjusted, order, np.minimum(stepped, 1.0), axis=-1)
    return adjusted


def _table(values: Mapping[Variant, Mapping[int, float]], pairs: Iterable[tuple[Variant, Variant]]) -> Table:
    """The values (variants, seeds), whether each has a run, and the rows of both sides of each pair (pairs,)."""
    variants, seeds = list(values), list(dict.fromkeys(seed for runs in values.values() for seed in runs))
    row = {variant: i for i, variant in enumerate(variants)}
    present = np.array([[seed in values[variant] for seed in seeds] for variant in variants], dtype=bool)
    table = np.array([[values[variant].get(seed, np.nan) for seed in seeds] for variant in variants], dtype=float)
    first, second = np.array([(row[a], row[b]) for a, b in pairs], dtype=int).reshape(-1, 2).T
    return np.where(np.isfinite(table), table, np.nan), present, first, second
