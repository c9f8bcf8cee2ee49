"""Standard errors of differences that share what all variants of a study tell about the spread of their runs.

With five seeds, a variant's own variance is poorly known, and a paired t test over many pairs finds little. Here the
variances of the variants are draws from a scaled inverse chi-squared distribution (empirical Bayes: Smyth, Statistical
Applications in Genetics and Molecular Biology 3 (2004), article 3). Three changes make its error rates hold in small
studies whose variants differ in spread:

- How strongly the variants resemble each other, the prior's degrees of freedom d0, is not estimated but averaged over,
  on a grid, with the weights of its likelihood.
- A variance shrinks upward only: a variant never gets less than its own variance.
- A variant with an unlikely large variance gets fewer degrees of freedom from the others (after Phipson, Lee, Majewski,
  Alexander and Smyth, Annals of Applied Statistics 10 (2016), 946-963).

Arrays in, numbers out; leading axes (...) are separate studies. `tests/analysis/stats/test_shared_variance.py`
simulates it.
"""

from dataclasses import dataclass

import numpy as np
from scipy import special

from analysis.stats.estimates import moments

FEWEST_VARIANTS, FEWEST_SEEDS, FEWEST_VARYING = 4, 5, 3
"""Below these numbers the variants say too little about each other, and error rates do not hold."""
FEWEST_RUNS = 4
"""A variant with fewer finite runs may hide a larger spread than that of the others."""
HIGHEST_CORRELATION = 0.99
"""Even runs that agree seed by seed do not make a difference certain."""
SHARES = np.arange(0.05, 1, 0.1)
"""The grid: the prior's share of the degrees of freedom of a typical variance, d0 / (d0 + d)."""


@dataclass(frozen=True)
class SharedVariance:
    """Variances of variants, for each degree of sharing (grid).

    `weights` (..., grid), `variance` and `df` (..., grid, variants), `correlation` (...): a lower limit of the
    correlation that two variants have over the seeds.
    """

    weights: np.ndarray
    variance: np.ndarray
    df: np.ndarray
    correlation: np.ndarray

    def errors(
        self, first: np.ndarray, second: np.ndarray, correlation: np.ndarray, n: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Standard errors and degrees of freedom (..., grid, pairs) of the pairs `first` and `second` (pairs,).

        `correlation` (..., pairs): that of each pair over its seeds; `n` (..., pairs): their number.
        """
        a, b = self.variance[..., first] / n[..., None, :], self.variance[..., second] / n[..., None, :]
        shared = np.minimum(self.correlation[..., None], np.maximum(np.nan_to_num(correlation), 0))
        error = np.sqrt(a + b - 2 * shared[..., None, :] * np.sqrt(a * b))
        return error, (a + b) ** 2 / (a**2 / self.df[..., first] + b**2 / self.df[..., second])


def can_share(x: np.ndarray, floor: float = 0.0) -> bool:
    """Whether values x (..., variants, seeds) have enough variants, variants that vary, and seeds, in every study."""
    _, deviation, _ = moments(x)
    varying = _above(deviation, floor).sum(axis=-1)
    seeds = np.isfinite(x).any(axis=-2).sum(axis=-1)
    enough = (varying >= FEWEST_VARYING) & (seeds >= FEWEST_SEEDS)
    return x.shape[-2] >= FEWEST_VARIANTS and bool(enough.all())


def shared_variance(x: np.ndarray, floor: float = 0.0) -> SharedVariance:
    """The variances of variants from values x (..., variants, seeds), NaN where a run is missing.

    `floor` is the smallest standard deviation of a run; variants at it do not tell how the others spread.
    """
    _, deviation, n = moments(x)
    own = np.nan_to_num(deviation)
    d = np.maximum(n - 1.0, 0)[..., None, :]
    fitted = d * _above(deviation, floor)[..., None, :]
    s2 = np.maximum(own, floor)[..., None, :] ** 2
    count = np.maximum((fitted > 0).sum(axis=-1, keepdims=True), 1)
    typical = fitted.sum(axis=-1, keepdims=True) / count
    d0 = typical * (SHARES / (1 - SHARES))[:, None]
    scale = _scale(s2, fitted, d0)
    information = (fitted * d0 / (2 * (fitted + d0 + 2))).sum(axis=-1)  # about log(scale)
    densities = _log_density(np.where(fitted > 0, s2, 1), scale, np.maximum(fitted, 1), d0)
    weights = special.softmax(np.where(fitted > 0, densities, 0).sum(axis=-1) - np.log(information) / 2, axis=-1)
    # where fewer than a quarter of the variances would be as large, the others tell less about this one
    d1 = d0 * np.minimum(1, 4 * special.fdtrc(np.maximum(d, 1), d0, s2 / scale))
    df = 1 / (1 / (d1 + d) + d1 * (typical + d1 + 2) / (count * typical * (d1 + d) ** 2))
    variance = np.maximum(s2, (d0 * scale + d * s2) / (d0 + d))
    return SharedVariance(weights, variance, df, _seed_correlation(x, (weights[..., None] * variance).sum(axis=-2)))


def _above(deviation: np.ndarray, floor: float) -> np.ndarray:
    """Whether standard deviations are known and above the floor, beyond floating-point rounding."""
    return np.nan_to_num(deviation) > floor * (1 + 1e-9)


def _scale(s2: np.ndarray, d: np.ndarray, d0: np.ndarray) -> np.ndarray:
    """The prior's variance (..., grid, 1) with the largest likelihood, where its derivative crosses 0."""
    log = np.log(np.where(d > 0, s2, np.nan))
    low, high = (
        end + 0 * d0 for end in (np.nanmin(log, axis=-1, keepdims=True), np.nanmax(log, axis=-1, keepdims=True))
    )
    for _ in range(50):
        middle = (low + high) / 2
        rising = (d * ((d + d0) * s2 / (d0 * np.exp(middle) + d * s2) - 1)).sum(axis=-1, keepdims=True) > 0
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    return np.exp(high)


def _log_density(s2: np.ndarray, scale: np.ndarray, d: np.ndarray, d0: np.ndarray) -> np.ndarray:
    """The log density of variances s2, which are `scale` times an F distribution with d and d0 degrees of freedom."""
    ratio = d * s2 / (d0 * scale)
    return d / 2 * np.log(ratio) - np.log(s2) - (d + d0) / 2 * np.log1p(ratio) - special.betaln(d / 2, d0 / 2)


def _seed_correlation(x: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """A 90 % lower limit (...) of the correlation between variants over the seeds that all have; 0 below three seeds.

    Variants with fewer than `FEWEST_RUNS` runs are left out.
    """
    finite = np.isfinite(x)
    kept = finite.sum(axis=-1, keepdims=True) >= FEWEST_RUNS
    complete = (finite | ~kept).all(axis=-2, keepdims=True)
    n, variants = complete.sum(axis=(-1, -2)), kept.sum(axis=(-1, -2))
    z = np.where(complete & kept, x / np.sqrt(variance)[..., None], 0)
    z = np.where(complete & kept, z - z.sum(axis=-1, keepdims=True) / np.maximum(n, 1)[..., None, None], 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        between = (z.sum(axis=-2) ** 2).sum(axis=-1) / variants
        within = ((z**2).sum(axis=(-1, -2)) - between) / (variants - 1)
        ratio = between / within / special.fdtri(np.maximum(n - 1, 1), np.maximum((variants - 1) * (n - 1), 1), 0.9)
        limit = np.where(within > 0, (ratio - 1) / (ratio + variants - 1), 1)
    return np.where((n < 3) | (variants < 2), 0.0, np.clip(np.nan_to_num(limit), 0, HIGHEST_CORRELATION))
