"""Means and proportions with their intervals. Arrays in, estimates out.

A value that is not finite (a diverged run) is left out, and `Estimate.n` says how many values were used.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

ALPHA = 0.05  # the level of significance: the rate of false verdicts that is allowed over a family of tests
LEVEL = 1 - ALPHA  # the confidence level of intervals
RELATIVE_ROUNDING = 1e-10  # a standard deviation below this share of the mean is floating-point rounding


@dataclass(frozen=True)
class Estimate:
    """A value, its interval from `low` to `high` (NaN where the spread is not known), and the number of values used."""

    value: float
    low: float
    high: float
    n: int

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval lies above or below zero."""
        return self.low > 0 or self.high < 0

    def __neg__(self) -> Estimate:
        return replace(self, value=-self.value, low=-self.high, high=-self.low)

    def covering(self, other: Estimate) -> Estimate:
        """The same value, with an interval that holds both; unknown where one of them is."""
        low, high = np.min([self.low, other.low]), np.max([self.high, other.high])
        return replace(self, low=float(low), high=float(high))


UNKNOWN = Estimate(np.nan, np.nan, np.nan, 0)


def moments(x: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, standard deviation (ddof 1) and count of the finite values along the last axis of x.

    The mean is NaN without values, the deviation NaN for a single value and for equal values.
    """
    x = np.atleast_1d(np.asarray(x, dtype=float))
    finite = np.isfinite(x)
    n = finite.sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        centre = np.where(finite, x, 0).sum(axis=-1) / n
        square = np.where(finite, (x - centre[..., None]) ** 2, 0).sum(axis=-1)
        deviation = np.sqrt(square / (n - 1))
    deviation = np.where(deviation <= RELATIVE_ROUNDING * np.abs(centre), 0.0, deviation)
    return centre, np.where((n < 2) | (deviation == 0), np.nan, deviation), n


def mean(x: ArrayLike, level: float = LEVEL) -> Estimate:
    """Mean of x (values,) with Student's t interval."""
    return means(np.ravel(x)[None], level)[0]


def means(x: ArrayLike, level: float = LEVEL) -> list[Estimate]:
    """The mean of each row of x (rows, values) with Student's t interval."""
    centre, deviation, n = moments(x)
    half = -special.stdtrit(n - 1, (1 - level) / 2) * (deviation / np.sqrt(np.maximum(n, 1)))
    return estimates(centre, centre - half, centre + half, n)


def estimates(value: np.ndarray, low: np.ndarray, high: np.ndarray, n: np.ndarray) -> list[Estimate]:
    """Values with their intervals, one for each place of the arrays (places,)."""
    return [Estimate(*row) for row in zip(value.tolist(), low.tolist(), high.tolist(), n.tolist(), strict=True)]


def proportion(hits: ArrayLike, n: ArrayLike) -> list[Estimate]:
    """`hits` of `n` trials as shares with Clopper and Pearson's intervals, elementwise.

    The interval never covers less often than stated. NaN where n is 0.
    Source: Clopper and Pearson, Biometrika 26 (1934), 404-413.
    """
    hits, n = np.atleast_1d(np.asarray(hits, dtype=float)), np.atleast_1d(np.asarray(n, dtype=int))
    low = np.where(hits > 0, special.betaincinv(np.maximum(hits, 1), n - hits + 1, ALPHA / 2), 0.0)
    high = np.where(hits < n, special.betaincinv(hits + 1, np.maximum(n - hits, 1), 1 - ALPHA / 2), 1.0)
    share, low, high = np.where(n > 0, [hits / np.maximum(n, 1), low, high], np.nan)
    return estimates(share, low, high, n)
