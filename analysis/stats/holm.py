"""Holm's adjustment of p-values for testing several hypotheses at once."""

import numpy as np
from numpy.typing import ArrayLike


def holm(p: ArrayLike) -> np.ndarray:
    """Holm's step-down adjustment along the last axis of p (..., family). NaN was not tested: it stays and does not count.

    Source: Holm, Scandinavian J. Statistics 6 (1979), 65-70.
    """
    p = np.asarray(p, dtype=float)
    order = np.argsort(p, axis=-1)  # NaN last
    left = np.isfinite(p).sum(axis=-1, keepdims=True) - np.arange(p.shape[-1])
    stepped = np.maximum.accumulate(np.take_along_axis(p, order, axis=-1) * np.maximum(left, 1), axis=-1)
    adjusted = np.empty_like(p)
    np.put_along_axis(adjusted, order, np.minimum(stepped, 1.0), axis=-1)
    return adjusted
