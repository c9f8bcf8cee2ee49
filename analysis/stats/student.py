"""Student's t for differences paired by seed: tests, equivalence, posterior probabilities. Arrays in, numbers out."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from analysis.stats.estimates import moments

TOLERANCE = 1e-9
"""A mean this close to a bound, relative to the bound, lies on the bound: the rest is floating-point rounding."""


@dataclass(frozen=True)
class Posterior:
    """Probabilities that the true difference is better by more than the margin, within it, or worse by more."""

    worse: float
    within: float
    better: float


def beyond(centre: ArrayLike, bound: ArrayLike) -> np.ndarray:
    """centre - bound, elementwise; 0 where only rounding keeps them apart."""
    away = np.asarray(centre, dtype=float) - bound
    return np.where(np.abs(away) <= TOLERANCE * np.abs(bound), 0.0, away)


def t_test(
    diffs: ArrayLike, null: float = 0.0, side: Literal["two", "above", "below"] = "two", floor: ArrayLike = 0.0
) -> np.ndarray:
    """p-values of Student's test that diffs (..., seeds) have mean `null`, against another, a higher or a lower one.

    NaN where the spread is not known; `floor` is the smallest standard deviation (see `estimates`).
    """
    centre, deviation, n = moments(diffs, floor)
    t, df = beyond(centre, null) * np.sqrt(n) / deviation, n - 1
    if side == "two":
        return 2 * special.stdtr(df, -np.abs(t))
    return special.stdtr(df, -t if side == "above" else t)


def tost(diffs: ArrayLike, margin: float, floor: ArrayLike = 0.0) -> np.ndarray:
    """p-values of two one-sided t tests that the mean of diffs (..., seeds) lies within ±margin; small means equivalent.

    Source: Schuirmann, J. Pharmacokinetics and Biopharmaceutics 15 (1987), 657-680.
    """
    return np.maximum(t_test(diffs, -margin, "above", floor), t_test(diffs, margin, "below", floor))


def posterior(gains: ArrayLike, margin: float, floor: ArrayLike = 0.0) -> list[Posterior]:
    """Where the true mean of gains (pairs, seeds) lies, higher being better; NaN where the spread is not known.

    Under the usual uninformative prior the mean follows Student's t about the observed mean, with its standard error as
    scale and n - 1 degrees of freedom. Source: Gelman et al., Bayesian Data Analysis, 3rd ed. (2013), section 3.2.
    """
    centre, deviation, n = moments(np.atleast_2d(gains), floor)
    error = deviation / np.sqrt(np.maximum(n, 1))
    worse = special.stdtr(n - 1, (-margin - centre) / error)
    better = special.stdtr(n - 1, (centre - margin) / error)
    return [Posterior(*row) for row in zip(worse.tolist(), (1 - worse - better).tolist(), better.tolist())]
