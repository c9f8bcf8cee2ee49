"""Differences between variants: one interval each, and the verdict that is read from it. Arrays in, estimates out.

The rules: "Verdicts" in README.md, beside this file. An interval holds for all pairs of the family together
(Bonferroni), at the level of the look. So one within ±margin is two one-sided tests at 2.5 % for all pairs together
(Schuirmann, J. Pharmacokinetics and Biopharmaceutics 15 (1987), 657-680, at 5 %). A difference can be shown to exist
and to be smaller than the margin; the margin says what would matter, so the verdict is "equivalent".
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np

from analysis.verdicts.differences import Differences, Variance, differences
from analysis.verdicts.estimates import ALPHA, UNKNOWN, Estimate
from analysis.verdicts.looks import NO_PLAN, Looks
from analysis.verdicts.power import detectable, needed_seeds

Verdict = Literal["better", "worse", "equivalent", "both at the ceiling", "not shown", "not tested", "baseline"]
Reason = Literal[
    "waiting for a look",
    "no common seed",
    "one common seed",
    "no run",
    "one run",
    "failed runs",
    "failed runs, chance level unknown",
    "no spread over the seeds",
    "no spread over the runs",
]
CEILING: Verdict = "both at the ceiling"
"""Instead of "equivalent": each run of both variants errs on at most one image, which leaves no room."""
NOT_TESTED: Verdict = "not tested"
"""There is no interval, so nothing can be said; `Comparison.reason` says why."""
NO_SPREAD: tuple[Reason, ...] = ("no spread over the seeds", "no spread over the runs")
SHOWN: tuple[Verdict, ...] = ("better", "worse", "equivalent")
FEW_SEEDS = 5  # common seeds below which a pair with the baseline is judged as one of all pairs
Pair = tuple[int, int]  # rows of an array


@dataclass(frozen=True)
class Rule:
    """What verdicts depend on besides the values."""

    margin: float | None = 0.01  # the smallest difference that would matter, in the metric's units; None: unknown
    lower_is_better: bool = False
    has_grid: bool = False  # the plan has a grid of factors: pairs and factors are tested, and share `ALPHA`
    datasets: int = 1  # how many share `ALPHA`, where a page has the pairs of several
    looks: Looks = NO_PLAN
    """the planned looks, where the study plans any: the seeds are then those of the current look, in planned order"""
    family: Literal["all", "baseline"] = "all"
    """which pairs are compared; of those with the baseline, one with fewer than `FEW_SEEDS` common seeds has the level
    of all pairs, since its level does not hold otherwise"""
    variance: Variance = "shared"  # where standard errors come from, and whether runs are paired by their seed
    ceiling: float = np.inf  # a variant whose values all reach it has no room above it

    @property
    def families(self) -> int:
        """How many families of tests share `ALPHA` equally."""
        return self.datasets * (2 if self.has_grid else 1)

    @property
    def unit(self) -> str:
        """What the values of a variant are counted by: "seed" or, where runs are not paired by it, "run"."""
        return "run" if self.variance == "unpaired" else "seed"

    @property
    def bound(self) -> float:
        """The margin; NaN where it is not known, within which nothing is shown to lie."""
        return np.nan if self.margin is None else self.margin

    def verdict(self, interval: Estimate) -> Verdict:
        """What an interval shows: nothing where it is unknown."""
        if np.isnan(interval.low):
            return NOT_TESTED
        if -self.bound <= interval.low and interval.high <= self.bound:
            return "equivalent"
        if interval.excludes_zero:
            return "better" if (interval.low > 0) != self.lower_is_better else "worse"
        return "not shown"


@dataclass(frozen=True)
class Noise:
    """How a difference varies: the standard deviation of one difference, the level of the last look, and the degrees of
    freedom, as in `power`.
    """

    sd: float = np.nan
    level: float = np.nan
    df: float = np.nan


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One variant minus another, over the seeds that both have, or of unpaired runs. What these cannot tell is NaN."""

    diff: Estimate  # mean difference of the finished runs with the interval of this pair alone, at the look's level
    adjusted: Estimate = UNKNOWN
    """mean difference with the interval that holds for all pairs together, of which the verdict is read. It also covers
    what the runs show where failed runs count at chance level"""
    p: float = np.nan  # two-sided t test of no difference at this look
    p_adjusted: float = np.nan
    """`p`, adjusted over the family and the looks: at most `ALPHA` where `adjusted` leaves zero out"""
    verdict: Verdict  # what holds for the finished runs, and also where failed runs count as runs at chance level
    verdict_of_finished: Verdict  # what the finished runs alone show
    reason: Reason | None = None  # why it is not tested
    decided_early: bool = False  # a planned look before the last one shows it: such a mean is too large on average
    shown_at: int | None = None  # seeds of an earlier look that showed what this one does not show
    dropped: int  # seeds that only one side has, or on which a side failed; of unpaired runs, those that failed
    runs: tuple[int, int] = (0, 0)  # of each side that are used
    detectable: float = np.nan
    """the true difference that these seeds show with 80 % power, by the observed spread; unknown where failed runs make
    the interval wider"""
    noise: Noise = Noise()

    @property
    def depends_on_failed(self) -> bool:
        """Whether the finished runs alone show what does not hold where failed runs count at chance level."""
        return self.verdict != self.verdict_of_finished

    @property
    def tested(self) -> bool:
        """Whether there is an interval, of which the verdict is read."""
        return self.verdict != "baseline" and not np.isnan(self.adjusted.low)

    @property
    def at_most(self) -> float:
        """The largest size that the true difference may have, with all other pairs; NaN where there is no interval."""
        return float(np.max(np.abs([self.adjusted.low, self.adjusted.high])))

    @property
    def n(self) -> int:
        """Seeds used: those with a finite value on both sides; of unpaired runs, the smaller number of both sides."""
        return self.diff.n

    def needed(self, size: float) -> float:
        """The seeds that show a true difference of this size with 80 % power at the last look, by the observed spread;
        not rounded.
        """
        return float(needed_seeds(size, self.noise.sd, self.n, self.noise.level, self.noise.df))

    @property
    def reversed(self) -> Self:
        """The second variant minus the first."""
        turned = {"better": "worse", "worse": "better"}
        verdicts = {name: turned.get(word := getattr(self, name), word) for name in ("verdict", "verdict_of_finished")}
        return replace(self, diff=-self.diff, adjusted=-self.adjusted, runs=self.runs[::-1], **verdicts)


def compare(
    x: np.ndarray,
    pairs: Sequence[Pair],
    rule: Rule,
    ended: np.ndarray | None = None,
    failed: np.ndarray | None = None,
    chance: np.ndarray | None = None,
) -> list[Comparison]:
    """Each pair (a, b) of rows of x as a - b; these pairs are the family, also those that lost their runs.

    `x`: values (variants, seeds), or of unpaired runs, NaN where there is none; with planned looks, the seeds of this
    look in their order. `ended`: which runs have ended, by default those with a value. `failed`: which of them failed;
    they count as `chance` (variants,). Where that is NaN for one of them, no variant with failed runs is tested.
    """
    if not pairs:
        return []
    x = np.where(np.isfinite(x), x, np.nan)
    ended = np.isfinite(x) if ended is None else ended
    compared = _of_values(x, ended, pairs, rule)
    if failed is not None and chance is not None and failed.any():
        lost = np.any(failed, axis=1, keepdims=False)
        known, counted = np.isfinite(chance[lost]).all(), np.where(failed, chance[:, None], x)
        for i, other in enumerate(_of_values(counted, ended, pairs, rule)):
            if lost[[*pairs[i]]].any():
                unknown = without_test(other, "failed runs, chance level unknown")
                compared[i] = covering(compared[i], other if known else unknown, rule)
    least = np.where(np.isfinite(x), x, np.inf).min(axis=1, initial=np.inf)
    full = np.isfinite(least) & (least >= rule.ceiling)
    return [
        at_ceiling(comparison) if full[a] and full[b] else comparison
        for comparison, (a, b) in zip(compared, pairs, strict=True)
    ]


def _of_values(x: np.ndarray, ended: np.ndarray, pairs: Sequence[Pair], rule: Rule) -> list[Comparison]:
    first, second = np.array(pairs, dtype=int).T
    at_looks = [differences(x[:, :seeds], first, second, rule.variance) for seeds in rule.looks.reached]
    n, sides = at_looks[-1].n, [ended[side] for side in (first, second)]
    runs, dropped = [n, n], np.logical_or(*sides).sum(axis=-1) - n
    if rule.variance == "unpaired":  # no looks are planned
        runs = [np.isfinite(x[side]).sum(axis=-1) for side in (first, second)]
        dropped = np.add(*sides, dtype=int).sum(axis=-1) - np.add(*runs)
    most = max(len(pairs), math.comb(len(x), 2)) if rule.family == "baseline" else len(pairs)
    counts = np.array([*runs, dropped, np.logical_and(*sides).sum(axis=-1)])
    return _judge(at_looks, counts, (len(pairs), most), rule)


def _judge(at_looks: Sequence[Differences], counts: np.ndarray, tests: tuple[int, int], rule: Rule) -> list[Comparison]:
    """The comparisons of pairs of one study with these differences at each look so far.

    `counts` (4, pairs): the runs of both sides that are used, those dropped, and the seeds of which both have a run,
    failed or not. `tests`: that share the level of a pair, and that of a pair with few seeds.
    """
    *earlier, now = at_looks
    looks = rule.looks
    alphas = [ALPHA / (rule.families * np.where(at.n < FEW_SEEDS, tests[1], tests[0])) for at in at_looks]
    levels = [share * alpha for alpha, share in zip(alphas, looks.shares)]
    level = levels[-1]
    adjusted, alone = _intervals(now, level, rule), now.estimates(looks.confidence)
    p = np.where(np.isnan([interval.low for interval in adjusted]), np.nan, now.t_test())
    p_adjusted = np.minimum(p * ALPHA / level, 1.0)
    sd, at_last = now.error * np.sqrt(now.n), looks.shares[-1] * alphas[-1]
    smallest = detectable(sd, now.n, level, now.df)
    before = [(n, _intervals(at, of_look, rule)) for n, at, of_look in zip(looks.reached, earlier, levels)]
    compared = []
    for i, interval in enumerate(adjusted):
        verdict = rule.verdict(interval)
        past = [n for n, intervals in before if rule.verdict(intervals[i]) in SHOWN]
        comparison = Comparison(
            diff=alone[i],
            adjusted=interval,
            p=float(p[i]),
            p_adjusted=float(p_adjusted[i]),
            verdict=verdict,
            verdict_of_finished=verdict,
            decided_early=looks.next is not None and verdict in ("better", "worse"),
            shown_at=past[-1] if past and verdict == "not shown" else None,
            runs=(int(counts[0, i]), int(counts[1, i])),
            dropped=int(counts[2, i]),
            detectable=float(smallest[i]),
            noise=Noise(float(sd[i]), float(at_last[i]), float(now.df[i])),
        )
        if verdict == NOT_TESTED:
            comparison = without_test(comparison, _reason(comparison.n, int(counts[3, i]), rule))
        compared.append(comparison)
    return compared


def _reason(n: int, both: int, rule: Rule) -> Reason:
    """Why a pair with `n` common seeds has no interval; of `both` seeds, both sides have a run."""
    if rule.looks.waiting:
        return "waiting for a look"
    if n < 2 and both > n:
        return "failed runs"
    if rule.variance == "unpaired":
        return "no spread over the runs" if n > 1 else "one run" if n else "no run"
    return "no spread over the seeds" if n > 1 else "one common seed" if n else "no common seed"


def without_test(comparison: Comparison, reason: Reason) -> Comparison:
    """The comparison without its test: the mean difference stays, and what the finished runs alone show."""
    blank: dict[str, Any] = {
        name: replace(getattr(comparison, name), low=np.nan, high=np.nan) for name in ("diff", "adjusted")
    }
    blank |= dict.fromkeys(("p", "p_adjusted", "detectable"), np.nan)
    blank |= {"decided_early": False, "shown_at": None}
    return replace(comparison, verdict=NOT_TESTED, reason=reason, **blank)


def _intervals(at_look: Differences, level: np.ndarray, rule: Rule) -> list[Estimate]:
    """The intervals at 1 - level (pairs,); unknown where there is no spread, at zero and within the margin: a rare
    failure may be missed, so it is no evidence of equivalence.
    """
    within = np.abs(at_look.mean) + at_look.half_width(1 - level) <= rule.bound
    untested = at_look.constant & (within | (at_look.mean == 0))
    return [
        replace(interval, low=np.nan, high=np.nan) if unknown else interval
        for interval, unknown in zip(at_look.estimates(1 - level), untested, strict=True)
    ]


def covering(comparison: Comparison, other: Comparison, rule: Rule) -> Comparison:
    """The comparison, whose interval also holds what `other` shows, where failed runs count as runs at chance level,
    and from which the verdict is read. Where one of them is not tested, neither is the result.
    """
    if not (comparison.tested and other.tested):
        return without_test(comparison, comparison.reason or other.reason or "failed runs")
    both = comparison.adjusted.covering(other.adjusted)
    p = max(comparison.p_adjusted, other.p_adjusted) if both.excludes_zero else 1.0
    verdict = rule.verdict(both)
    early = comparison.decided_early and verdict in ("better", "worse")
    covered = replace(comparison, adjusted=both, p_adjusted=p, verdict=verdict, decided_early=early)
    return covered if both == comparison.adjusted else replace(covered, detectable=np.nan, noise=Noise())


def at_ceiling(comparison: Comparison) -> Comparison:
    """The comparison of two variants at the ceiling: called so, and not equivalent.

    If every run has finished, it is not called "not shown" either: more seeds show no more.
    """

    def named(verdict: Verdict) -> Verdict:
        unclear = verdict == "not shown" and not comparison.dropped
        equal = verdict == NOT_TESTED and comparison.reason in NO_SPREAD
        return CEILING if unclear or equal or verdict == "equivalent" else verdict

    verdict, finished = named(comparison.verdict), named(comparison.verdict_of_finished)
    reason = None if verdict == CEILING else comparison.reason
    return replace(comparison, verdict=verdict, verdict_of_finished=finished, reason=reason)


def of_baseline(values: np.ndarray) -> Comparison:
    """The baseline's comparison with itself, in which nothing is tested, from its values, NaN where a run failed."""
    zero = Estimate(0.0, 0.0, 0.0, int(np.isfinite(values).sum()))
    dropped = len(values) - zero.n
    return Comparison(diff=zero, adjusted=zero, dropped=dropped, verdict="baseline", verdict_of_finished="baseline")
