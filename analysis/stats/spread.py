"""Whether differences between variants shrink from a first to a last condition, such as a number of epochs.

Runs are paired by seed, and a seed's runs under both conditions belong together. Arrays in, numbers out.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from analysis.stats.estimates import Estimate, moments, t_interval, t_test_of


@dataclass(frozen=True)
class SpreadChange:
    """How the variance of the variants' true means changes, and the test that it does."""

    change: Estimate
    """last - first"""
    p: float


def spread_change(first: ArrayLike, last: ArrayLike) -> SpreadChange:
    """Test whether the variance of the variants' true means changes. first, last: (variants, seeds), without NaN.

    The variance is estimated without bias from the noise of the runs: as the mean, over all pairs of different seeds,
    of the covariance of their runs over the variants. The test is Student's on the jackknife over seeds (Arvesen,
    Annals of Mathematical Statistics 40 (1969), 2076-2100). p is NaN with fewer than three variants or three seeds, and
    where nothing varies from seed to seed.
    """
    first, last = (np.asarray(values, dtype=float) for values in (first, last))
    variants, seeds = first.shape
    difference, nan = _variance(last) - _variance(first), float("nan")
    if variants < 3 or seeds < 3:
        return SpreadChange(Estimate(difference, nan, nan, seeds), nan)
    without = [_variance(np.delete(last, s, 1)) - _variance(np.delete(first, s, 1)) for s in range(seeds)]
    _, deviation, _ = moments(seeds * difference - (seeds - 1) * np.array(without))
    p = float(t_test_of(difference, deviation / np.sqrt(seeds), seeds - 1))
    low, high = t_interval(difference, deviation / np.sqrt(seeds), seeds - 1)
    return SpreadChange(Estimate(difference, float(low), float(high), seeds), p)


def sd_of_means(values: ArrayLike) -> float:
    """The standard deviation of the variants' true means, estimated from runs (variants, seeds) as in `spread_change`.

    0 where the estimate of the variance is below 0.
    """
    return float(np.sqrt(np.maximum(_variance(np.asarray(values, dtype=float)), 0.0)))


def _variance(x: np.ndarray) -> float:
    """The variance of the variants' means in x (variants, seeds), without the share of the noise."""
    variants, seeds = x.shape
    centred = x - x.mean(0)
    if seeds < 2 or variants < 2:
        return float("nan")
    gram = centred.T @ centred / (variants - 1)  # covariance over variants of each pair of seeds
    return float((gram.sum() - np.trace(gram)) / (seeds * (seeds - 1)))
