"""Estimates of one sample against scipy, statsmodels and cases worked by hand."""

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats
from statsmodels.stats.weightstats import DescrStatsW

from analysis import verdicts
from analysis.verdicts.estimates import accuracy_step

NAN = float("nan")
CLOSE = {"rel": 1e-9, "abs": 1e-12}
A = [0.951, 0.962, 0.948, 0.957, 0.969, 0.944, 0.960]


@pytest.mark.parametrize("n", [2, 3, 5, 7])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_mean_has_students_interval(n, level):
    found = verdicts.mean(A[:n], level)
    low, high = DescrStatsW(A[:n]).tconfint_mean(alpha=1 - level)
    assert (found.value, found.low, found.high) == pytest.approx((np.mean(A[:n]), low, high), **CLOSE)
    assert found.n == n


@pytest.mark.parametrize(
    ("values", "value", "n"),
    [([], NAN, 0), ([0.5], 0.5, 1), ([0.5, NAN], 0.5, 1), ([0.5, 0.5], 0.5, 2), ([0.1] * 3, 0.1, 3)],
)
def test_values_without_spread_have_no_interval(values, value, n):
    found = verdicts.mean(values)
    assert found.value == pytest.approx(value, nan_ok=True)
    assert math.isnan(found.low) and math.isnan(found.high)
    assert found.n == n


def test_equal_accuracies_are_credited_with_half_an_image():
    found = verdicts.mean([0.9, 0.9, 0.9, 0.9], floor=0.005)  # of 100 images
    half = scipy_stats.t.isf(0.025, 3) * 0.005 / 2
    assert (found.low, found.high) == pytest.approx((0.9 - half, 0.9 + half), **CLOSE)


def test_a_wider_spread_than_the_floor_is_kept():
    assert verdicts.mean(A, floor=1e-4) == verdicts.mean(A)


def test_diverged_runs_are_left_out():
    assert verdicts.mean([1.0, NAN, 2.0, math.inf, 4.0]) == verdicts.mean([1.0, 2.0, 4.0])


@pytest.mark.parametrize("images", [100, 360, 1797, 10_000])
def test_step_of_an_accuracy_is_one_image(images):
    correct = np.random.default_rng(images).integers(images // 2, images, 20)
    assert accuracy_step(correct / images) == pytest.approx(1 / images, rel=1e-12)
    assert accuracy_step([*(correct / images).astype(np.float32), NAN]) == pytest.approx(1 / images, rel=1e-12)


def test_step_of_values_that_are_no_shares_of_images():
    assert accuracy_step(np.random.default_rng(0).uniform(size=20)) == 0.0
    assert accuracy_step([NAN]) == 0.0


@pytest.mark.parametrize(("hits", "n"), [(0, 5), (1, 5), (3, 5), (5, 5), (7, 10), (1, 1)])
def test_proportion_has_clopper_and_pearsons_interval(hits, n):
    (found,) = verdicts.proportion(hits, n)
    exact = scipy_stats.binomtest(hits, n).proportion_ci(method="exact")
    assert (found.value, found.low, found.high, found.n) == pytest.approx((hits / n, exact.low, exact.high, n), **CLOSE)


def test_proportion_of_no_trials_is_not_known():
    (found,) = verdicts.proportion(0, 0)
    assert math.isnan(found.value) and math.isnan(found.low) and found.n == 0
