"""Mean differences of pairs of variants, and how well they are known. Arrays in, numbers out.

Their standard errors come from what all variants share about their spread (`shared_variance`), where three variants
vary and a pair has three common seeds. Elsewhere a pair has its own: of the differences seed by seed (the paired t
test) or, below `FEWEST_PAIRED` seeds, of the two variants apart (Welch's t test), which has more degrees of freedom.

Unpaired runs are any runs of each variant: no order of them changes a result. The spread is shared where three variants
have three runs each; elsewhere, and for a variant with two runs, it is that of each variant apart (Welch's t test).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from analysis.verdicts.estimates import Estimate, estimates, moments
from analysis.verdicts.shared_variance import FEWEST_SEEDS, can_share, shared_variance
from experiments.study import Variance

SHARED, WELCH, PAIRED = "shared", "Welch", "paired"  # where the standard error of a pair comes from
FEWEST_PAIRED = 5  # common seeds from which a pair that does not share its spread has the paired t test


@dataclass(frozen=True)
class Differences:
    """Differences whose means follow t distributions, or mixtures of them, around the true ones.

    `mean` and `n` (..., pairs): over the seeds that both sides have; of unpaired runs, `n` is the smaller of the two
    numbers. `weights` (..., grid) of the mixture's parts, with their standard errors `error` and degrees of freedom
    `df` (..., grid, pairs); NaN where the spread is not known.
    """

    mean: np.ndarray
    n: np.ndarray
    weights: np.ndarray
    error: np.ndarray
    df: np.ndarray
    method: np.ndarray  # `SHARED`, `WELCH` or `PAIRED` (..., pairs)
    constant: np.ndarray
    """whether neither side varies over the seeds (..., pairs): they show no spread, so a rare failure may be missed"""
    equal: np.ndarray  # whether both sides have the same value on each of two seeds or more (..., pairs)

    def __getitem__(self, pairs: np.ndarray) -> "Differences":
        """The differences of some pairs of a single study."""
        return Differences(
            **{name: part if name == "weights" else part[..., pairs] for name, part in vars(self).items()}
        )

    @property
    def known(self) -> np.ndarray:
        """Whether there is a standard error, so that a pair can be tested (..., pairs)."""
        return np.isfinite(self.error).all(axis=-2)

    @property
    def sd(self) -> np.ndarray:
        """The standard deviation of one of `n` differences with the same mean error (..., pairs)."""
        return np.sqrt(self._average(self.error**2) * self.n)

    @property
    def sharing(self) -> np.ndarray:
        """The degrees of freedom as a multiple of n - 1 (..., pairs)."""
        return self._average(self.df) / np.maximum(self.n - 1, 1)

    def t_test(self, null: ArrayLike = 0.0) -> np.ndarray:
        """Two-sided p-values (..., pairs) of a mean difference of `null`."""
        away = (self.mean - null)[..., None, :] / self.error
        return np.minimum(self._average(2 * special.stdtr(self.df, -np.abs(away))), 1)

    def half_width(self, level: float | np.ndarray) -> np.ndarray:
        """Half the width of the intervals around the means (..., pairs): differences with p = 1 - level."""
        ends = -special.stdtrit(self.df, (1 - level) / 2) * self.error
        low, high = ends.min(axis=-2), ends.max(axis=-2)
        for _ in range(40):
            middle = np.sqrt(low * high)
            inside = self._average(2 * special.stdtr(self.df, -middle[..., None, :] / self.error)) > 1 - level
            low, high = np.where(inside, middle, low), np.where(inside, high, middle)
        return high

    def tail(self, alpha: float | np.ndarray) -> np.ndarray:
        """The half-width at 1 - alpha over that of one t distribution with the same error and mean df (..., pairs)."""
        df, error = self._average(self.df), np.sqrt(self._average(self.error**2))
        return self.half_width(1 - alpha) / (-special.stdtrit(df, alpha / 2) * error)

    def estimates(self, level: float | np.ndarray) -> list[Estimate]:
        """The mean of each pair of a single study with its interval."""
        half = self.half_width(level)
        return estimates(self.mean, self.mean - half, self.mean + half, self.n)

    def _average(self, parts: np.ndarray) -> np.ndarray:
        """The average over the mixture of values (..., grid, pairs)."""
        return (self.weights[..., None] * parts).sum(axis=-2)


def differences(
    x: np.ndarray, first: np.ndarray, second: np.ndarray, floor: float = 0.0, variance: Variance = "shared"
) -> Differences:
    """Variants `first` minus variants `second` (pairs,) of values x (..., variants, seeds), NaN where a run is missing.

    `floor` is the smallest standard deviation of a difference of two runs. Leading axes are separate studies; variances
    are shared only if all of them allow it (`can_share`). `variance`: "paired" for the paired t test of each pair,
    "unpaired" where the places of runs along the last axis say nothing.
    """
    if variance == "unpaired":
        rows = np.eye(x.shape[-2])
        return weighted_sums(x, rows[first] - rows[second], floor / np.sqrt(2))
    both = np.isfinite(x[..., first, :]) & np.isfinite(x[..., second, :])
    a, b = (np.where(both, x[..., side, :], np.nan) for side in (first, second))
    constant = (both.sum(axis=-1) > 1) & np.isnan(moments(a)[1]) & np.isnan(moments(b)[1])
    equal = (both.sum(axis=-1) > 1) & ~((a != b) & both).any(axis=-1)
    mean, deviation, n = moments(a - b, floor)
    seeds = np.maximum(n, 1)
    error, df = deviation / np.sqrt(seeds), n - 1.0
    method, weights = np.full(n.shape, PAIRED), np.ones((*n.shape[:-1], 1))
    if variance == "paired":
        return Differences(mean, n, weights, error[..., None, :], df[..., None, :], method, constant, equal)
    few = n < FEWEST_PAIRED
    error, df = (np.where(few, *sides) for sides in zip(_welch(a, b, floor / np.sqrt(2)), (error, df), strict=True))
    method, error, df = np.where(few, WELCH, method), error[..., None, :], df[..., None, :]
    if can_share(x, floor / np.sqrt(2)):
        shared, enough = shared_variance(x, floor / np.sqrt(2)), n >= FEWEST_SEEDS
        parts = zip(shared.errors(first, second, seeds), (error, df), strict=True)
        error, df = (np.where(enough[..., None, :], *part) for part in parts)
        method, weights = np.where(enough, SHARED, method), shared.weights
    return Differences(mean, n, weights, error, df, method, constant, equal)


def weighted_sums(x: np.ndarray, sums: np.ndarray, floor: float = 0.0) -> Differences:
    """Weighted sums (sums, variants) of the means of variants, from unpaired runs x (..., variants, runs).

    NaN where a variant has fewer runs than others. `floor`: the smallest standard deviation of a run.
    """
    centre, deviation, n = moments(x, floor)
    used = sums != 0
    fewest = np.where(used, n[..., None, :], n.max()).min(axis=-1)
    varies = ((n > 1) & np.isfinite(moments(x)[1])).astype(float)
    own, df = np.nan_to_num(deviation)[..., None, :] ** 2, np.maximum(n - 1.0, 1)[..., None, :]
    weights, method = np.ones((*n.shape[:-1], 1)), np.full(fewest.shape, WELCH)
    error, error_df = _satterthwaite(own, df, n, sums)
    if can_share(x, floor, paired=False):
        shared, enough = shared_variance(x, floor, paired=False), fewest >= FEWEST_SEEDS
        parts = zip(_satterthwaite(shared.variance, shared.df, n, sums), (error, error_df), strict=True)
        error, error_df = (np.where(enough[..., None, :], *part) for part in parts)
        method, weights = np.where(enough, SHARED, method), shared.weights
    known = (fewest > 1)[..., None, :]
    error, error_df = (np.where(known, part, np.nan) for part in (error, error_df))
    mean = np.where(fewest > 0, np.nan_to_num(centre) @ sums.T, np.nan)
    constant = (fewest > 1) & (varies @ used.T == 0)
    return Differences(mean, fewest, weights, error, error_df, method, constant, np.zeros(fewest.shape, bool))


def _satterthwaite(
    variance: np.ndarray, df: np.ndarray, n: np.ndarray, sums: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Standard errors and degrees of freedom (..., grid, sums) from variances and their df (..., grid, variants).

    Sources: Welch, Biometrika 34 (1947), 28-35; Satterthwaite, Biometrics Bulletin 2 (1946), 110-114.
    """
    of_mean = variance / np.maximum(n, 1)[..., None, :]
    total, squares = of_mean @ (sums**2).T, (of_mean**2 / df) @ (sums**4).T
    known = total > 0
    error = np.sqrt(np.where(known, total, np.nan))
    return error, np.divide(total**2, squares, out=np.full(total.shape, np.nan), where=known)


def _welch(a: np.ndarray, b: np.ndarray, floor: float) -> tuple[np.ndarray, np.ndarray]:
    """Standard errors and degrees of freedom (..., pairs) from the spread of each side (..., pairs, seeds) apart.

    `floor`: the smallest standard deviation of a run. Source: Welch, Biometrika 34 (1947), 28-35.
    """
    n = np.isfinite(a).sum(axis=-1)
    parts = [np.nan_to_num(moments(side, floor)[1]) ** 2 / np.maximum(n, 1) for side in (a, b)]
    total, squares = sum(parts), sum(part**2 for part in parts)
    known = total > 0
    error = np.sqrt(np.where(known, total, np.nan))
    return error, np.divide((n - 1) * total**2, squares, out=np.full(n.shape, np.nan), where=known)
