"""The share of the spread between seeds that is no noise of the test set: by hand, and by simulation."""

import math
from pathlib import Path

import numpy as np
import pytest

from analysis.sources.hits import by_variant
from analysis.sources.read import read
from analysis.stats import remaining_share, seed_ratios

REFERENCE = Path(__file__).resolve().parents[3] / "analysis" / "reference"


def closed_form(hits: np.ndarray) -> float:
    """1 - noise / variance, for infinitely many images: N / (N - 1) corrects for the noise that images share."""
    s, n = hits.shape
    of_images = hits.mean(axis=0)
    noise = (s / (s - 1) * of_images * (1 - of_images)).sum() / n**2
    return n / (n - 1) * (1 - noise / hits.mean(axis=1).var(ddof=1))


def test_the_share_that_remains_by_hand() -> None:
    """Seeds with 3/4 and 1/4; two images that differ: 2 * 1/4 each, over 16. So 4/3 (1 - (1/16) / (1/8)) = 2/3."""
    hits = np.array([[1, 1, 1, 0], [1, 0, 0, 0]])
    assert remaining_share(seed_ratios([hits])) == pytest.approx(2 / 3) == closed_form(hits)


@pytest.mark.parametrize("hits", [[], [[[1, 0, 1]]], [[[1, 0], [1, 0]]], [np.ones((5, 20))], [[[1, 0], [0, 1]]]])
def test_without_a_spread_between_seeds_no_share_is_known(hits: list) -> None:
    assert math.isnan(remaining_share(seed_ratios(hits)))


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7])
def test_the_share_that_remains_is_that_of_generated_runs(share: float) -> None:
    """Runs whose true accuracies have a known variance `of_runs`; each study has 6 x 5 runs on new images.

    Image i alone is hit with p between 0.2 and 0.8, where the mean of p (1 - p) is 0.22, and a run adds its own part.
    """
    generator, n, ratio = np.random.default_rng(int(10 * share)), 500, share / (1 - share)
    of_runs = 0.22 * ratio / (n + ratio)  # so that of_runs = ratio (0.22 - of_runs) / n
    ratios = []
    for _ in range(1000):
        image = generator.uniform(0.2, 0.8, size=(6, 1, n))
        run = math.sqrt(of_runs) * generator.standard_normal((6, 5, 1))
        found = remaining_share(seed_ratios(generator.random((6, 5, n)) < image + run))
        ratios.append(1 / (1 - found))
    assert 1 - 1 / np.mean(ratios) == pytest.approx(share, abs=0.03)


def test_runs_that_hit_images_independently_leave_no_share() -> None:
    """The variance of their means is that of independent hits: the estimate of the share scatters around 0."""
    generator = np.random.default_rng(3)
    found = remaining_share(seed_ratios(generator.random((40, 10, 300)) < generator.random((40, 1, 300))))
    assert abs(found) < 0.15


def test_the_share_of_a_reference_study_is_that_of_the_closed_form() -> None:
    """All its variants have five seeds, so their ratios of mean squares have equal weights."""
    study = read(str(REFERENCE / "table-8-cifar10"))
    variants = [runs.hits.astype(float) for runs in by_variant(study.of("finished"), study.hits).values()]
    ratios = [1 / (1 - closed_form(hits)) for hits in variants]
    assert remaining_share(seed_ratios(variants)) == pytest.approx(1 - 1 / np.mean(ratios))
    assert (len(variants), round(100 * remaining_share(seed_ratios(variants)))) == (8, 61)
