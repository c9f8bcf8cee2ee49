"""What the simulations of error rates share."""

import numpy as np

ALPHA, SD = 0.05, 0.006


def at_most(rate: float, hits: np.ndarray) -> bool:
    """Whether the share of hits is compatible with a true rate of at most `rate`: within three standard errors."""
    return bool(hits.mean() <= rate + 3 * np.sqrt(rate * (1 - rate) / hits.size))
