"""What the simulations of error rates share."""

import numpy as np

from analysis import verdicts

ALPHA, SD = 0.05, 0.006


def at_most(rate: float, hits: np.ndarray) -> bool:
    """Whether the share of hits is compatible with a true rate of at most `rate`: within three standard errors."""
    return bool(hits.mean() <= rate + 3 * np.sqrt(rate * (1 - rate) / hits.size))


def factorial(frame, factors, metric="acc", **options):
    """The effects of factors from a frame with a row for each run."""
    cells = frame.pivot_table(index=factors, columns="seed", values=metric, sort=False)
    levels = dict(zip(factors, zip(*cells.index))) if len(factors) > 1 else {factors[0]: cells.index}
    return verdicts.factorial(cells.to_numpy(), levels, **options)
