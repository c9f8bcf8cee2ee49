"""One sample, one number with its interval: mean, spread, interquartile mean, bootstrap. Arrays in; no I/O, no plots.

A value that is not finite (a diverged run) is left out, and `Estimate.n` says how many values were used.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

RELATIVE_ROUNDING = 1e-10
"""A spread below this share of the mean is rounding, such as the subtraction of two floats leaves."""


@dataclass(frozen=True)
class Estimate:
    """A value, its interval from `low` to `high` (NaN where the spread is not known), and how many values made it."""

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Spread:
    """How a sample scatters: its standard deviation, interquartile mean, lowest and highest value."""

    sd: float
    iqm: Estimate
    lowest: float
    highest: float


@dataclass(frozen=True)
class Band:
    """The mean of several curves and its interval, position by position: four arrays (positions,)."""

    x: np.ndarray
    centre: np.ndarray
    low: np.ndarray
    high: np.ndarray


def moments(x: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, standard deviation (ddof 1) and count of the finite values along the last axis; NaN where there are none.

    The deviation is NaN where the values say nothing about the spread: a single value, and also two equal ones.
    Accuracies move in steps of one image, so two runs agree by chance often enough (12 % where they differ by about an
    image) to make every test on "no spread at all" wrong; three or more equal values do so too rarely to matter.
    """
    x = np.atleast_1d(np.asarray(x, dtype=float))
    finite = np.isfinite(x)
    n = finite.sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        centre = np.where(finite, x, 0).sum(axis=-1) / n
        square = np.where(finite, (x - centre[..., None]) ** 2, 0).sum(axis=-1)
        spread = np.sqrt(square / (n - 1))
    spread = np.where(spread <= RELATIVE_ROUNDING * np.abs(centre), 0.0, spread)
    return centre, np.where((n < 2) | ((n == 2) & (spread == 0)), np.nan, spread), n


def t_interval(
    centre: ArrayLike, error: ArrayLike, df: ArrayLike, level: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
    """Student's interval, centre ± t error, elementwise; NaN where `df` is below 1 or the error unknown."""
    half = -special.stdtrit(df, (1 - level) / 2) * np.asarray(error)
    return np.asarray(centre) - half, np.asarray(centre) + half


def mean(x: ArrayLike, level: float = 0.95) -> Estimate:
    """Mean of x (values,) with Student's t interval."""
    centre, spread, n = moments(np.ravel(x))
    low, high = t_interval(centre, spread / np.sqrt(np.maximum(n, 1)), n - 1, level)
    return Estimate(float(centre), float(low), float(high), int(n))


def sd(x: ArrayLike) -> float:
    """Standard deviation of x (values,) with n - 1 in the denominator; NaN for fewer than two values."""
    finite = _finite(x)
    return float(np.std(finite, ddof=1)) if len(finite) > 1 else float("nan")


def spread(x: ArrayLike) -> Spread:
    """How x (values,) scatters; NaN where there are no values."""
    finite = _finite(x)
    ends = (float(finite.min()), float(finite.max())) if len(finite) else (float("nan"), float("nan"))
    return Spread(sd(finite), iqm_interval(finite), *ends)


def band(x: ArrayLike, curves: ArrayLike, level: float = 0.95) -> Band:
    """Mean of curves (positions, curves) at positions x (positions,), with Student's t interval at each position."""
    centre, deviation, n = moments(curves)
    low, high = t_interval(centre, deviation / np.sqrt(np.maximum(n, 1)), n - 1, level)
    return Band(np.asarray(x, dtype=float), centre, low, high)


def iqm(x: ArrayLike, axis: int | None = None) -> float | np.ndarray:
    """Interquartile mean of x (values,): the mean of what is left when a quarter (rounded down) is cut at each end.

    With an `axis`, which is how `bootstrap` calls it, the same along that axis of an array without gaps.
    """
    if axis is not None:
        return stats.trim_mean(x, 0.25, axis=axis)
    finite = _finite(x)
    return float(stats.trim_mean(finite, 0.25)) if len(finite) else float("nan")


def iqm_interval(x: ArrayLike, level: float = 0.95) -> Estimate:
    """Interquartile mean of x (values,) with the t interval of a trimmed mean, which holds for few seeds too.

    Source: Yuen, Biometrika 61 (1974), 165-170: of n values h are kept; the squared error is the winsorised sum of
    squares over h (h - 1), with h - 1 degrees of freedom. Below four values nothing is cut, and this is `mean`.
    """
    finite = np.sort(_finite(x))
    n = len(finite)
    cut = n // 4
    if cut == 0:
        return mean(finite, level)
    winsorised = np.clip(finite, finite[cut], finite[n - cut - 1])
    kept = n - 2 * cut
    error = np.std(winsorised, ddof=1) * np.sqrt((n - 1) / (kept * (kept - 1)))
    value = float(iqm(finite))
    low, high = t_interval(value, error, kept - 1, level)
    return Estimate(value, float(low), float(high), n)


def bootstrap(
    x: ArrayLike, statistic: Callable = np.mean, level: float = 0.95, resamples: int = 9999, seed: int = 0
) -> Estimate:
    """`statistic` of x (values,) with its BCa bootstrap interval, at a level widened for small samples.

    The same seed gives the same answer. A resample is narrower than the population by sqrt((n - 1) / n) and knows no t
    quantile, so a bootstrap interval of few values is too short; `expanded_level` undoes that. No bootstrap can leave
    the range of the data, though: where ten values cover at the stated rate, five reach about 90 % and three 75 %.
    Prefer `mean` and `iqm_interval` there. `statistic` takes an `axis`, as `np.mean` and `iqm` do. Equal values give an
    interval without width, from three values up.
    """
    finite = _finite(x)
    n = len(finite)
    if n < 2:
        value = float(statistic(finite)) if n else float("nan")
        return Estimate(value, float("nan"), float("nan"), n)
    value = float(statistic(finite))
    if np.ptp(finite) == 0:
        edge = value if n > 2 else float("nan")
        return Estimate(value, edge, edge, n)
    options = {"confidence_level": expanded_level(level, n), "n_resamples": resamples, "vectorized": True}
    result = _resample(finite, statistic, seed, method="BCa", **options)
    if not np.isfinite(result).all():  # every resample on one side of the estimate: no bias correction can be had
        result = _resample(finite, statistic, seed, method="percentile", **options)
    return Estimate(value, float(result[0]), float(result[1]), n)


def expanded_level(level: float, n: int) -> float:
    """The nominal level at which a bootstrap interval of n values covers at `level`.

    Source: Hesterberg, The American Statistician 69 (2015), 371-386: tail = Phi(-sqrt(n / (n - 1)) t).
    """
    return float(1 - 2 * stats.norm.cdf(-np.sqrt(n / (n - 1)) * stats.t.isf((1 - level) / 2, n - 1)))


def _finite(x: ArrayLike) -> np.ndarray:
    x = np.ravel(np.asarray(x, dtype=float))
    return x[np.isfinite(x)]


def _resample(x: np.ndarray, statistic: Callable, seed: int, **options) -> np.ndarray:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        interval = stats.bootstrap((x,), statistic, rng=np.random.default_rng(seed), **options).confidence_interval
    return np.array([interval.low, interval.high])
