"""The step in which an accuracy moves: one image of the evaluated split."""

import numpy as np
from numpy.typing import ArrayLike

MOST_IMAGES = 100_000
"""The largest split whose size `accuracy_step` recognises."""


def accuracy_step(accuracies: ArrayLike) -> float:
    """The largest step of which every accuracy (values,) is a multiple: 1/N for the smallest such number of images N.

    With few different values N can be a divisor of the true size; the step is then too large, which makes intervals wider.
    0 where no N up to `MOST_IMAGES` fits, that is for values that are not shares of images.
    """
    values = np.ravel(np.asarray(accuracies, dtype=float))
    values = np.unique(values[np.isfinite(values)])
    sizes = np.arange(1, MOST_IMAGES + 1)
    for value in values:  # each value leaves fewer sizes
        images = value * sizes
        sizes = sizes[np.abs(images - np.rint(images)) <= 1e-9 + 1e-7 * sizes]
    return 1.0 / float(sizes[0]) if len(values) and len(sizes) else 0.0
