"""Aggregates over datasets: rliable's definitions, its bootstrap intervals, coverage, and tests against scipy."""

import itertools

import numpy as np
import pytest
from rliable import metrics
from scipy import stats

from analysis.stats import aggregate
from analysis.stats.aggregate import aggregates, compare_averages, improvement, interquartile_mean, stratified_mean
from analysis.stats.comparisons import Rule, compare
from analysis.stats.looks import Looks

A = [[0.606, 0.797, 0.906], [0.605, 0.789, 0.904], [0.665, 0.819, 0.893], [0.537, 0.788, 0.9], [0.484, 0.796, 0.888]]
B = [[0.617, 0.816, 0.903], [0.535, 0.818, 0.904], [0.573, 0.812, 0.904], [0.615, 0.801, 0.905], [0.563, 0.797, 0.895]]
NO_FLOOR = (0.0, 0.0, 0.0)


def strata(scores):
    """rliable's matrix (runs, datasets) as one array for each dataset."""
    return list(np.asarray(scores, dtype=float).T)


@pytest.mark.parametrize(("runs", "datasets"), [(2, 2), (3, 5), (5, 3), (7, 2), (10, 4)])
def test_aggregates_are_those_of_rliable(runs, datasets):
    scores = np.random.default_rng(runs).random((runs, datasets)).round(2)  # with ties
    found = aggregates(strata(scores), [0.0] * datasets)
    four = np.repeat(scores, 4, axis=0)  # a quarter of these runs is a whole number: rliable rounds others down
    assert interquartile_mean(strata(scores)) == pytest.approx(metrics.aggregate_iqm(four), rel=1e-12)
    assert ("iqm" in found) == (datasets >= 5)
    assert found["mean"].estimate.value == pytest.approx(metrics.aggregate_mean(scores), rel=1e-12)
    if datasets > 2:
        assert found["median"].estimate.value == pytest.approx(metrics.aggregate_median(scores), rel=1e-12)
    else:  # the median of two datasets is their mean
        assert "median" not in found


@pytest.mark.parametrize("lower_is_better", [False, True])
@pytest.mark.parametrize(("runs", "datasets"), [(2, 2), (5, 3), (10, 4)])
def test_the_probability_of_improvement_is_that_of_rliable(runs, datasets, lower_is_better):
    a, b = np.random.default_rng(runs).random((2, runs, datasets)).round(1)
    expected = metrics.probability_of_improvement(*((b, a) if lower_is_better else (a, b)))
    found = improvement(strata(a), strata(b), lower_is_better)
    assert found.estimate.value == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("scores", "name", "low", "high"),
    [
        (A, "mean", 0.7394, 0.7764),
        (A, "median", 0.79, 0.8086),
        (B, "mean", 0.75427, 0.77333),
        (B, "median", 0.8016, 0.816),
    ],
)
def test_percentile_intervals_are_those_of_rliable(scores, name, low, high):
    """The numbers are from rliable 1.2.0 with arch 7.2.0 and pandas 2.3.3 (arch does not import with pandas 3):

    np.random.seed(0)
    library.get_interval_estimates({"a": A, "b": B}, lambda x: np.array([metrics.aggregate_mean(x)]), reps=50_000)

    and the same with `aggregate_median`. Both bootstraps draw at random, so they agree to 0.001.
    """
    assert aggregates(strata(scores), NO_FLOOR)[name].percentile == pytest.approx((low, high), abs=0.001)


def test_the_probability_of_improvement_resamples_seeds_of_both_variants_together():
    """Against all 27 x 27 joint resamples of three seeds in two datasets."""
    a, b = np.array([[3.0, 1.0], [5.0, 4.0], [9.0, 6.0]]), np.array([[2.0, 5.0], [6.0, 2.0], [7.0, 3.0]])
    draws = list(itertools.product(range(3), repeat=3))
    share = {
        (k, draw): np.mean([[x > y for y in b[list(draw), k]] for x in a[list(draw), k]])
        for k in (0, 1)
        for draw in draws
    }
    every = [(share[0, one] + share[1, other]) / 2 for one in draws for other in draws]
    assert improvement(strata(a), strata(b)).percentile == pytest.approx(np.percentile(every, (2.5, 97.5)), abs=0.03)


def test_datasets_with_different_numbers_of_runs_have_the_same_weight():
    """Two runs and three runs: each run counts three and two times, so 3 of 12 values are cut at each end."""
    samples = [np.array([0.9, 0.7]), np.array([0.1, 0.2, 0.3])]
    copies = np.concatenate([np.repeat(samples[0], 3), np.repeat(samples[1], 2)])
    assert interquartile_mean(samples) == pytest.approx(stats.trim_mean(copies, 0.25), rel=1e-12)
    assert aggregates(samples, (0.0, 0.0))["mean"].estimate.value == pytest.approx(0.5)


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
        (0.008, 10, False, "not enough evidence"),
    ],
)
def test_verdicts(shift, spread, lower, verdict):
    samples = [spread * np.array([-0.004, -0.002, 0.0, 0.002, 0.004]) + shift] * 2
    assert compare_averages({"v": samples}, (0.0, 0.0), Rule(0.01, lower_is_better=lower))["v"].verdict == verdict


def test_equal_accuracies_do_not_give_an_interval_without_width():
    """All runs have 360 of 360 images correct. Half an image is the smallest standard deviation of a run."""
    found = aggregates([np.ones(5)] * 6, [0.5 / 360] * 6)["iqm"].estimate
    half = stats.t.ppf(0.975, 24) * 0.5 / 360 / np.sqrt(15)  # half of thirty runs
    assert (found.low, found.high) == pytest.approx((1 - half, 1 + half), rel=1e-9)
    one_run = aggregates([np.array([0.5]), np.array([0.7, 0.8])], (0.01, 0.01))["mean"].estimate
    assert one_run.value == pytest.approx(0.625) and np.isnan(one_run.low)


def test_probability_of_improvement_has_an_interval_where_all_runs_win():
    """15 wins in 15 disjoint pairs: the lower bound is the probability with which 15 wins have a chance of 2.5 %."""
    found = improvement([np.ones(5)] * 3, [np.zeros(5)] * 3)
    assert found.percentile == (1.0, 1.0) and found.estimate.value == found.estimate.high == 1.0
    assert found.estimate.low == pytest.approx(0.025 ** (1 / 15), rel=1e-9)


@pytest.mark.parametrize(
    ("spreads", "means"), [((1, 1, 1), (0, 0, 0)), ((3, 1, 1), (0, 9, 18))], ids=["equal datasets", "unequal datasets"]
)
def test_intervals_cover_the_truth_and_percentile_intervals_do_not(spreads, means, monkeypatch):
    """Three datasets, five seeds, 400 studies. The limits are two and three standard errors from 95 %."""
    monkeypatch.setattr(aggregate, "REPLICATES", 1000)
    generator, covered = np.random.default_rng(5), dict.fromkeys(("mean", "median", "percentile"), 0)
    truth = np.mean(means), np.median(means)
    for _ in range(400):
        found = aggregates([generator.normal(*each, 5) for each in zip(means, spreads)], NO_FLOOR)
        for name, value in zip(("mean", "median"), truth):
            covered[name] += found[name].estimate.low <= value <= found[name].estimate.high
        covered["percentile"] += found["mean"].percentile[0] <= truth[0] <= found["mean"].percentile[1]
    error = np.sqrt(0.95 * 0.05 / 400)
    assert min(covered["mean"], covered["median"]) / 400 > 0.95 - 3 * error
    assert covered["percentile"] / 400 < 0.95 - 2 * error  # why reports do not use them


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_the_interquartile_mean_of_unlike_datasets_covers_its_truth_for_any_number_of_seeds(seeds, monkeypatch):
    """Seven datasets; the truth is that of endless seeds. Where the number of runs cut is rounded, 0 to 39 % are covered."""
    monkeypatch.setattr(aggregate, "REPLICATES", 500)
    means = (0, 40, 80, 84, 86, 88, 90)
    endless = np.add.outer(stats.norm.ppf((np.arange(4000) + 0.5) / 4000), means)
    truth, generator = stats.trim_mean(endless.ravel(), 0.25), np.random.default_rng(seeds)
    found = [aggregates([generator.normal(mean, 1, seeds) for mean in means], [0.0] * 7)["iqm"] for _ in range(200)]
    covered = np.mean([each.estimate.low <= truth <= each.estimate.high for each in found])
    assert covered > 0.95 - 3 * np.sqrt(0.95 * 0.05 / 200)


def test_planned_looks_of_one_dataset_are_those_of_a_paired_comparison():
    """On one dataset the average is the paired t test, whose planned looks `compare` has. A seed without a value counts too."""
    diffs = np.array([0.02, 0.05, np.nan, 0.03, 0.06, -0.01, 0.0, 0.01, -0.02, 0.02])
    rule = Rule(margin=0.01, looks=Looks((5, 10), tuple(range(10))))
    (found,) = compare_averages({"v": [diffs]}, (0.0,), rule).values()
    values = {"v": dict(enumerate(diffs)), "none": dict.fromkeys(range(10), 0.0)}
    (expected,) = compare(values, [("v", "none")], rule).values()
    assert found.p_holm == pytest.approx(expected.p_holm, rel=1e-9) and found.verdict == expected.verdict
    assert (found.diff.low, found.diff.high) == pytest.approx((expected.diff.low, expected.diff.high), rel=1e-9)
    assert found.diff.n == 9
