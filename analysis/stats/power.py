"""How much can so many seeds tell? Power of the paired t test and of the equivalence test. Numbers only; no data.

Throughout, `sd_diff` is the standard deviation of the differences paired by seed, in the metric's units.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, stats

MOST_SEEDS = 10_000
"""Nobody trains more runs than this to settle one difference: beyond it the answer is None, "no practical number"."""

FEW_SEEDS = 5
"""Below this many seeds their spread is known too poorly to say how many more would decide: what looks clearest among
many open differences then is mostly the luckiest.
"""


def power_of_difference(sd_diff: ArrayLike, difference: ArrayLike, n: ArrayLike, alpha: ArrayLike = 0.05) -> np.ndarray:
    """Probability that the two-sided paired t test on n seeds finds a true `difference`; elementwise.

    The statistic follows a noncentral t with n - 1 degrees of freedom and noncentrality sqrt(n) difference / sd_diff.
    """
    df, shift, critical = _noncentral(sd_diff, np.abs(difference), n, np.asarray(alpha) / 2)
    wrong_side = np.nan_to_num(stats.nct.cdf(-critical, df, shift))  # scipy gives NaN where it underflows
    return stats.nct.sf(critical, df, shift) + wrong_side


def power_beyond(sd_diff: ArrayLike, distance: ArrayLike, n: ArrayLike, alpha: ArrayLike = 0.05) -> np.ndarray:
    """Probability that a one-sided paired t test on n seeds shows a mean `distance` beyond its bound; elementwise."""
    df, shift, critical = _noncentral(sd_diff, distance, n, alpha)
    return np.where(np.asarray(distance) > 0, stats.nct.sf(critical, df, shift), 0.0)


def power_of_equivalence(
    sd_diff: ArrayLike, difference: ArrayLike, margin: float, n: ArrayLike, alpha: ArrayLike = 0.05
) -> np.ndarray:
    """Probability that two one-sided tests on n seeds show a true `difference` to lie within ±margin; elementwise.

    A lower bound (both tests' powers less one), tight where the power is high, so that no count of seeds built on it
    promises too much.
    """
    difference = np.asarray(difference, dtype=float)
    above = power_beyond(sd_diff, margin + difference, n, alpha)
    below = power_beyond(sd_diff, margin - difference, n, alpha)
    return np.maximum(above + below - 1, 0.0)


def detectable(sd_diff: float, n: int, alpha: float = 0.05, power: float = 0.8) -> float:
    """The smallest true difference that n seeds find with this power (paired t test); NaN for fewer than two seeds."""
    if n < 2 or np.isnan(sd_diff):
        return float("nan")
    return float(sd_diff * _detectable_effect(int(n), float(alpha), float(power)))


def seeds_needed(sd_diff: float, difference: float, alpha: float = 0.05, power: float = 0.8) -> int | None:
    """The fewest seeds that find a true `difference` with this power (two-sided paired t test).

    None where no practical number does (more than `MOST_SEEDS`, or a difference of nothing).
    """
    return fewest(lambda n: power_of_difference(sd_diff, difference, n, alpha), power=power)[0]


def seeds_to_decide(
    sd_diff: ArrayLike,
    difference: ArrayLike,
    margin: float,
    alpha: float = 0.05,
    power: float = 0.8,
    least: ArrayLike = 2,
) -> list[int | None]:
    """The fewest seeds, from `least` up, that show a difference or equivalence if the observed values are true.

    Elementwise over `sd_diff` and `difference`; None where no practical number does, or the spread is not known.
    """

    def either(n: np.ndarray) -> np.ndarray:
        found = power_of_difference(sd_diff, difference, n, alpha)
        return np.maximum(found, power_of_equivalence(sd_diff, difference, margin, n, alpha))

    size = np.broadcast(np.asarray(sd_diff), np.asarray(difference), np.asarray(least)).shape or (1,)
    return fewest(either, least=np.broadcast_to(least, size), power=power)


def fewest(power_at, least: ArrayLike = 2, power: float = 0.8) -> list[int | None]:
    """Elementwise the smallest n from `least` to `MOST_SEEDS` with power_at(n) >= power, or None; it rises with n."""
    low = np.atleast_1d(np.asarray(least)).astype(int)
    high = np.full(low.shape, MOST_SEEDS)
    reachable = np.broadcast_to(power_at(high) >= power, low.shape)
    while (low < high).any():
        middle = (low + high) // 2
        enough = power_at(middle) >= power
        low, high = np.where(enough, low, np.minimum(middle + 1, high)), np.where(enough, middle, high)
    return [int(n) if ok else None for n, ok in zip(high, reachable)]


@lru_cache(maxsize=1024)
def _detectable_effect(n: int, alpha: float, power: float) -> float:
    """The standardised difference found with this power: the root of a curve that rises from alpha to 1."""

    def lack(effect: float) -> float:
        return float(power_of_difference(1.0, effect, n, alpha)) - power

    highest = 1.0
    while lack(highest) < 0:
        highest *= 2
    return float(optimize.brentq(lack, 0.0, highest, xtol=1e-13, rtol=1e-14))


def _noncentral(sd_diff, difference, n, tail) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Degrees of freedom, noncentrality and critical value; without spread any difference is infinitely clear."""
    sd_diff, difference, n = (np.asarray(v, dtype=float) for v in (sd_diff, difference, n))
    with np.errstate(divide="ignore", invalid="ignore"):
        effect = np.where(difference == 0, np.where(np.isnan(sd_diff), np.nan, 0.0), difference / sd_diff)
    shift = np.clip(effect * np.sqrt(n), -1e4, 1e4)  # beyond this the power is 0 or 1, and scipy's series gives out
    return n - 1, shift, stats.t.isf(tail, n - 1)
