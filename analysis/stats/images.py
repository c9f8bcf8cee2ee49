"""How much of the spread between seeds is noise of the finite test set. Arrays in, estimates out.

A hit belongs to a seed s and an image i: mean + seed effect + image effect + rest. The components are estimated from
mean squares (Searle, Casella & McCulloch, Variance Components (1992), section 4.3).
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from analysis.stats.estimates import RELATIVE_ROUNDING


def seed_ratios(variants: Iterable[ArrayLike]) -> list[tuple[int, float]]:
    """For each variant with hits (seeds, images) its number of seeds, and the mean square of seeds over the rest.

    Variants with fewer than two seeds or images, or without a rest, are left out.
    """
    hits = [values for values in map(np.asarray, variants) if min(values.shape) > 1]
    squares = [(len(values), *_mean_squares(values)) for values in hits]
    return [(s, seed / rest) for s, seed, rest in squares if rest > RELATIVE_ROUNDING]


def remaining_share(ratios: Sequence[tuple[int, float]]) -> float:
    """The share of the variance between seeds that would remain on infinitely many test images of the same kind.

    `ratios`: see `seed_ratios`. Of the variance of a seed's mean, seed + rest / N, only `seed` remains:
    the distribution-wise variance of Jordan, arXiv:2304.01910. The ratio F of the mean squares of seeds and of the rest
    estimates (seed + rest / N) / (rest / N), so the share is 1 - 1 / F, which can be below 0. The share counts as equal
    in all variants: F is the mean over them, weighted by S - 1. NaN without a variant, and where no seed differs from
    another.
    """
    df, total = sum(s - 1 for s, _ in ratios), sum((s - 1) * ratio for s, ratio in ratios)
    return 1 - df / total if total else float("nan")


def _mean_squares(values: np.ndarray) -> tuple[float, float]:
    """The mean squares of seeds and of the rest, of values (seeds, images) with at least two of both."""
    s, n = values.shape
    of_seeds, of_images = values.mean(axis=1, dtype=float), values.mean(axis=0, dtype=float)
    centre = of_seeds.mean()
    squares = np.einsum("si,si->", values, values, dtype=float) - s * n * centre**2
    by_seed = n * float(np.square(of_seeds - centre).sum())
    by_image = s * float(np.square(of_images - centre).sum())
    rest = max(float(squares) - by_seed - by_image, 0.0) / ((s - 1) * (n - 1))
    return by_seed / (s - 1), rest
