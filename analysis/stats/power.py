"""What a number of seeds can show: power of the paired t test and of the equivalence test.

Throughout, `sd_diff` is the standard deviation of the differences paired by seed, in the metric's units, and `sharing` the
degrees of freedom as a multiple of n - 1: above 1 where the variants of a study share what they tell about their spread.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from analysis.stats.estimates import ALPHA

POWER = 0.8
"""The probability with which a true difference is to be found."""

MOST_SEEDS = 10_000
"""More seeds than this are no practical number: the answer is None then."""

FEW_SEEDS = 10
"""With fewer seeds an observed difference says too little of the true one to say how many would decide."""

CLEAREST = 1e4
"""The largest noncentrality that is computed."""

SPREAD_QUANTILES = (0.1, 0.9)
"""The range of the true standard deviation for which `seeds_needed_band` gives a number of seeds."""


@dataclass(frozen=True)
class SeedsNeeded:
    """A range of numbers of seeds; None stands for more than `MOST_SEEDS`."""

    low: int | None
    high: int | None


def power_of_difference(
    sd_diff: ArrayLike, difference: ArrayLike, n: ArrayLike, alpha: ArrayLike, sharing: ArrayLike = 1.0
) -> np.ndarray:
    """Probability that the two-sided paired t test on n seeds finds a true `difference`; elementwise.

    The statistic follows a noncentral t with sharing (n - 1) degrees of freedom and noncentrality sqrt(n) difference / sd_diff.
    """
    df, shift, critical = _noncentral(sd_diff, np.abs(difference), n, np.asarray(alpha) / 2, sharing)
    wrong_side = np.nan_to_num(special.nctdtr(df, shift, -critical))  # scipy gives NaN where it underflows
    return noncentral_sf(critical, df, shift) + wrong_side


def noncentral_sf(t: ArrayLike, df: ArrayLike, shift: ArrayLike) -> np.ndarray:
    """Probability that a noncentral t exceeds `t`; elementwise. It is precise where it is small, as 1 - CDF is not."""
    return special.nctdtr(df, -np.asarray(shift), -np.asarray(t))


def power_beyond(
    sd_diff: ArrayLike, distance: ArrayLike, n: ArrayLike, alpha: ArrayLike, sharing: ArrayLike = 1.0
) -> np.ndarray:
    """Probability that a one-sided paired t test on n seeds shows a mean `distance` beyond its bound; elementwise."""
    df, shift, critical = _noncentral(sd_diff, distance, n, alpha, sharing)
    return np.where(np.asarray(distance) > 0, noncentral_sf(critical, df, shift), 0.0)


def power_of_equivalence(
    sd_diff: ArrayLike, difference: ArrayLike, margin: float, n: ArrayLike, alpha: ArrayLike, sharing: ArrayLike = 1.0
) -> np.ndarray:
    """Probability that two one-sided tests on n seeds show a true `difference` to lie within ±margin; elementwise.

    A lower bound (both tests' powers less one), tight where the power is high, so that no count of seeds built on it
    promises too much.
    """
    difference = np.asarray(difference, dtype=float)
    above = power_beyond(sd_diff, margin + difference, n, alpha, sharing)
    below = power_beyond(sd_diff, margin - difference, n, alpha, sharing)
    return np.maximum(above + below - 1, 0.0)


def detectable(sd_diff: ArrayLike, n: ArrayLike, alpha: float = ALPHA, sharing: ArrayLike = 1.0) -> np.ndarray:
    """The smallest true differences that n seeds find with `POWER`, elementwise.

    NaN for fewer than two seeds or an unknown spread, infinite where the level of an early look is so strict that no
    difference meets it.
    """
    sd_diff, n, sharing = np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in (sd_diff, n, sharing)))
    (seeds, share), place = np.unique(np.stack([n.ravel(), sharing.ravel()]), axis=1, return_inverse=True)
    seeds = np.where(seeds < 2, np.nan, seeds)
    low, high = np.zeros(len(seeds)), CLEAREST / np.sqrt(seeds)
    for _ in range(80):
        middle = (low + high) / 2
        enough = power_of_difference(1.0, middle, seeds, alpha, share) >= POWER
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    effect = np.where(-special.stdtrit(share * (seeds - 1), alpha / 2) > CLEAREST / 2, np.inf, high)
    return sd_diff * effect[place.ravel()].reshape(sd_diff.shape)


def seeds_to_decide(
    sd_diff: ArrayLike,
    difference: ArrayLike,
    margin: float,
    alpha: float = ALPHA,
    least: ArrayLike = 2,
    sharing: ArrayLike = 1.0,
) -> list[int | None]:
    """The fewest seeds, from `least` up, that show a difference or equivalence if the observed values are true.

    Elementwise over `sd_diff` and `difference`; None where no practical number does, or the spread is not known.
    """

    def either(n: np.ndarray) -> np.ndarray:
        shows_difference = power_of_difference(sd_diff, difference, n, alpha, sharing)
        return np.maximum(shows_difference, power_of_equivalence(sd_diff, difference, margin, n, alpha, sharing))

    size = np.broadcast(np.asarray(sd_diff), np.asarray(difference), np.asarray(least)).shape or (1,)
    return fewest(either, least=np.broadcast_to(least, size))


def seeds_needed_band(
    sd_diff: ArrayLike,
    difference: ArrayLike,
    n: ArrayLike,
    margin: float,
    alpha: float = ALPHA,
    sharing: ArrayLike = 1.0,
) -> list[SeedsNeeded | None]:
    """`seeds_to_decide` for the 10 % and the 90 % quantile of the true standard deviation, given that of n seeds.

    Elementwise over `sd_diff`, `difference` and `n`, which is a lower bound. Below `FEW_SEEDS` seeds it is for a true
    difference of the margin, whatever was observed. None without a standard deviation or, there, without a margin.
    """
    sd_diff, difference, n = (np.atleast_1d(np.asarray(x, dtype=float)) for x in (sd_diff, difference, n))
    sharing = np.broadcast_to(sharing, n.shape)
    needed: list[SeedsNeeded | None] = [None] * len(n)
    difference = np.where(n < FEW_SEEDS, margin, difference)
    known = np.flatnonzero(np.isfinite(difference) & np.isfinite(sd_diff))
    if len(known):
        low, high = (
            seeds_to_decide(sd, difference[known], margin, alpha, n[known] + 1, sharing[known])
            for sd in sd_quantiles(sd_diff[known], n[known], sharing[known])
        )
        for place, *ends in zip(known, low, high, strict=True):
            needed[place] = SeedsNeeded(*ends)
    return needed


def sd_quantiles(sd: ArrayLike, n: ArrayLike, sharing: ArrayLike = 1.0) -> list[np.ndarray]:
    """`SPREAD_QUANTILES` of the true standard deviation, given that of n normal values: df sd² / sd_true² is chi-square
    distributed with df = sharing (n - 1) degrees of freedom.
    """
    sd, df = np.asarray(sd, dtype=float), sharing * (np.asarray(n, dtype=float) - 1)
    return [sd * np.sqrt(df / special.chdtri(df, share)) for share in SPREAD_QUANTILES]


def fewest(power_at: Callable[[np.ndarray], np.ndarray], least: ArrayLike) -> list[int | None]:
    """Elementwise the smallest n from `least` to `MOST_SEEDS` with power_at(n) >= `POWER`, or None; it rises with n."""
    low = np.atleast_1d(np.asarray(least)).astype(int)
    high = np.full(low.shape, MOST_SEEDS)
    reachable = np.broadcast_to(power_at(high) >= POWER, low.shape)
    while (low < high).any():
        middle = (low + high) // 2
        enough = power_at(middle) >= POWER
        low, high = np.where(enough, low, np.minimum(middle + 1, high)), np.where(enough, middle, high)
    return [int(n) if ok else None for n, ok in zip(high, reachable)]


def _noncentral(sd_diff, difference, n, tail, sharing) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Degrees of freedom, noncentrality and critical value; without spread any difference is infinitely clear."""
    sd_diff, difference, n = (np.asarray(v, dtype=float) for v in (sd_diff, difference, n))
    with np.errstate(divide="ignore", invalid="ignore"):
        effect = np.where(difference == 0, np.where(np.isnan(sd_diff), np.nan, 0.0), difference / sd_diff)
    # beyond these limits the power is 0 or 1, and scipy's series gives out
    shift = np.clip(effect * np.sqrt(n), -CLEAREST, CLEAREST)
    df = sharing * (n - 1)
    return df, shift, -special.stdtrit(df, tail)
