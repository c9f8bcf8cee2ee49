"""Intervals for new seeds and new test images: by hand, against statsmodels, and by simulation."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest, t
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from analysis.stats import over_images


def test_images_that_are_all_right_leave_the_exact_limit_for_new_images():
    found = over_images(np.ones((3, 12)), floor=1e-9).both
    exact = binomtest(12, 12).proportion_ci(0.95, "exact").low  # 73.5 %
    assert found.low == pytest.approx(exact) and found.value == 1


def test_three_seeds_and_two_images_by_hand() -> None:
    """Mean squares: seeds 3/2, images 3/2, rest 1/2. So the variance is (3/2 + 3/2 - 1/2) / 6."""
    found = over_images([[3, 1], [1, 0], [2, 2]])
    df = 2.5**2 / (1.5**2 / 2 + 1.5**2 / 1 + 0.5**2 / 2)
    half = t.ppf(0.975, df) * math.sqrt(2.5 / 6)
    assert (found.both.value, found.both.low, found.both.high) == pytest.approx((1.5, 1.5 - half, 1.5 + half))
    seeds = t.ppf(0.975, 2) * np.std([2, 0.5, 2], ddof=1) / math.sqrt(3)
    assert (found.seeds.low, found.seeds.high) == pytest.approx((1.5 - seeds, 1.5 + seeds))
    assert (found.images, found.both.n) == (2, 3)


def test_the_interval_follows_from_the_mean_squares_of_statsmodels() -> None:
    generator = np.random.default_rng(1)
    chance = 0.2 + 0.6 * generator.random(40)
    hits = generator.random((8, 40)) < np.clip(chance + np.linspace(-0.1, 0.1, 8)[:, None], 0, 1)
    seed, image = np.indices(hits.shape)
    table = pd.DataFrame({"hit": hits.ravel().astype(float), "seed": seed.ravel(), "image": image.ravel()})
    squares = anova_lm(ols("hit ~ C(seed) + C(image)", table).fit())["mean_sq"]
    by_seed, by_image, rest = (squares[name] for name in ("C(seed)", "C(image)", "Residual"))
    variance = (by_seed + by_image - rest) / hits.size
    df = (by_seed + by_image - rest) ** 2 / (by_seed**2 / 7 + by_image**2 / 39 + rest**2 / 273)
    found = over_images(hits).both
    assert found.high - found.value == pytest.approx(t.ppf(0.975, df) * math.sqrt(variance))


def test_without_a_seed_effect_only_the_images_count() -> None:
    """The seeds differ by less than the rest predicts: the variance is that of the means of the images."""
    hits = np.array([[1, 0, 1, 0, 1, 1, 0, 1], [0, 1, 1, 0, 1, 1, 1, 1], [1, 1, 0, 0, 1, 1, 1, 0]], dtype=bool)
    found = over_images(hits)
    of_images = hits.mean(axis=0)
    half = t.ppf(0.975, 7) * np.std(of_images, ddof=1) / math.sqrt(8)
    assert (found.both.low, found.both.high) == pytest.approx((hits.mean() - half, hits.mean() + half))


@pytest.mark.parametrize("hits", [[[1, 0, 1]], [[1], [0]]])
def test_one_seed_or_one_image_gives_no_interval(hits: list[list[int]]) -> None:
    found = over_images(hits)
    assert found.both.value == np.mean(hits)
    assert math.isnan(found.both.low)


@pytest.mark.parametrize("seed_sd", [0.0, 0.01, 0.03, 0.1])
@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_the_interval_covers_new_seeds_and_images_at_its_rate(seeds: int, seed_sd: float) -> None:
    """Both components present: 300 images with a standard deviation of 0.3, seeds from none to dominating."""
    generator = np.random.default_rng([seeds, int(1000 * seed_sd)])
    covered = []
    for _ in range(2000):
        seed = seed_sd * generator.standard_normal((seeds, 1))
        image, rest = 0.3 * generator.standard_normal(300), 0.2 * generator.standard_normal((seeds, 300))
        found = over_images(seed + image + rest).both
        covered.append(found.low <= 0 <= found.high)
    assert 0.935 < np.mean(covered) < 0.965  # 94 to 96 %, and one standard error of the simulation


def test_the_interval_covers_for_hits() -> None:
    """Hits of a logistic model with an effect of the seed and of the image."""
    generator = np.random.default_rng(0)
    truth = (1 / (1 + np.exp(-(1.5 + math.hypot(0.2, 2.0) * generator.standard_normal(4_000_000))))).mean()
    covered = []
    for _ in range(2000):
        logit = 1.5 + 0.2 * generator.standard_normal((5, 1)) + 2.0 * generator.standard_normal(300)
        found = over_images(generator.random((5, 300)) < 1 / (1 + np.exp(-logit))).both
        covered.append(found.low <= truth <= found.high)
    assert 0.935 < np.mean(covered) < 0.965
