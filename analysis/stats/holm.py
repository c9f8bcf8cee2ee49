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
    return _step_down(p, order, left)


def holm_exclusive(p: ArrayLike, q: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Adjust p and q (..., family) together, where of the two null hypotheses of a place at most one is true.

    For example "no difference" (p) and "a difference of a margin or more" (q). Among m places at most m null hypotheses
    are true, so Holm's factor starts at m instead of 2 m, and falls by one for each place whose hypotheses are both
    rejected. All false rejections together, of either kind, occur in at most alpha of all families.
    Source: Shaffer, J. American Statistical Association 81 (1986), 826-831.
    """
    both = np.concatenate([np.asarray(p, dtype=float), np.asarray(q, dtype=float)], axis=-1)
    places = both.shape[-1] // 2
    order = np.argsort(both, axis=-1)
    rank = np.argsort(order, axis=-1)
    complete = np.maximum(rank[..., :places], rank[..., places:])  # where a place's second hypothesis stands
    settled = np.zeros(both.shape, dtype=int)
    np.put_along_axis(settled, complete, 1, axis=-1)
    before = np.cumsum(settled, axis=-1) - settled
    tested = np.isfinite(both[..., :places]).sum(axis=-1, keepdims=True)
    adjusted = _step_down(both, order, tested - before)
    return adjusted[..., :places], adjusted[..., places:]


def _step_down(p: np.ndarray, order: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """p times the factor of its step (both in the order of the steps), at most 1 and never falling along the steps."""
    stepped = np.maximum.accumulate(np.take_along_axis(p, order, axis=-1) * np.maximum(factor, 1), axis=-1)
    adjusted = np.empty_like(p)
    np.put_along_axis(adjusted, order, np.minimum(stepped, 1.0), axis=-1)
    return adjusted
