"""A random-effects meta-analysis: the mean effect over independent studies, and the effect of a new study."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from analysis.stats.estimates import LEVEL, Estimate


class MetaAnalysis(NamedTuple):
    """The mean of the studies' true effects with its confidence interval, and with the prediction interval of one more.

    `tau2`: the variance of the true effects. `i2`: the share of the variance of the observed effects that is not due to
    their standard errors.
    """

    mean: Estimate
    new_study: Estimate
    tau2: float
    i2: float


def meta_analysis(effects: ArrayLike, errors: ArrayLike, level: float = LEVEL) -> MetaAnalysis:
    """Combine the effects (studies,) of independent studies by their standard errors, which are positive.

    tau² is the estimate of Paule and Mandel. The confidence interval is that of Hartung, Knapp, Sidik and Jonkman with
    a scale of at least 1 (Knapp and Hartung, Statistics in Medicine 22 (2003), 2693-2710). With this tau² their scale
    is 1 where tau² > 0 and below 1 elsewhere, so the standard error is the usual one and only Student's t is left. The
    prediction interval is that of Higgins, Thompson and Spiegelhalter, J. Royal Statistical Society A 172 (2009),
    137-159; it takes three studies.
    """
    from statsmodels.stats.meta_analysis import combine_effects  # slow to import

    k, variances = len(np.asarray(effects)), np.asarray(errors, dtype=float) ** 2
    with np.errstate(divide="ignore"):  # equal effects
        found = combine_effects(np.asarray(effects, dtype=float), variances, method_re="pm")
    mean, error, tau2, q = map(float, (found.mean_effect_re, found.sd_eff_w_re, found.tau2, found.q))
    half, wide = -special.stdtrit([k - 1, k - 2], (1 - level) / 2) * (error, np.hypot(error, np.sqrt(tau2)))
    of_mean, of_study = (Estimate(mean, mean - width, mean + width, k) for width in (half, wide))
    return MetaAnalysis(of_mean, of_study, tau2, 1 - (k - 1) / q if q > k - 1 else 0.0)
