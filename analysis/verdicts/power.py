"""What a number of seeds can show: the smallest difference that a t test finds, and the seeds that one takes.

`sd_diff` is the standard deviation of the difference of two runs, in the metric's units, so that a mean difference of n
seeds has a standard error of sd_diff / sqrt(n). `df` are the degrees of freedom of that error.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from analysis.verdicts.differences import OTHERS, Variance

POWER = 0.8  # the probability with which a true difference is to be found
MOST_SEEDS = 1e6  # the largest number of seeds that is computed
CLEAREST = 1e4  # the largest noncentrality that is computed


def detectable(sd_diff: ArrayLike, n: ArrayLike, alpha: ArrayLike, df: ArrayLike) -> np.ndarray:
    """The smallest true differences that the two-sided t test on n seeds finds with `POWER`, elementwise.

    The statistic follows a noncentral t with `df` degrees of freedom. NaN for fewer than two seeds or an unknown
    spread, infinite where the level of an early look is so strict that no difference meets it.
    """
    given = np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in (sd_diff, n, df, alpha)))
    sd_diff, different = given[0], np.stack([x.ravel() for x in given[1:]])
    (seeds, df, level), place = np.unique(different, axis=1, return_inverse=True)
    seeds = np.where(seeds < 2, np.nan, seeds)
    low, high = np.zeros(len(seeds)), CLEAREST / np.sqrt(seeds)
    critical = -special.stdtrit(df, level / 2)
    for _ in range(80):
        middle = (low + high) / 2
        right_side = special.nctdtr(df, -middle * np.sqrt(seeds), -critical)  # precise where 1 - CDF is not
        wrong_side = np.nan_to_num(special.nctdtr(df, middle * np.sqrt(seeds), -critical))  # NaN where it underflows
        enough = right_side + wrong_side >= POWER
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    effect = np.where(critical > CLEAREST / 2, np.inf, high)
    return sd_diff * effect[place.ravel()].reshape(sd_diff.shape)


def needed_seeds(size: float, sd_diff: ArrayLike, n: ArrayLike, alpha: ArrayLike, df: ArrayLike) -> np.ndarray:
    """The numbers of seeds, not rounded, whose `detectable` difference is `size`, elementwise; NaN where the spread is
    not known, and for a `size` that is not above 0.

    `n` and `df`: of the seeds so far. With more seeds, the degrees of freedom grow as n - 1. The other arguments are
    those of `detectable`.
    """
    sd_diff, of_one = np.asarray(sd_diff, dtype=float), np.asarray(df, dtype=float) / np.maximum(np.asarray(n) - 1, 1)
    low, high = np.full(sd_diff.shape, 2.0), np.full(sd_diff.shape, MOST_SEEDS)
    for _ in range(30):
        middle = np.sqrt(low * high)
        enough = detectable(sd_diff, middle, alpha, of_one * (middle - 1)) <= size
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.where(np.isfinite(sd_diff) & (size > 0), high, np.nan)


def planned_df(n: int, variants: int, variance: Variance) -> float:
    """The degrees of freedom of a difference with n seeds, where all variants spread alike; see `differences`."""
    return n - 1 if variance == "paired" else (n - 1) * (variants - 1) * min(1, 2 * (1 + OTHERS) / variants)
