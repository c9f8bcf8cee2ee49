"""The spread of variants, where each shares what all variants of a study tell about it.

With few seeds, a variant's own variance is poorly known, and a test over many pairs finds little. Two steps:

1. Seeds lift all variants alike, so the seed means are taken out first: the least-squares fit of variant and seed, in
   which a missing run shifts nothing. A variant's residual variance has its own degrees of freedom, the number of its
   runs less what the fit takes of them: (n - 1) (1 - 1 / V) of n seeds and V variants without a gap. Unpaired runs
   have no seed means: then it is the variance of a variant's runs, with n - 1.
2. These variances are draws from a scaled inverse chi-squared distribution (empirical Bayes: Smyth, Statistical
   Applications in Genetics and Molecular Biology 3 (2004), article 3). Three changes make its error rates hold in small
   studies whose variants differ in spread:

   - How strongly the variants resemble each other, the prior's degrees of freedom d0, is not estimated but averaged
     over, on a grid, with the weights of its likelihood.
   - A variance shrinks upward only: a variant never gets less than its own variance.
   - A variant with an unlikely large variance gets fewer degrees of freedom from the others (after Phipson, Lee,
     Majewski, Alexander and Smyth, Annals of Applied Statistics 10 (2016), 946-963).

Arrays in, numbers out; leading axes (...) are separate studies. `tests/analysis/verdicts/test_error_rates.py` simulates
it.
"""

from dataclasses import dataclass

import numpy as np
from scipy import special

from analysis.verdicts.estimates import RELATIVE_ROUNDING, moments

FEWEST_SEEDS, FEWEST_VARYING = 3, 3
"""The seeds, and the variants that vary, below which the variants say too little about each other."""
SHARES = np.arange(0.05, 1, 0.1)
"""The grid: the prior's share of the degrees of freedom of a typical variance, d0 / (d0 + d)."""


@dataclass(frozen=True)
class SharedVariance:
    """Variances of variants and their df (..., grid, variants) at degrees of sharing with `weights` (..., grid)."""

    weights: np.ndarray
    variance: np.ndarray
    df: np.ndarray

    def errors(self, first: np.ndarray, second: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Standard errors and degrees of freedom (..., grid, pairs) of the pairs `first` and `second` (pairs,).

        `n` (..., pairs): the number of seeds of each pair. Source of the degrees of freedom: Satterthwaite, Biometrics
        Bulletin 2 (1946), 110-114.
        """
        a, b = self.variance[..., first] / n[..., None, :], self.variance[..., second] / n[..., None, :]
        return np.sqrt(a + b), (a + b) ** 2 / (a**2 / self.df[..., first] + b**2 / self.df[..., second])


def residual_variances(x: np.ndarray, paired: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Variances (..., variants) of values x (..., variants, seeds) without the seed means, if `paired`, and their df.

    NaN marks a missing run. The variance is 0 where only rounding is left, and where the df are 0.
    """
    if not paired:
        _, deviation, count = moments(x)
        return np.nan_to_num(deviation) ** 2, np.maximum(count - 1.0, 0)
    present = np.isfinite(x)
    weight, (centre, _, n) = present.astype(float), moments(x)
    share = weight / np.maximum(n, 1)[..., None]
    centred = np.where(present, x - centre[..., None], 0.0)
    # the normal equations of the seeds, after the variants are eliminated
    equations = np.eye(x.shape[-1]) * weight.sum(axis=-2)[..., None, :] - np.swapaxes(weight, -1, -2) @ share
    inverse = np.linalg.pinv(equations, hermitian=True)
    seed_means = (inverse @ centred.sum(axis=-2)[..., None])[..., 0]
    left = np.where(present, centred - seed_means[..., None, :], 0.0)
    left -= weight * (share * left).sum(axis=-1, keepdims=True)
    taken = np.einsum("...ss,...vs->...v", inverse, weight) - ((share @ inverse) * weight).sum(axis=-1)
    df = np.where(n > 1, n - 1 - taken, 0.0)
    square = (left**2).sum(axis=-1)
    known = (df > 1e-6) & (square > (RELATIVE_ROUNDING * np.nan_to_num(centre)) ** 2 * n)
    return np.divide(square, df, out=np.zeros_like(square), where=known), np.where(df > 1e-6, df, 0.0)


def can_share(x: np.ndarray, floor: float = 0.0, paired: bool = True) -> bool:
    """Whether values x (..., variants, seeds) have enough seeds, and enough variants that vary, in every study.

    Of unpaired runs, so many variants vary and have as many runs.
    """
    present = np.isfinite(x)
    if (present.any(axis=-2).sum(axis=-1) < FEWEST_SEEDS).any():
        return False
    enough = paired | (present.sum(axis=-1) >= FEWEST_SEEDS)
    varying = (_varying(x, residual_variances(x, paired)[0], floor) & enough).sum(axis=-1)
    return bool((varying >= FEWEST_VARYING).all())


def shared_variance(x: np.ndarray, floor: float = 0.0, paired: bool = True) -> SharedVariance:
    """The variances of variants from values x (..., variants, seeds), NaN where a run is missing.

    `floor` is the smallest standard deviation of a run; variants at it do not tell how the others spread. `paired`:
    whether the seed means are taken out.
    """
    own, df = residual_variances(x, paired)
    d = df[..., None, :]
    fitted = d * _varying(x, own, floor)[..., None, :]
    s2 = np.maximum(own, floor**2)[..., None, :]
    count = np.maximum((fitted > 0).sum(axis=-1, keepdims=True), 1)
    typical = fitted.sum(axis=-1, keepdims=True) / count
    d0 = typical * (SHARES / (1 - SHARES))[:, None]
    scale = _scale(s2, fitted, d0)
    information = (fitted * d0 / (2 * (fitted + d0 + 2))).sum(axis=-1)  # about log(scale)
    densities = _log_density(np.where(fitted > 0, s2, 1), scale, np.where(fitted > 0, fitted, 1), d0)
    weights = special.softmax(np.where(fitted > 0, densities, 0).sum(axis=-1) - np.log(information) / 2, axis=-1)
    # where fewer than a quarter of the variances would be as large, the others tell less about this one
    d1 = d0 * np.minimum(1, 4 * special.fdtrc(np.where(d > 0, d, 1), d0, s2 / scale))
    shared_df = 1 / (1 / (d1 + d) + d1 * (typical + d1 + 2) / (count * typical * (d1 + d) ** 2))
    return SharedVariance(weights, np.maximum(s2, (d0 * scale + d * s2) / (d0 + d)), shared_df)


def _varying(x: np.ndarray, residual: np.ndarray, floor: float) -> np.ndarray:
    """Whether variants vary by more than the floor, also without the seed means (..., variants)."""
    return np.minimum(np.nan_to_num(moments(x)[1]) ** 2, residual) > (floor * (1 + 1e-9)) ** 2


def _scale(s2: np.ndarray, d: np.ndarray, d0: np.ndarray) -> np.ndarray:
    """The prior's variance (..., grid, 1) with the largest likelihood, where its derivative crosses 0."""
    log = np.log(np.where(d > 0, s2, np.nan))
    low, high = (end(log, axis=-1, keepdims=True) + 0 * d0 for end in (np.nanmin, np.nanmax))
    for _ in range(50):
        middle = (low + high) / 2
        rising = (d * ((d + d0) * s2 / (d0 * np.exp(middle) + d * s2) - 1)).sum(axis=-1, keepdims=True) > 0
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    return np.exp(high)


def _log_density(s2: np.ndarray, scale: np.ndarray, d: np.ndarray, d0: np.ndarray) -> np.ndarray:
    """The log density of variances s2, which are `scale` times an F distribution with d and d0 degrees of freedom."""
    ratio = d * s2 / (d0 * scale)
    return d / 2 * np.log(ratio) - np.log(s2) - (d + d0) / 2 * np.log1p(ratio) - special.betaln(d / 2, d0 / 2)
