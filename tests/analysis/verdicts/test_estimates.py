"""Estimates of one sample against scipy, statsmodels and cases worked by hand."""

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats
from statsmodels.stats.weightstats import DescrStatsW

from analysis import verdicts

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


def test_diverged_runs_are_left_out():
    assert verdicts.mean([1.0, NAN, 2.0, math.inf, 4.0]) == verdicts.mean([1.0, 2.0, 4.0])


@pytest.mark.parametrize(("hits", "n"), [(0, 5), (1, 5), (3, 5), (5, 5), (7, 10), (1, 1)])
def test_proportion_has_clopper_and_pearsons_interval(hits, n):
    (found,) = verdicts.proportion(hits, n)
    exact = scipy_stats.binomtest(hits, n).proportion_ci(method="exact")
    assert (found.value, found.low, found.high, found.n) == pytest.approx((hits / n, exact.low, exact.high, n), **CLOSE)


def test_proportion_of_no_trials_is_not_known():
    (found,) = verdicts.proportion(0, 0)
    assert math.isnan(found.value) and math.isnan(found.low) and found.n == 0
