"""The mean of an effect over studies that share no run. Arrays in, estimates out."""

import numpy as np
from numpy.typing import ArrayLike

from analysis.verdicts.estimates import UNKNOWN, Estimate, mean, t_interval

LEAST = 3  # studies of which the spread between studies can be told


def random_effects(effects: ArrayLike, variances: ArrayLike) -> tuple[Estimate, float]:
    """The mean over studies by random effects, and the standard deviation tau of the effect between studies.

    `effects` (studies,) with their sampling `variances` (studies,), both in the metric's units. Tau is DerSimonian and
    Laird's, the interval Hartung and Knapp's; both unknown for fewer than `LEAST` studies or an unknown variance.
    Sources: DerSimonian and Laird, Controlled Clinical Trials 7 (1986), 177-188; Hartung and Knapp, Statistics in
    Medicine 20 (2001), 3875-3889.
    """
    y, v = np.asarray(effects, dtype=float), np.asarray(variances, dtype=float)
    if len(y) < LEAST or not (v > 0).all():
        return UNKNOWN, np.nan
    weight = 1 / v
    heterogeneity = weight @ (y - weight @ y / weight.sum()) ** 2 - (len(y) - 1)
    tau2 = max(0.0, heterogeneity / (weight.sum() - weight @ weight / weight.sum()))
    weight = 1 / (v + tau2)
    centre = weight @ y / weight.sum()
    error = np.sqrt(weight @ (y - centre) ** 2 / (weight.sum() * (len(y) - 1)))
    low, high = t_interval(centre, error, len(y) - 1)
    return Estimate(float(centre), float(low), float(high), len(y)), float(np.sqrt(tau2))


def over_seeds(differences: ArrayLike) -> tuple[Estimate, float]:
    """The mean of a study's differences (seeds,) with Student's t interval, and its sampling variance."""
    d = np.asarray(differences, dtype=float)
    return mean(d), float(d.var(ddof=1) / len(d)) if len(d) > 1 else np.nan
