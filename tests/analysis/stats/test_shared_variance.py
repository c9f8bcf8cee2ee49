"""Shared variances against scipy's distributions, and the error rates of tests and intervals made with them."""

from itertools import combinations

import numpy as np
import pytest
from scipy import optimize
from scipy import stats as scipy_stats
from simulation import ALPHA, at_most

from analysis.stats.comparisons import Rule, holm, verdicts
from analysis.stats.differences import differences
from analysis.stats.looks import Looks
from analysis.stats.shared_variance import SHARES, can_share, shared_variance


def pairs(variants: int) -> np.ndarray:
    return np.array(list(combinations(range(variants), 2))).T


def runs(variants: int, n: int, spread: str = "equal", noise: str = "normal", shift: float = 0.0, studies: int = 2000):
    """Values (studies, variants, n) of standard deviation 1 but for some variants, half of them `shift` higher; the
    true means.
    """
    rng = np.random.default_rng([variants, n, len(spread), len(noise)])
    sd = np.ones((studies, variants))
    if spread == "x3":
        sd[:, : max(1, variants // 4)] = 3
    elif spread == "log-normal":
        sd = np.exp(0.5 * rng.normal(size=sd.shape))
    elif spread == "tiny":
        sd[:, 0] = 0.05
    shape = (studies, variants, n)
    draws = rng.normal(size=shape) if noise == "normal" else rng.standard_t(5, size=shape) / np.sqrt(5 / 3)
    means = np.where(np.argsort(rng.random(sd.shape), axis=1) < variants // 2, shift, 0.0)
    return means[..., None] + sd[..., None] * draws, means, sd


def test_the_prior_is_the_most_likely_one_and_weighs_its_degrees_of_freedom_by_its_likelihood():
    x = np.random.default_rng(0).normal(size=(6, 5)) * np.array([1, 1, 1, 1, 2, 0.5])[:, None]
    s2, d, found = x.var(axis=1, ddof=1), 4, shared_variance(x)

    def log_likelihood(scale: float, d0: float) -> float:
        return scipy_stats.f(d, d0, scale=scale).logpdf(s2).sum()

    expected = []
    for d0 in d * SHARES / (1 - SHARES):
        best = optimize.minimize_scalar(
            lambda log, d0=d0: -log_likelihood(np.exp(log), d0), bounds=(-5, 5), method="bounded"
        )
        expected.append(-best.fun - np.log(6 * d * d0 / (d + d0 + 2)) / 2)
        shrunk = (d0 * np.exp(best.x) + d * s2) / (d0 + d)
        np.testing.assert_allclose(found.variance[len(expected) - 1], np.maximum(s2, shrunk), rtol=1e-3)
    weights = np.exp(np.array(expected) - max(expected))
    np.testing.assert_allclose(found.weights, weights / weights.sum(), rtol=1e-3)


def test_variances_shrink_upward_only_and_an_outlier_keeps_its_own_degrees_of_freedom():
    x = np.random.default_rng(1).normal(size=(8, 5)) * np.array([1, 1, 1, 1, 1, 1, 1, 6])[:, None]
    found = shared_variance(x)
    assert (found.variance >= 0.999999 * x.var(axis=1, ddof=1)).all()
    df = found.weights @ found.df
    assert 4 <= df[7] < 4.5 and df[:7].min() > df[7] + 1


def test_the_order_of_variants_and_seeds_and_the_unit_do_not_matter():
    x = np.random.default_rng(2).normal(size=(5, 6))
    first, second = pairs(5)
    expected = differences(x, first, second)
    order = np.array([3, 1, 4, 0, 2])
    place = np.argsort(order)
    again = differences(1000 * x[order][:, ::-1], place[first], place[second])
    np.testing.assert_allclose(again.t_test(), expected.t_test(), rtol=1e-6)
    np.testing.assert_allclose(again.half_width(0.95), 1000 * expected.half_width(0.95), rtol=1e-6)


def test_few_variants_few_seeds_or_little_spread_leave_the_paired_t_test():
    x = np.random.default_rng(3).normal(size=(6, 5))
    assert can_share(x)
    assert not can_share(x[:3]) and not can_share(x[:, :4])
    assert not can_share(np.where(np.arange(6)[:, None] < 4, 1.0, x))
    first, second = pairs(3)
    paired = differences(x[:3], first, second)
    np.testing.assert_allclose(paired.t_test(), scipy_stats.ttest_rel(x[first], x[second], axis=1).pvalue)
    half = scipy_stats.t.ppf(0.975, 4) * (x[first] - x[second]).std(axis=1, ddof=1) / np.sqrt(5)
    np.testing.assert_allclose(paired.half_width(0.95), half)


def test_a_variant_with_few_finished_runs_is_compared_by_its_own_spread():
    x = np.random.default_rng(4).normal(size=(6, 5))
    x[0, 3:] = np.nan
    first, second = pairs(6)
    found = differences(x, first, second)
    assert found.variance == "shared"
    own = scipy_stats.ttest_rel(x[0, :3], x[1, :3]).pvalue
    assert found.t_test()[0] == pytest.approx(own)
    assert found.sharing[-1] > 1.5


@pytest.mark.parametrize("spread", ["equal", "x3", "log-normal", "tiny"])
@pytest.mark.parametrize(("variants", "n", "noise"), [(4, 5, "normal"), (4, 10, "t5"), (8, 5, "normal")])
def test_false_verdicts_and_intervals_hold_whatever_the_spread(variants, n, spread, noise):
    first, second = pairs(variants)
    for shift in (0.0, 4.0):
        x, means, sd = runs(variants, n, spread, noise, shift)
        found, true = differences(x, first, second), means[:, first] - means[:, second]
        p, q = holm(found.t_test()), holm(found.tost(4.0))
        for false in ((true == 0) & (p <= ALPHA), (true != 0) & (q <= ALPHA)):  # two families
            assert at_most(ALPHA, false.any(axis=1))
        inside = found.t_test(true) > ALPHA  # the interval covers the true difference
        widest = np.argmax(sd[:, first] ** 2 + sd[:, second] ** 2, axis=1)
        assert inside.mean() >= 0.94
        assert np.mean(inside[np.arange(len(x)), widest]) >= 0.93


@pytest.mark.parametrize(("variants", "paired_power", "power"), [(4, 0.70, 0.90), (8, 0.30, 0.78)])
def test_differences_of_three_standard_deviations_are_found_far_more_often(variants, paired_power, power):
    first, second = pairs(variants)
    x, means, _ = runs(variants, 5, shift=3.0)
    differ = means[:, first] != means[:, second]
    for variance, check in (("paired", lambda share: share < paired_power), ("shared", lambda share: share > power)):
        found = holm(differences(x, first, second, variance=variance).t_test()) <= ALPHA
        assert check(np.mean(found[differ]))


def test_the_correlation_over_seeds_is_a_lower_limit():
    rng = np.random.default_rng(5)
    for true in (0.0, 0.5):
        x = np.sqrt(1 - true) * rng.normal(size=(4000, 6, 8)) + np.sqrt(true) * rng.normal(size=(4000, 1, 8))
        limit = shared_variance(x).correlation
        assert np.mean(limit > true) == pytest.approx(0.1, abs=0.03)


@pytest.mark.parametrize("spread", ["equal", "x3"])
def test_planned_looks_keep_the_level_over_all_looks(spread):
    plan, (first, second) = (5, 10), pairs(4)
    x, means, _ = runs(4, 10, spread, shift=4.0)
    at_looks = [differences(x[..., :n], first, second) for n in plan]
    true, false = means[:, first] - means[:, second], []
    for look, n in enumerate(plan, 1):
        sign = verdicts(at_looks[:look], Rule(4.0, looks=Looks(plan, tuple(range(n)))))[2]
        false.append(np.where(true == 0, np.abs(sign) == 1, sign == 0).any(axis=1))
    assert at_most(0.06, np.any(false, axis=0))


def test_a_failed_variant_does_not_change_what_the_others_tell():
    """Its missing seeds leave the pairing by seed of the others as it is."""
    rng = np.random.default_rng(6)
    x = 0.9 + 0.02 * rng.normal(size=5) + 0.002 * rng.normal(size=(5, 5))
    first, second = pairs(5)
    expected = differences(x, first, second)
    found = differences(np.vstack([x, np.full((1, 5), np.nan)]), first, second)
    np.testing.assert_allclose(found.t_test(), expected.t_test(), rtol=1e-9)


def test_runs_that_agree_seed_by_seed_have_the_floor_of_a_difference():
    x = np.array([[0.95, 0.90, 0.90, 0.95, 0.93]] * 4) + 0.01 * (np.arange(4) == 0)[:, None]
    found = differences(x, *pairs(4), floor=0.007)
    assert found.variance == "shared"
    assert (found.error >= 0.007 / np.sqrt(5)).all()


def test_one_common_seed_is_no_test():
    x = np.random.default_rng(7).normal(size=(5, 7))
    x[0, 4:], x[1, :3] = np.nan, np.nan
    found = differences(x, *pairs(5))
    assert found.variance == "shared" and found.n[0] == 1
    assert np.isnan(found.t_test()[0]) and np.isfinite(found.t_test()[1:]).all()


def test_an_interval_ends_where_its_test_has_p_of_five_percent_even_beside_a_wild_run():
    x = np.random.default_rng(8).normal(size=(4, 5))
    x[3, 0] = 1e9
    found = differences(x, *pairs(4))
    np.testing.assert_allclose(found.t_test(found.mean - found.half_width(0.95)), ALPHA, rtol=1e-3)


@pytest.mark.parametrize("correlation", [0.5, 0.9])
def test_seeds_that_lift_all_variants_alike_make_no_false_differences(correlation):
    x, _, _ = runs(4, 5)
    x = np.sqrt(1 - correlation) * x + np.sqrt(correlation) * np.random.default_rng(9).normal(size=(len(x), 1, 5))
    assert at_most(ALPHA, (holm(differences(x, *pairs(4)).t_test()) <= ALPHA).any(axis=1))
