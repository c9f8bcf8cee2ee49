"""A random-effects meta-analysis: the mean effect over independent studies, and the effect of a new study.

Arrays in, estimates out.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from analysis.stats.estimates import LEVEL, Estimate


@dataclass(frozen=True)
class MetaAnalysis:
    """What studies with different true effects say together; `n` of the estimates is the number of studies."""

    mean: Estimate
    """the mean of the true effects of all such studies, with its confidence interval"""
    new_study: Estimate
    """the same mean with the prediction interval of the true effect of one more study"""
    tau2: float
    """the variance of the true effects"""
    i2: float
    """the share of the variance between the observed effects that is not due to their standard errors"""


def meta_analysis(effects: ArrayLike, errors: ArrayLike, level: float = LEVEL) -> MetaAnalysis:
    """Combine the effects (studies,) of independent studies by their standard errors, which are positive.

    tau² is the estimate of Paule and Mandel. The confidence interval is that of Hartung, Knapp, Sidik and Jonkman with
    a scale of at least 1 (Knapp and Hartung, Statistics in Medicine 22 (2003), 2693-2710). With this tau² their scale
    is 1 where tau² > 0 and below 1 elsewhere, so the standard error is the usual one and only Student's t is left. The
    prediction interval is that of Higgins, Thompson and Spiegelhalter, J. Royal Statistical Society A 172 (2009),
    137-159; it takes three studies.
    """
    from statsmodels.stats.meta_analysis import combine_effects  # slow to import

    effects, errors = np.asarray(effects, dtype=float), np.asarray(errors, dtype=float)
    k = len(effects)
    with np.errstate(divide="ignore"):  # equal effects
        combined = combine_effects(effects, errors**2, method_re="pm")
    mean, error, tau2, q = (
        float(part) for part in (combined.mean_effect_re, combined.sd_eff_w_re, combined.tau2, combined.q)
    )
    of_mean = -special.stdtrit(k - 1, (1 - level) / 2) * error
    of_study = -special.stdtrit(k - 2, (1 - level) / 2) * np.hypot(error, np.sqrt(tau2))
    return MetaAnalysis(
        mean=Estimate(mean, mean - of_mean, mean + of_mean, k),
        new_study=Estimate(mean, mean - of_study, mean + of_study, k),
        tau2=tau2,
        i2=1 - (k - 1) / q if q > k - 1 else 0.0,
    )
