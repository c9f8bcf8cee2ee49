"""Differences between variants, and how well they are known: "Standard errors" in README.md. Arrays in, numbers out.

1. Seed means are taken out by the least-squares fit of variant and seed, in which a missing run shifts nothing.
2. A variant's variance is one part its own and two parts the average of all variants, weighted by degrees of freedom,
   but never less than its own. It has three times the degrees of freedom of its own.
3. A difference has a t test with the variances of both sides, and at most the degrees of freedom of the whole table.

Unpaired runs have no seed means, and at most V (n - 1) degrees of freedom, V the variants that have two runs, and n the
smallest number of runs that a difference uses. Of two such variants, each has its own variance: Welch's t test.

Rule 2 is ours; `tests/support/error_rates.py` simulates it. It shrinks a variance as Smyth does (Statistical
Applications in Genetics and Molecular Biology 3 (2004), article 3), upward only and with fixed weights. Leading axes
(...) are separate studies.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from analysis.verdicts.estimates import RELATIVE_ROUNDING, Estimate, estimates, moments

Variance = Literal["shared", "paired", "unpaired"]  # see `experiments.compared.Variance`
OTHERS = 2  # parts of the average of all variants in a variance; its own is one part


@dataclass(frozen=True)
class Differences:
    """Differences with standard errors `error` and degrees of freedom `df`, NaN where the spread is not known.

    `mean` and `n` (..., pairs): over the seeds that both sides have; of unpaired runs, `n` is the smaller of the two
    numbers.
    """

    mean: np.ndarray
    n: np.ndarray
    error: np.ndarray
    df: np.ndarray
    constant: np.ndarray
    """whether neither side varies over two seeds or more, or both are equal on each (..., pairs): there is no spread,
    so a rare failure may be missed
    """

    def t_test(self, null: ArrayLike = 0.0) -> np.ndarray:
        """Two-sided p-values (..., pairs) of a mean difference of `null`."""
        return 2 * special.stdtr(self.df, -np.abs(self.mean - null) / self.error)

    def half_width(self, level: float | np.ndarray) -> np.ndarray:
        """Half the width of the intervals around the means (..., pairs)."""
        return -special.stdtrit(self.df, (1 - level) / 2) * self.error

    def estimates(self, level: float | np.ndarray) -> list[Estimate]:
        """The mean of each pair of a single study with its interval."""
        half = self.half_width(level)
        return estimates(self.mean, self.mean - half, self.mean + half, self.n)


def differences(x: np.ndarray, first: np.ndarray, second: np.ndarray, variance: Variance = "shared") -> Differences:
    """Variants `first` minus variants `second` (pairs,) of values x (..., variants, seeds), NaN where a run is missing.

    `variance`: "paired" for the paired t test of each pair, whatever the other variants are, and "unpaired" where the
    places of runs along the last axis say nothing.
    """
    rows = np.eye(x.shape[-2])
    sums = rows[first] - rows[second]
    if variance == "unpaired":
        return weighted_sums(x, sums)
    both = np.isfinite(x[..., first, :]) & np.isfinite(x[..., second, :])
    a, b = (np.where(both, x[..., side, :], np.nan) for side in (first, second))
    mean, deviation, n = moments(a - b)
    equal = ~((a != b) & both).any(axis=-1)
    constant = (n > 1) & (np.isnan(moments(a)[1]) & np.isnan(moments(b)[1]) | equal)
    seeds = np.maximum(n, 1)
    if variance == "paired":
        return Differences(mean, n, deviation / np.sqrt(seeds), n - 1.0, constant)
    own, df = residual_variances(x)
    error, error_df = _satterthwaite(*_of_variants(own, df, OTHERS), sums)
    error, error_df = np.where(n > 1, error / np.sqrt(seeds), np.nan), np.minimum(error_df, _total(df))
    return Differences(mean, n, error, error_df, constant)


def weighted_sums(x: np.ndarray, sums: np.ndarray) -> Differences:
    """Weighted sums (sums, variants) of the means of variants, from unpaired runs x (..., variants, runs).

    NaN where a variant has fewer runs than others.
    """
    centre, deviation, runs = moments(x)
    used, df = sums != 0, np.maximum(runs - 1.0, 0)
    n = np.where(used, runs[..., None, :], runs.max()).min(axis=-1)
    variants = (df > 0).sum(axis=-1, keepdims=True)
    variance, of_variance = _of_variants(np.nan_to_num(deviation) ** 2, df, OTHERS * (variants > 2))
    error, error_df = _satterthwaite(variance / np.maximum(runs, 1), of_variance, sums)
    error_df = np.minimum(error_df, np.minimum(variants * (n - 1.0), _total(df)))
    mean = np.where(n > 0, np.nan_to_num(centre) @ sums.T, np.nan)
    constant = (n > 1) & (np.isfinite(deviation).astype(float) @ used.T == 0)
    return Differences(mean, n, np.where(n > 1, error, np.nan), error_df, constant)


def _of_variants(own: np.ndarray, df: np.ndarray, others: int | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The variances that differences have, and their degrees of freedom, from those of variants (..., variants).

    `others`: the parts of the average of all variants.
    """
    average = (df * own).sum(axis=-1, keepdims=True) / np.maximum(_total(df), 1)
    return np.maximum(own, (own + others * average) / (1 + others)), (1 + others) * df


def _total(df: np.ndarray) -> np.ndarray:
    return df.sum(axis=-1, keepdims=True)


def _satterthwaite(variance: np.ndarray, df: np.ndarray, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Standard errors and degrees of freedom (..., sums) of sums of values with these variances (..., variants).

    Sources: Welch, Biometrika 34 (1947), 28-35; Satterthwaite, Biometrics Bulletin 2 (1946), 110-114.
    """
    total = variance @ (sums**2).T
    squares = np.divide(variance**2, df, out=np.zeros_like(variance), where=df > 0) @ (sums**4).T
    known = (total > 0) & (squares > 0)
    error = np.sqrt(np.where(known, total, np.nan))
    return error, np.divide(total**2, squares, out=np.full(total.shape, np.nan), where=known)


def residual_variances(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Variances (..., variants) of values x (..., variants, seeds) without the seed means, and their df.

    NaN marks a missing run. The df are (n - 1) (1 - 1 / V) of n seeds and V variants without a gap. The variance is 0
    where only rounding is left, and where the df are 0.
    """
    if not x.size:
        return np.zeros(x.shape[:-1]), np.zeros(x.shape[:-1])
    present = np.isfinite(x)
    mask = present[(0,) * (x.ndim - 2)]
    if not (present == mask).all():
        parts = zip(*(_residuals(study, np.isfinite(study)) for study in x.reshape(-1, *x.shape[-2:])))
        variance, df = (np.array(part).reshape(x.shape[:-1]) for part in parts)
        return variance, df
    return _residuals(x, mask)


def _residuals(x: np.ndarray, present: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same where all studies have the runs that are `present` (variants, seeds).

    The normal equations of the seeds, after the variants are eliminated, are diag(count) - weight' diag(1 / n) weight.
    Seeds that the same variants lack are alike in them, so the inverse is diag(1 / count) and a number for each pair of
    such patterns: the cost grows with the patterns, not with the seeds.
    """
    weight, n = present.astype(float), present.sum(axis=1)
    patterns, of_seed, seeds = np.unique(weight, axis=1, return_inverse=True, return_counts=True)
    of_seed, used, count = of_seed.ravel(), patterns * seeds, patterns.sum(axis=0)
    per_count, per_n = (np.divide(1.0, of, out=np.zeros(len(of)), where=of > 0) for of in (count, n))
    root = np.sqrt(seeds)
    values, vectors = np.linalg.eigh(np.diag(count) - np.outer(root, root) * (patterns.T * per_n @ patterns))
    inverse = np.divide(1.0, values, out=np.zeros(len(values)), where=values > 1e-9 * max(count.max(), 1))
    between = (vectors * inverse @ vectors.T) / np.outer(root, root) - np.diag(per_count / seeds)
    centre = np.where(present, x, 0.0).sum(axis=-1) * per_n
    centred = np.where(present, x - centre[..., None], 0.0)
    sums = centred.sum(axis=-2)  # of each seed
    of_patterns = np.stack([sums[..., of_seed == at].sum(axis=-1) for at in range(len(seeds))], axis=-1)
    seed_means = sums * per_count[of_seed] + (of_patterns @ between)[..., of_seed]
    left = np.where(present, centred - seed_means[..., None, :], 0.0)
    left -= weight * (left.sum(axis=-1) * per_n)[..., None]
    taken = used @ (per_count + np.diag(between)) - per_n * (used @ per_count + ((used @ between) * used).sum(axis=1))
    df = np.where(n > 1, n - 1 - taken, 0.0)
    square = (left**2).sum(axis=-1)
    known = (df > 1e-6) & (square > (RELATIVE_ROUNDING * centre) ** 2 * n)
    df = np.broadcast_to(np.where(df > 1e-6, df, 0.0), square.shape)
    return np.divide(square, df, out=np.zeros_like(square), where=known), df
