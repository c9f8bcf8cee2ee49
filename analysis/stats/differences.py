"""Mean differences of pairs of variants over shared seeds, and how well they are known. Arrays in, numbers out.

Their standard errors come from the differences themselves (the paired t test), or, where a study has enough variants
and seeds, from what all variants share about their spread (`shared_variance`).
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from analysis.stats.estimates import Estimate, Side, beyond, estimates, moments
from analysis.stats.shared_variance import FEWEST_RUNS, can_share, shared_variance
from experiments.study import Variance


@dataclass(frozen=True)
class Differences:
    """Differences whose means follow t distributions, or mixtures of them, around the true ones.

    `mean` and `n` (..., pairs): over the seeds that both sides have. `weights` (..., grid) of the mixture's parts, with
    their standard errors `error` and degrees of freedom `df` (..., grid, pairs); NaN where the spread is not known.
    """

    mean: np.ndarray
    n: np.ndarray
    weights: np.ndarray
    error: np.ndarray
    df: np.ndarray
    variance: Variance
    constant: np.ndarray
    """whether neither side varies over the seeds (..., pairs): they show no spread, so a rare failure may be missed"""

    def __getitem__(self, pairs: int | np.ndarray) -> "Differences":
        """The differences of one pair, or of some pairs, of a single study."""
        here = np.atleast_1d(pairs)
        parts = (self.error[..., here], self.df[..., here])
        return Differences(self.mean[here], self.n[here], self.weights, *parts, self.variance, self.constant[here])

    @property
    def equal(self) -> np.ndarray:
        """Whether all runs of both sides have the same value (..., pairs)."""
        return self.constant & (self.mean == 0)

    @property
    def sd(self) -> np.ndarray:
        """The standard deviation of the difference of one seed (..., pairs)."""
        return np.sqrt(self._average(self.error**2) * self.n)

    @property
    def sharing(self) -> np.ndarray:
        """The degrees of freedom as a multiple of those that the pair has alone (..., pairs)."""
        return self._average(self.df) / np.maximum(self.n - 1, 1)

    def t_test(self, null: ArrayLike = 0.0, side: Side = "two") -> np.ndarray:
        """p-values (..., pairs) of a mean difference of `null`, against another, a higher or a lower one."""
        away = beyond(self.mean, null)[..., None, :] / self.error
        if side == "two":
            return np.minimum(self._average(2 * special.stdtr(self.df, -np.abs(away))), 1)
        return self._average(special.stdtr(self.df, -away if side == "above" else away))

    def tost(self, margin: float) -> np.ndarray:
        """p-values of two one-sided tests that the differences lie within ±margin; small means equivalent.

        NaN where neither side varies over the seeds: five runs of a variant that fails in 5 % show no failure in 77 %
        of studies. Source: Schuirmann, J. Pharmacokinetics and Biopharmaceutics 15 (1987), 657-680.
        """
        p = np.maximum(self.t_test(-margin, "above"), self.t_test(margin, "below"))
        return np.where(self.constant, np.nan, p)

    def half_width(self, level: float) -> np.ndarray:
        """Half the width of the intervals around the means (..., pairs): differences with p = 1 - level."""
        ends = -special.stdtrit(self.df, (1 - level) / 2) * self.error
        low, high = ends.min(axis=-2), ends.max(axis=-2)
        for _ in range(40):
            middle = np.sqrt(low * high)
            inside = self._average(2 * special.stdtr(self.df, -middle[..., None, :] / self.error)) > 1 - level
            low, high = np.where(inside, middle, low), np.where(inside, high, middle)
        return high

    def tail(self, alpha: float) -> np.ndarray:
        """The half-width at 1 - alpha relative to that of one t distribution with the same error and mean df (...,
        pairs).
        """
        df, error = self._average(self.df), np.sqrt(self._average(self.error**2))
        return self.half_width(1 - alpha) / (-special.stdtrit(df, alpha / 2) * error)

    def estimates(self, level: float) -> list[Estimate]:
        """The mean of each pair of a single study with its interval."""
        half = self.half_width(level)
        return estimates(self.mean, self.mean - half, self.mean + half, self.n)

    def _average(self, parts: np.ndarray) -> np.ndarray:
        """The average over the mixture of values (..., grid, pairs)."""
        return (self.weights[..., None] * parts).sum(axis=-2)


def paired_differences(diffs: ArrayLike, floor: ArrayLike = 0.0) -> Differences:
    """Differences (..., pairs, seeds) of which each pair has its own spread: those of the paired t test.

    `floor` is the smallest standard deviation of a difference.
    """
    mean, deviation, n = moments(diffs, floor)
    error = (deviation / np.sqrt(np.maximum(n, 1)))[..., None, :]
    weights = np.ones((*n.shape[:-1], 1))
    return Differences(mean, n, weights, error, n[..., None, :] - 1.0, "paired", np.zeros(n.shape, dtype=bool))


def differences(
    x: np.ndarray, first: np.ndarray, second: np.ndarray, floor: float = 0.0, variance: Variance = "shared"
) -> Differences:
    """Variants `first` minus variants `second` (pairs,) of values x (..., variants, seeds), NaN where a run is missing.

    `floor` is the smallest standard deviation of a difference of two runs. Leading axes are separate studies; variances
    are shared only if all of them allow it (`can_share`). A pair with fewer than `FEWEST_RUNS` common seeds has its
    own.
    """
    a, b = x[..., first, :], x[..., second, :]
    constant = _constant(a, b) & _constant(b, a)
    alone = paired_differences(a - b, floor)
    if variance == "paired" or not can_share(x, floor / np.sqrt(2)):
        return replace(alone, constant=constant)
    shared = shared_variance(x, floor / np.sqrt(2))
    few, n = (alone.n < FEWEST_RUNS)[..., None, :], np.maximum(alone.n, 1)
    error, df = shared.errors(first, second, correlation(a, b), n)
    error = np.maximum(error, floor / np.sqrt(n)[..., None, :])
    error, df = np.where(few, alone.error, error), np.where(few, alone.df, df)
    return Differences(alone.mean, alone.n, shared.weights, error, df, "shared", constant)


def correlation(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Pearson's correlation of a and b over their common seeds (..., seeds); NaN below three or without spread."""
    common = np.isfinite(a) & np.isfinite(b)
    (mean_a, sd_a, n), (mean_b, sd_b, _) = (moments(np.where(common, side, np.nan)) for side in (a, b))
    products = np.where(common, (a - mean_a[..., None]) * (b - mean_b[..., None]), 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(n < 3, np.nan, np.clip(products.sum(axis=-1) / (n - 1) / (sd_a * sd_b), -1, 1))


def _constant(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Whether the values of a are all the same over the seeds of both (..., pairs), and there are two or more."""
    _, deviation, n = moments(np.where(np.isfinite(b), a, np.nan))
    return (n > 1) & np.isnan(deviation)
