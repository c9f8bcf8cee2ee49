"""Differences between variants, paired by seed, and what may be said of them. Arrays in, estimates out; no I/O.

How a verdict is reached, for a family of m comparisons at level alpha and a margin stated before the runs were made:

1. "equivalent": two one-sided t tests, Holm-adjusted over the family, place the difference within ±margin;
2. "better" or "worse": the paired two-sided t test, Holm-adjusted over the family, tells it from zero;
3. "not enough evidence" otherwise. It is never "no difference".

A difference can be both reliably there and reliably smaller than the margin. It is called equivalent then, because the
margin is what the study said beforehand would matter; `p_holm` and `diff` still show the difference. Thus each kind of
false word ("better" or "worse" of no difference; "equivalent" of a difference of a margin or more) comes up in at most
alpha of all families. Intervals are those of the single comparison, not adjusted; the verdicts are.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from analysis.stats.estimates import Estimate, moments, t_interval
from analysis.stats.holm import holm
from analysis.stats.power import detectable, seeds_to_decide
from experiments.errors import UserError

Verdict = Literal["better", "worse", "equivalent", "not enough evidence", "baseline"]
Variant = TypeVar("Variant", bound=Hashable)


@dataclass(frozen=True)
class Comparison:
    """One variant less another, seed by seed. What cannot be had from so few seeds is NaN."""

    diff: Estimate
    """mean difference with its Student t interval"""
    n: int
    """seeds used: those with a finite value on both sides"""
    dropped: int
    """seeds that only one side has, or on which a side diverged; the rest says nothing about those"""
    effect: float
    """mean over deviation of the differences (Cohen's d_z), with Hedges' correction (three seeds or more)"""
    p: float
    """two-sided paired t test of no difference"""
    p_holm: float
    """the same, adjusted over the family"""
    improvement: Estimate
    """probability that the variant beats the other on the same seed"""
    tost_p: float
    """two one-sided tests: the p-value of a difference of a margin or more"""
    equivalence: Estimate
    """the 1 - 2 alpha interval: within ±margin exactly where `tost_p` < alpha"""
    verdict: Verdict
    detectable: float
    """the smallest difference that these seeds find at 80 % power, at the family's strictest level, alpha / m"""
    seeds_needed: int | None
    """seeds in all for a verdict at 80 % power and alpha / m, should the observed values be the true ones: `n` where
    there is one already, None where no practical number would do or the spread is unknown"""
    tost_p_holm: float = float("nan")
    """`tost_p`, adjusted over the family"""


def compare(
    values: Mapping[str, Mapping[int, float]],
    baseline: str,
    margin: float = 0.01,
    alpha: float = 0.05,
    lower_is_better: bool = False,
) -> dict[str, Comparison]:
    """Every variant against the baseline; the other variants are the family.

    `values` is variant -> seed -> the metric's value, not finite where the run diverged; `margin` is in the metric's
    units. Raises `UserError` where the baseline is not among the variants or the margin or level makes no sense.
    """
    if baseline not in values:
        raise UserError(f"baseline: {baseline!r} is not among the variants: {', '.join(map(repr, values))}")
    pairs = [(variant, baseline) for variant in values if variant != baseline]
    family = iter(_compare(values, pairs, margin, alpha, lower_is_better))
    return {variant: _baseline(values[variant]) if variant == baseline else next(family) for variant in values}


def compare_all(
    values: Mapping[str, Mapping[int, float]], margin: float = 0.01, alpha: float = 0.05, lower_is_better: bool = False
) -> dict[tuple[str, str], Comparison]:
    """Every pair (a, b) in the variants' order, as a less b; all pairs are one family. Otherwise as `compare`."""
    pairs = list(combinations(values, 2))
    return dict(zip(pairs, _compare(values, pairs, margin, alpha, lower_is_better)))


def paired(
    values: Mapping[Variant, Mapping[int, float]], pairs: Iterable[tuple[Variant, Variant]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Both sides of each pair (pairs, seeds), NaN where either lacks a finite value; and the seeds dropped (pairs,)."""
    variants, seeds = list(values), list(dict.fromkeys(seed for runs in values.values() for seed in runs))
    row = {variant: i for i, variant in enumerate(variants)}
    present = np.array([[seed in values[variant] for seed in seeds] for variant in variants], dtype=bool)
    table = np.array([[values[variant].get(seed, np.nan) for seed in seeds] for variant in variants], dtype=float)
    first, second = np.array([(row[a], row[b]) for a, b in pairs], dtype=int).reshape(-1, 2).T
    usable = np.isfinite(table[first]) & np.isfinite(table[second])
    dropped = ((present[first] | present[second]) & ~usable).sum(axis=-1)
    return np.where(usable, table[first], np.nan), np.where(usable, table[second], np.nan), dropped


def t_test(diffs: ArrayLike, null: float = 0.0, side: Literal["two", "above", "below"] = "two") -> np.ndarray:
    """p-values of Student's test that diffs (..., seeds) have mean `null`, against another, a higher or a lower one.

    NaN where the spread is not known (see `moments`). Three or more equal differences are the limit of a spread that
    vanishes: p is 0 on the side where they lie, and 1 for a difference of exactly `null`.
    """
    t, df = _t(diffs, null)
    if side == "two":
        return 2 * special.stdtr(df, -np.abs(t))
    return special.stdtr(df, -t if side == "above" else t)


def tost(diffs: ArrayLike, margin: float) -> np.ndarray:
    """p-values of two one-sided t tests that the mean of diffs (..., seeds) lies within ±margin; small means equivalent.

    Source: Schuirmann, J. Pharmacokinetics and Biopharmaceutics 15 (1987), 657-680.
    """
    return np.maximum(t_test(diffs, -margin, "above"), t_test(diffs, margin, "below"))


def improvement(a: ArrayLike, b: ArrayLike, level: float = 0.95, lower_is_better: bool = False) -> Estimate:
    """Probability that a (seeds,) beats b (seeds,) on the same seed, a tie counting half.

    Its interval is Clopper and Pearson's, which never covers less often than stated; it is wide for few seeds because
    few seeds say little.
    """
    gain = np.asarray(a, dtype=float) - np.asarray(b, dtype=float)
    return _improvement(np.atleast_2d(-gain if lower_is_better else gain), level)[0]


def verdicts(diffs: np.ndarray, margin: float, alpha: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Holm-adjusted p of a difference, the same of equivalence, and the verdict, for diffs (..., family, seeds).

    The verdict is 1: above zero, -1: below, 0: equivalent (which takes precedence), NaN: not enough evidence.
    """
    p, p_equivalent = holm(t_test(diffs)), holm(tost(diffs, margin))
    sign = np.where(p <= alpha, np.sign(moments(diffs)[0]), np.nan)
    return p, p_equivalent, np.where(p_equivalent <= alpha, 0.0, sign)


def _compare(
    values: Mapping, pairs: list[tuple[str, str]], margin: float, alpha: float, lower_is_better: bool
) -> list[Comparison]:
    if not (np.isfinite(margin) and margin > 0):
        raise UserError(f"margin: {margin!r} is not a positive number; it is the smallest difference that would matter")
    if not 0 < alpha < 0.5:
        raise UserError(f"alpha: {alpha!r} is not between 0 and 0.5")
    if not pairs:
        return []
    a, b, dropped = paired(values, pairs)
    diffs = a - b
    p_holm, equivalent_holm, signs = verdicts(diffs, margin, alpha)
    centre, spread, n = moments(diffs)
    error = spread / np.sqrt(np.maximum(n, 1))
    strictest = alpha / max(int(np.isfinite(p_holm).sum()), 1)
    more = seeds_to_decide(spread, centre, margin, strictest, least=np.maximum(n + 1, 2))
    up, down = ("worse", "better") if lower_is_better else ("better", "worse")
    words = {1.0: up, -1.0: down, 0.0: "equivalent"}
    columns = zip(
        _estimates(centre, *t_interval(centre, error, n - 1), n),
        dropped.tolist(),
        _hedges(centre, spread, n).tolist(),
        t_test(diffs).tolist(),
        p_holm.tolist(),
        _improvement(-diffs if lower_is_better else diffs, 0.95),
        tost(diffs, margin).tolist(),
        _estimates(centre, *t_interval(centre, error, n - 1, 1 - 2 * alpha), n),
        [words.get(sign, "not enough evidence") for sign in signs.tolist()],
        [detectable(s, k, strictest) for s, k in zip(spread.tolist(), n.tolist())],
        [m if np.isnan(sign) else k for m, sign, k in zip(more, signs.tolist(), n.tolist())],
        equivalent_holm.tolist(),
    )
    return [Comparison(diff, diff.n, *rest) for diff, *rest in columns]


def _baseline(runs: Mapping[int, float]) -> Comparison:
    """The baseline beside itself: no difference, nothing tested."""
    n, nan = int(np.isfinite(np.array(list(runs.values()), dtype=float)).sum()), float("nan")
    nothing = Estimate(0.0, 0.0, 0.0, n)
    return Comparison(
        diff=nothing,
        n=n,
        dropped=len(runs) - n,
        effect=0.0,
        p=nan,
        p_holm=nan,
        improvement=Estimate(0.5, nan, nan, n),
        tost_p=nan,
        equivalence=nothing,
        verdict="baseline",
        detectable=nan,
        seeds_needed=n,
    )


def _t(diffs: ArrayLike, null: float) -> tuple[np.ndarray, np.ndarray]:
    """Student's t of (mean - null) and its degrees of freedom."""
    centre, spread, n = moments(diffs)
    away = centre - null
    with np.errstate(divide="ignore", invalid="ignore"):
        t = away * np.sqrt(n) / spread
    return np.where((spread == 0) & (away == 0), 0.0, t), n - 1


def _hedges(centre: np.ndarray, spread: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Mean over deviation, corrected for its bias.

    Source: Hedges, J. Educational Statistics 6 (1981), 107-128, equation 6e.
    """
    df = n - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        correction = np.exp(special.gammaln(df / 2) - special.gammaln((df - 1) / 2)) / np.sqrt(df / 2)
        raw = np.where((centre == 0) & (spread == 0), 0.0, centre / spread)
    return np.where(df < 2, np.nan, raw * correction)


def _improvement(gain: np.ndarray, level: float) -> list[Estimate]:
    """`improvement` from gains (pairs, seeds), NaN where a seed cannot be used."""
    n = np.isfinite(gain).sum(axis=-1)
    wins = (gain > 0).sum(axis=-1) + 0.5 * (gain == 0).sum(axis=-1)
    tail = (1 - level) / 2
    low = np.where(wins > 0, special.betaincinv(np.maximum(wins, 0.5), n - wins + 1, tail), 0.0)
    high = np.where(wins < n, special.betaincinv(wins + 1, np.maximum(n - wins, 0.5), 1 - tail), 1.0)
    share = np.where(n > 0, wins / np.maximum(n, 1), np.nan)
    return _estimates(share, np.where(n > 0, low, np.nan), np.where(n > 0, high, np.nan), n)


def _estimates(value: np.ndarray, low: np.ndarray, high: np.ndarray, n: np.ndarray) -> list[Estimate]:
    return [Estimate(*row) for row in zip(value.tolist(), low.tolist(), high.tolist(), n.tolist())]
