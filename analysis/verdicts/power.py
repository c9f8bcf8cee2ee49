"""What a number of seeds can show: the smallest difference that a t test finds, and what equivalence takes.

`sd_diff` is the standard deviation of the difference of two runs, in the metric's units, so that a mean difference of n
seeds has a standard error of sd_diff / sqrt(n). `df` are the degrees of freedom of that error.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from analysis.verdicts.estimates import ALPHA
from analysis.verdicts.looks import Looks

POWER = 0.8  # the probability with which a true difference is to be found

SEEDS = range(2, 10**9)  # among which those for equivalence are searched
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
    those of `detectable`. A smallest difference falls about as 1 / sqrt(n), so three steps from `n` suffice.
    """
    seeds, size = np.asarray(n, dtype=float), size if size > 0 else math.nan
    of_one = np.asarray(df, dtype=float) / np.maximum(seeds - 1, 1)
    for _ in range(3):
        smallest = detectable(sd_diff, seeds, alpha, of_one * (seeds - 1))
        seeds = np.clip(seeds * (smallest / size) ** 2, 2, MOST_SEEDS)
    return seeds


def seeds_for_equivalence(spread: float, pairs: int, families: int = 1, looks: Sequence[int] = ()) -> int:
    """The seeds with which two equal variants of a study are shown to be equivalent in four of five studies.

    `spread`: the standard deviation of a run, in margins. `pairs`: those that are tested. `families`: of tests that
    share the 5 %; a grid has two, as its factors are tested as well. `looks`: planned numbers of seeds; the last one
    counts. The interval for all pairs (Bonferroni) must lie within the margin; standard errors are from the variances
    of both variants.
    """
    level = ALPHA / families / max(pairs, 1) * Looks(tuple(looks)).shares[-1] / 2
    quantiles = (np.arange(1000) + 0.5) / 1000

    def power(n: int) -> float:
        df, error = 2 * (n - 1), spread * math.sqrt(2 / n)
        half_widths = -special.stdtrit(df, level) * np.sqrt(special.chdtri(df, quantiles) / df)  # in standard errors
        return float(np.maximum(2 * special.ndtr(1 / error - half_widths) - 1, 0).mean())

    return SEEDS[bisect_left(SEEDS, POWER, key=power)]
