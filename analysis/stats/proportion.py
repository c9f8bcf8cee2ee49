"""Proportions with exact binomial intervals."""

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from analysis.stats.estimates import Estimate, estimates


def proportion(hits: ArrayLike, n: ArrayLike, level: float = 0.95) -> list[Estimate]:
    """`hits` of `n` trials as shares with Clopper and Pearson's intervals, elementwise; hits may be halves (ties).

    The interval never covers less often than stated. NaN where n is 0.
    Source: Clopper and Pearson, Biometrika 26 (1934), 404-413.
    """
    hits, n = np.atleast_1d(np.asarray(hits, dtype=float)), np.atleast_1d(np.asarray(n, dtype=int))
    tail = (1 - level) / 2
    low = np.where(hits > 0, special.betaincinv(np.maximum(hits, 0.5), n - hits + 1, tail), 0.0)
    high = np.where(hits < n, special.betaincinv(hits + 1, np.maximum(n - hits, 0.5), 1 - tail), 1.0)
    share = np.where(n > 0, hits / np.maximum(n, 1), np.nan)
    return estimates(
        share, np.where(n > 0, low, np.nan), np.where(n > 0, high, np.nan), np.broadcast_to(n, share.shape)
    )
