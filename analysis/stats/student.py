"""Student's t for differences paired by seed: tests of a difference and of equivalence. Arrays in, numbers out."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from analysis.stats.estimates import moments

Side = Literal["two", "above", "below"]
TOLERANCE = 1e-9
"""A mean this close to a bound, relative to the bound, lies on the bound: the rest is floating-point rounding."""


def beyond(centre: ArrayLike, bound: ArrayLike) -> np.ndarray:
    """centre - bound, elementwise; 0 where only rounding keeps them apart."""
    away = np.asarray(centre, dtype=float) - bound
    return np.where(np.abs(away) <= TOLERANCE * np.abs(bound), 0.0, away)


def t_test(diffs: ArrayLike, null: float = 0.0, side: Side = "two", floor: ArrayLike = 0.0) -> np.ndarray:
    """p-values of Student's test that diffs (..., seeds) have mean `null`, against another, a higher or a lower one.

    NaN where the spread is not known; `floor` is the smallest standard deviation (see `estimates`).
    """
    centre, deviation, n = moments(diffs, floor)
    return t_test_of(centre, deviation / np.sqrt(n), n - 1, null, side)


def tost(diffs: ArrayLike, margin: float, floor: ArrayLike = 0.0) -> np.ndarray:
    """p-values of two one-sided t tests that the mean of diffs (..., seeds) lies within ±margin; small means equivalent.

    Source: Schuirmann, J. Pharmacokinetics and Biopharmaceutics 15 (1987), 657-680.
    """
    return np.maximum(t_test(diffs, -margin, "above", floor), t_test(diffs, margin, "below", floor))


def t_test_of(centre: ArrayLike, error: ArrayLike, df: ArrayLike, null: float = 0.0, side: Side = "two") -> np.ndarray:
    """`t_test` for means with these standard errors and degrees of freedom, elementwise."""
    t = beyond(centre, null) / error
    if side == "two":
        return 2 * special.stdtr(df, -np.abs(t))
    return special.stdtr(df, -t if side == "above" else t)
