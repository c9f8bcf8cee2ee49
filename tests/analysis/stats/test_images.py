"""Intervals for new seeds and new test images: by hand, against statsmodels, and by simulation."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest, chi2, t
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from analysis.sources.hits import by_variant
from analysis.sources.read import read
from analysis.stats import over_images, remaining_share, seed_ratios

REFERENCE = Path(__file__).resolve().parents[3] / "analysis" / "reference"


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


def closed_form(hits: np.ndarray) -> float:
    """1 - noise / variance, for infinitely many images: N / (N - 1) corrects for the noise that images share."""
    s, n = hits.shape
    of_images = hits.mean(axis=0)
    noise = (s / (s - 1) * of_images * (1 - of_images)).sum() / n**2
    return n / (n - 1) * (1 - noise / hits.mean(axis=1).var(ddof=1))


def test_the_share_that_remains_by_hand() -> None:
    """Seeds with 3/4 and 1/4; two images that differ: 2 * 1/4 each, over 16. So 4/3 (1 - (1/16) / (1/8)) = 2/3."""
    hits = np.array([[1, 1, 1, 0], [1, 0, 0, 0]])
    found = remaining_share(seed_ratios([hits]))
    assert found.value == pytest.approx(2 / 3) == closed_form(hits) and found.n == 2
    assert (found.low, found.high) == pytest.approx(tuple(1 - chi2.ppf([0.975, 0.025], 1) / 3))


@pytest.mark.parametrize("hits", [[], [[[1, 0, 1]]], [[[1, 0], [1, 0]]], [np.ones((5, 20))], [[[1, 0], [0, 1]]]])
def test_without_a_spread_between_seeds_no_share_is_known(hits: list) -> None:
    found = remaining_share(seed_ratios(hits))
    assert math.isnan(found.value) and math.isnan(found.low) and found.n == 0


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7])
def test_the_share_that_remains_is_that_of_generated_runs(share: float) -> None:
    """Runs whose true accuracies have a known variance `of_runs`; each study has 6 x 5 runs on new images.

    Image i alone is hit with p between 0.2 and 0.8, where the mean of p (1 - p) is 0.22, and a run adds its own part.
    """
    generator, n, ratio = np.random.default_rng(int(10 * share)), 500, share / (1 - share)
    of_runs = 0.22 * ratio / (n + ratio)  # so that of_runs = ratio (0.22 - of_runs) / n
    ratios, covered = [], []
    for _ in range(1000):
        image = generator.uniform(0.2, 0.8, size=(6, 1, n))
        run = math.sqrt(of_runs) * generator.standard_normal((6, 5, 1))
        found = remaining_share(seed_ratios(generator.random((6, 5, n)) < image + run))
        ratios.append(1 / (1 - found.value))
        covered.append(found.low <= share <= found.high)
    assert 1 - 1 / np.mean(ratios) == pytest.approx(share, abs=0.03)
    assert 0.93 < np.mean(covered) < 0.97


def test_runs_that_hit_images_independently_leave_no_share() -> None:
    """The variance of their means is that of independent hits: the estimate of the share scatters around 0."""
    generator = np.random.default_rng(3)
    found = remaining_share(seed_ratios(generator.random((40, 10, 300)) < generator.random((40, 1, 300))))
    assert found.low < 0 < found.high and abs(found.value) < 0.15


def test_the_share_of_a_reference_study_is_that_of_the_closed_form() -> None:
    """All its variants have five seeds, so their ratios of mean squares have equal weights."""
    study = read(str(REFERENCE / "table-8-cifar10"))
    variants = [runs.hits.astype(float) for runs in by_variant(study.of("finished"), study.hits).values()]
    ratios = [1 / (1 - closed_form(hits)) for hits in variants]
    assert remaining_share(seed_ratios(variants)).value == pytest.approx(1 - 1 / np.mean(ratios))
    assert (len(variants), round(100 * remaining_share(seed_ratios(variants)).value)) == (8, 61)
