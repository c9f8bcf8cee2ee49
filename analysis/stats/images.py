"""Uncertainty over seeds and test images together: two-way random effects. Arrays in, estimates out.

A value belongs to a seed s and an image i: mean + seed effect + image effect + rest. The variance of the grand mean of
S seeds and N images is seed / S + image / N + rest / (S N). The components are estimated from mean squares.

Sources: Searle, Casella & McCulloch, Variance Components (1992), section 4.3; Miller, arXiv:2411.00640, on test
questions as a sample; Bouthillier et al., arXiv:2103.03098, on the sources of variance in benchmarks.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from analysis.stats.estimates import LEVEL, RELATIVE_ROUNDING, UNKNOWN, Estimate, mean, moments, t_interval


@dataclass(frozen=True)
class ImageEstimate:
    """A mean over seeds and test images, with two intervals.

    `seeds`: for new seeds on the same images. `both`: for new seeds and new images of the same kind.
    """

    seeds: Estimate
    both: Estimate
    images: int


def over_images(
    values: ArrayLike, level: float = LEVEL, floor: float = 0.0, for_seeds: Estimate | None = None
) -> ImageEstimate:
    """The mean of values (seeds, images), such as hits (0 or 1) or paired differences of hits (-1, 0 or 1).

    The interval for new seeds and images uses Student's t with Satterthwaite's degrees of freedom, and is at least as
    wide as the interval for new seeds: with five seeds or fewer, Satterthwaite's alone is too short where seeds
    dominate. It is NaN for fewer than two seeds or images, and where the spread over seeds is not known (see
    `moments`). `floor` is the smallest standard deviation of the means of the seeds. `for_seeds`: the interval for new
    seeds where other values tell more about it than these.
    """
    values = np.asarray(values)
    s, n = values.shape
    of_seeds = values.mean(axis=1, dtype=float)
    centre, deviation, _ = moments(of_seeds, floor)
    seeds = for_seeds or mean(of_seeds, level, floor)
    if s < 2 or n < 2:
        return ImageEstimate(seeds, Estimate(float(centre), float("nan"), float("nan"), s), n)
    _, image, rest = _mean_squares(values)
    seed = n * float(deviation) ** 2  # at least the floor's
    variance, df = _combined(seed, image, rest, s, n)
    low, high = t_interval(centre, np.sqrt(variance / (s * n)), df, level)
    # images without any spread: the exact limit for outcomes of n images that have not been seen (Clopper and Pearson,
    # Biometrika 26 (1934), 404-413)
    unseen = 1 - ((1 - level) / 2) ** (1 / n) if (values == values.flat[0]).all() else 0.0
    low, high = np.min([low, seeds.low, centre - unseen]), np.max([high, seeds.high, centre + unseen])
    return ImageEstimate(seeds, Estimate(float(centre), float(low), float(high), s), n)


def seed_ratios(variants: Iterable[ArrayLike]) -> list[tuple[int, float]]:
    """For each variant with hits (seeds, images) its number of seeds, and the mean square of seeds over the rest.

    Variants with fewer than two seeds or images, or without a rest, are left out.
    """
    hits = [values for values in map(np.asarray, variants) if min(values.shape) > 1]
    squares = [(len(values), *_mean_squares(values)) for values in hits]
    return [(s, seed / rest) for s, seed, _, rest in squares if rest > RELATIVE_ROUNDING]


def remaining_share(ratios: Sequence[tuple[int, float]], level: float = LEVEL) -> Estimate:
    """The share of the variance between seeds that would remain on infinitely many test images of the same kind.

    `ratios`: see `seed_ratios`. Of the variance of a seed's mean, seed + rest / N, only `seed` remains:
    the distribution-wise variance of Jordan, arXiv:2304.01910. The ratio F of the mean squares of seeds and of the rest
    estimates (seed + rest / N) / (rest / N), so the share is 1 - 1 / F, which can be below 0. The share counts as equal
    in all variants: F is the mean over them, weighted by S - 1. Its interval is that of chi-square, for independent
    runs with normally distributed means, as the rest has N - 1 times the degrees of freedom.

    `n`: the seeds used. NaN without a variant, and where no seed differs from another.
    """
    df, total = sum(s - 1 for s, _ in ratios), sum((s - 1) * ratio for s, ratio in ratios)
    if not total:
        return UNKNOWN
    tail = (1 - level) / 2
    low, high = (1 - float(special.chdtri(df, above)) / total for above in (tail, 1 - tail))
    return Estimate(1 - df / total, low, high, sum(s for s, _ in ratios))


def _mean_squares(values: np.ndarray) -> tuple[float, float, float]:
    """The mean squares of seeds, images and the rest, of values (seeds, images) with at least two of both."""
    s, n = values.shape
    of_seeds, of_images = values.mean(axis=1, dtype=float), values.mean(axis=0, dtype=float)
    centre = of_seeds.mean()
    squares = np.einsum("si,si->", values, values, dtype=float) - s * n * centre**2
    by_seed = n * float(np.square(of_seeds - centre).sum())
    by_image = s * float(np.square(of_images - centre).sum())
    rest = max(float(squares) - by_seed - by_image, 0.0) / ((s - 1) * (n - 1))
    return by_seed / (s - 1), by_image / (n - 1), rest


def _combined(seed: float, image: float, rest: float, s: int, n: int) -> tuple[float, float]:
    """S N times the variance of the grand mean, and its degrees of freedom, from the mean squares.

    It is seed + image - rest. A component below 0 counts as 0: then its mean square and that of the rest cancel.
    Source: Satterthwaite, Biometrics Bulletin 2 (1946), 110-114.
    """
    parts = [(square, df) for square, df in ((seed, s - 1), (image, n - 1)) if not square <= rest]
    if len(parts) != 1:
        parts.append((rest if not parts else -rest, (s - 1) * (n - 1)))
    variance = sum(square for square, _ in parts)
    spread = sum(square**2 / df for square, df in parts)
    return variance, variance**2 / spread if spread else float("nan")
