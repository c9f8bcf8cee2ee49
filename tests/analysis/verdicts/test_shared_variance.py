"""Standard errors of differences against scipy and statsmodels; `test_error_rates` simulates what follows from them."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy import optimize
from scipy import stats as scipy_stats
from simulation import ALPHA
from statsmodels.formula.api import ols

from analysis.verdicts.differences import differences
from analysis.verdicts.shared_variance import SHARES, can_share, residual_variances, shared_variance


def pairs(variants: int) -> np.ndarray:
    return np.array(list(combinations(range(variants), 2))).T


def least_squares(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Residual variances and their degrees of freedom by ordinary least squares on variant and seed (statsmodels)."""
    rows = [(v, s, value) for v, row in enumerate(x) for s, value in enumerate(row) if np.isfinite(value)]
    frame = pd.DataFrame(rows, columns=["variant", "seed", "value"])
    fit = ols("value ~ C(variant) + C(seed)", frame).fit()
    leverage = fit.get_influence().hat_matrix_diag
    square = pd.Series(fit.resid**2).groupby(frame["variant"]).sum()
    df = pd.Series(1 - leverage).groupby(frame["variant"]).sum()
    return (square / df).to_numpy(), df.to_numpy()


@pytest.mark.parametrize("missing", [[], [(0, 1)], [(0, 1), (0, 3), (2, 3), (4, 0)], [(3, s) for s in (2, 3, 4, 5)]])
def test_residual_variances_are_those_of_least_squares_with_and_without_missing_runs(missing):
    x = np.random.default_rng(0).normal(size=(5, 6)) * np.array([1, 1, 3, 1, 0.2])[:, None] + np.arange(6)
    for place in missing:
        x[place] = np.nan
    found, df = residual_variances(x)
    expected, expected_df = least_squares(x)
    np.testing.assert_allclose(found, expected, rtol=1e-8)
    np.testing.assert_allclose(df, expected_df, rtol=1e-8)


def test_what_seeds_and_variants_shift_changes_no_standard_error_although_runs_are_missing():
    """A variant that stopped, and a run that is missing, are no reason for other standard errors."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(6, 7))
    x[0, 3:], x[4, 2] = np.nan, np.nan
    moved = x + 100 * rng.normal(size=(6, 1)) + 100 * rng.normal(size=7)
    (first, second), both = pairs(6), []
    for values in (x, moved):
        both.append(differences(values, first, second))
    shared = both[0].method == "shared"
    assert shared.sum() == 14  # the other pair has two common seeds
    np.testing.assert_allclose(both[0].half_width(0.95)[shared], both[1].half_width(0.95)[shared], rtol=1e-7)


def test_the_prior_is_the_most_likely_one_and_weighs_its_degrees_of_freedom_by_its_likelihood():
    x = np.random.default_rng(0).normal(size=(6, 5)) * np.array([1, 1, 1, 1, 2, 0.5])[:, None]
    (s2, (d, *_)), found = residual_variances(x), shared_variance(x)

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
    own, df_alone = residual_variances(x)
    assert (found.variance >= 0.999999 * own).all()
    df = found.weights @ found.df
    assert df_alone[7] <= df[7] < df_alone[7] + 0.5 and df[:7].min() > df[7] + 1


def test_the_order_of_variants_and_seeds_and_the_unit_do_not_matter():
    x = np.random.default_rng(2).normal(size=(5, 6))
    first, second = pairs(5)
    expected = differences(x, first, second)
    order = np.array([3, 1, 4, 0, 2])
    place = np.argsort(order)
    again = differences(1000 * x[order][:, ::-1], place[first], place[second])
    np.testing.assert_allclose(again.t_test(), expected.t_test(), rtol=1e-6)
    np.testing.assert_allclose(again.half_width(0.95), 1000 * expected.half_width(0.95), rtol=1e-6)


def test_few_variants_or_little_spread_leave_the_paired_t_test():
    x = np.random.default_rng(3).normal(size=(6, 5))
    assert can_share(x[:3]) and can_share(x[:, :3])
    assert not can_share(x[:2]) and not can_share(x[:, :2])
    assert not can_share(np.where(np.arange(6)[:, None] < 4, 1.0, x))
    x[0] = 1.0
    first, second = pairs(3)
    paired = differences(x[:3], first, second)  # of three variants, two vary
    np.testing.assert_allclose(paired.t_test(), scipy_stats.ttest_rel(x[first], x[second], axis=1).pvalue)
    half = scipy_stats.t.ppf(0.975, 4) * (x[first] - x[second]).std(axis=1, ddof=1) / np.sqrt(5)
    np.testing.assert_allclose(paired.half_width(0.95), half)


def test_below_five_common_seeds_a_pair_has_welchs_test_over_the_seeds_that_both_have():
    x = np.random.default_rng(4).normal(size=(3, 5)) * np.array([1, 3, 0])[:, None]
    x[0, 4:] = np.nan
    first, second = pairs(3)
    found = differences(x, first, second)
    assert found.method.tolist() == ["Welch", "Welch", "paired"]  # of three variants, two vary
    for place in (0, 1):
        expected = scipy_stats.ttest_ind(x[0, :4], x[second[place], :4], equal_var=False)
        assert found.t_test()[place] == pytest.approx(expected.pvalue)
        low, high = expected.confidence_interval(0.99)
        assert found.half_width(0.99)[place] == pytest.approx((high - low) / 2)
    assert differences(x, first, second, variance="paired").t_test()[0] == pytest.approx(
        scipy_stats.ttest_rel(x[0, :4], x[1, :4]).pvalue
    )


def test_a_variant_with_two_finished_runs_is_compared_by_its_own_spread():
    x = np.random.default_rng(4).normal(size=(6, 5))
    x[0, 2:] = np.nan
    first, second = pairs(6)
    found = differences(x, first, second)
    assert found.method[0] == "Welch" and found.method[-1] == "shared"
    assert found.t_test()[0] == pytest.approx(scipy_stats.ttest_ind(x[0, :2], x[1, :2], equal_var=False).pvalue)
    assert found.sharing[-1] > 1.5


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
    assert set(found.method) == {"paired"}  # without the seed means, nothing varies
    assert (found.error >= 0.007 / np.sqrt(5)).all()


def test_one_common_seed_is_no_test():
    x = np.random.default_rng(7).normal(size=(5, 7))
    x[0, 4:], x[1, :3] = np.nan, np.nan
    found = differences(x, *pairs(5))
    assert "shared" in found.method and found.n[0] == 1
    assert np.isnan(found.t_test()[0]) and np.isfinite(found.t_test()[1:]).all()


def test_an_interval_ends_where_its_test_has_p_of_five_percent_even_beside_a_wild_run():
    x = np.random.default_rng(8).normal(size=(4, 5))
    x[3, 0] = 1e9
    found = differences(x, *pairs(4))
    np.testing.assert_allclose(found.t_test(found.mean - found.half_width(0.95)), ALPHA, rtol=1e-3)
