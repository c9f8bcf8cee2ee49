"""Linear classification of features by regularized least squares, as in big_vision's `fewshot_lsr`. numpy only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

BIAS = 100.0  # the value of the constant feature: so large that its weight is hardly regularized
EPSILON = 1e-5  # added to standard deviations


class LeastSquares:
    """The weights that minimize |X W - Y|^2 + l2 |W|^2, for any l2 > 0 from one eigendecomposition.

    X are the features, standardized by their own mean and standard deviation (plus `EPSILON`), and a constant feature
    `BIAS`. Y is 1 for the class of a row and -1 for the others. x: [N, D]; y: [N], classes from 0
    """

    def __init__(self, x: np.ndarray, y: np.ndarray, num_classes: int) -> None:
        x = np.asarray(x, dtype=np.float64)
        self.mean, self.std = x.mean(0), x.std(0) + EPSILON
        x = self.prepared(x)
        target = 2.0 * (np.asarray(y)[:, None] == np.arange(num_classes)) - 1.0  # [N, K]
        n, d = x.shape
        # W = (X'X + l2)^-1 X'Y = X' (XX' + l2)^-1 Y: the smaller of the two matrices is decomposed
        self.eigenvalues, q = np.linalg.eigh(x.T @ x if n >= d else x @ x.T)
        self.left: np.ndarray = q if n >= d else x.T @ q
        self.right: np.ndarray = q.T @ (x.T @ target if n >= d else target)

    def prepared(self, x: np.ndarray) -> np.ndarray:
        """Features standardized by the support set, with the constant feature last. [N, D] -> [N, D + 1]"""
        return np.pad((np.asarray(x, dtype=np.float64) - self.mean) / self.std, ((0, 0), (0, 1)), constant_values=BIAS)

    def weights(self, l2: float) -> np.ndarray:
        """The weights of the standardized features and the constant, [D + 1, K]."""
        return (self.left / (self.eigenvalues + l2)) @ self.right

    def accuracies(self, x: np.ndarray, y: np.ndarray, l2s: Sequence[float]) -> list[float]:
        """The accuracy (a fraction) for each l2: the class with the highest score counts. x: [N, D]; y: [N]"""
        x, y = self.prepared(x), np.asarray(y)
        return [float(((x @ self.weights(l2)).argmax(1) == y).mean()) for l2 in l2s]
