"""Averages over datasets: their coverage, and tests against scipy."""

import numpy as np
import pytest
from scipy import stats

from analysis.stats.aggregate import average, compare_averages, stratified_mean
from analysis.stats.comparisons import Rule, compare
from analysis.stats.looks import Looks


def test_datasets_with_different_numbers_of_runs_have_the_same_weight():
    found = average([np.array([0.9, 0.7]), np.array([0.1, 0.2, 0.3])], (0.0, 0.0))
    assert found.value == pytest.approx(0.5) and found.n == 5


def test_the_error_of_a_mean_over_two_datasets_is_welchs():
    """The mean of d1 and d2 differs from zero as d1 differs from -d2."""
    generator = np.random.default_rng(3)
    one, two = generator.normal(0.02, 0.01, 5), generator.normal(-0.004, 0.03, 8)
    expected = stats.ttest_ind(one, -two, equal_var=False)
    found = compare_averages({"v": [one, two]}, (0.0, 0.0), Rule(margin=0.001))["v"]
    interval = expected.confidence_interval()
    assert found.p == pytest.approx(expected.pvalue, rel=1e-9)
    assert (found.diff.low, found.diff.high) == pytest.approx((interval.low / 2, interval.high / 2), rel=1e-9)
    assert stratified_mean([one, two], (0.0, 0.0))[2] == pytest.approx(expected.df, rel=1e-9)


@pytest.mark.parametrize(
    ("shift", "spread", "lower", "verdict"),
    [
        (0.05, 1, False, "better"),
        (0.05, 1, True, "worse"),
        (0.0005, 1, False, "equivalent"),
        (0.008, 10, False, "not shown"),
    ],
)
def test_verdicts(shift, spread, lower, verdict):
    samples = [spread * np.array([-0.004, -0.002, 0.0, 0.002, 0.004]) + shift] * 2
    assert compare_averages({"v": samples}, (0.0, 0.0), Rule(0.01, lower_is_better=lower))["v"].verdict == verdict


def test_equal_accuracies_do_not_give_an_interval_without_width():
    """All runs have 360 of 360 images correct. Half an image is the smallest standard deviation of a run."""
    found = average([np.ones(5)] * 6, [0.5 / 360] * 6)
    half = stats.t.ppf(0.975, 24) * 0.5 / 360 / np.sqrt(30)  # thirty runs
    assert (found.low, found.high) == pytest.approx((1 - half, 1 + half), rel=1e-9)
    one_run = average([np.array([0.5]), np.array([0.7, 0.8])], (0.01, 0.01))
    assert one_run.value == pytest.approx(0.625) and np.isnan(one_run.low)


@pytest.mark.parametrize(
    ("spreads", "means"), [((1, 1, 1), (0, 0, 0)), ((3, 1, 1), (0, 9, 18))], ids=["equal datasets", "unequal datasets"]
)
def test_intervals_cover_the_truth(spreads, means):
    """Three datasets, five seeds, 400 studies. The limit is three standard errors from 95 %."""
    generator, covered = np.random.default_rng(5), 0
    for _ in range(400):
        found = average([generator.normal(*each, 5) for each in zip(means, spreads)], (0.0, 0.0, 0.0))
        covered += found.low <= np.mean(means) <= found.high
    assert covered / 400 > 0.95 - 3 * np.sqrt(0.95 * 0.05 / 400)


def test_planned_looks_of_one_dataset_are_those_of_a_paired_comparison():
    """On one dataset the average is the paired t test, whose planned looks `compare` has.

    A seed without a value counts too.
    """
    diffs = np.array([0.02, 0.05, np.nan, 0.03, 0.06, -0.01, 0.0, 0.01, -0.02, 0.02])
    rule = Rule(margin=0.01, looks=Looks((5, 10), tuple(range(10))))
    (found,) = compare_averages({"v": [diffs]}, (0.0,), rule).values()
    values = {"v": dict(enumerate(diffs)), "none": dict.fromkeys(range(10), 0.0)}
    (expected,) = compare(values, [("v", "none")], rule).values()
    assert found.p_adjusted == pytest.approx(expected.p_adjusted, rel=1e-9) and found.verdict == expected.verdict
    assert (found.diff.low, found.diff.high) == pytest.approx((expected.diff.low, expected.diff.high), rel=1e-9)
    assert found.diff.n == 9
