"""The expected best of some trials of a random search, as a function of their number."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def expected_best(values: ArrayLike) -> np.ndarray:
    """The mean of the largest of n of the N values, over all choices of n, for n = 1 to N. Shape (N,).

    It is the expected validation performance of Dodge et al. ("Show Your Work", EMNLP 2019) without replacement, which is
    unbiased for independent trials (Tang et al., ACL 2020): of all choices of n, the share C(i - 1, n - 1) / C(N, n) has the
    i-th smallest value as its largest.
    """
    ordered = np.sort(np.asarray(values, dtype=float))
    total = len(ordered)
    rank = np.arange(total, 1, -1)  # N to 2
    best = np.empty(total)
    for n in range(1, total + 1):
        shares = np.concatenate([[n / total], n / total * np.cumprod(np.maximum(rank - n, 0) / (rank - 1))])
        best[n - 1] = shares @ ordered[::-1]
    return best
