"""Standard errors of differences against scipy, statsmodels and an independent form of the rule."""

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats
from simulation import ALPHA
from statsmodels.formula.api import ols

from analysis.verdicts.differences import differences, residual_variances


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


def by_the_rule(x: np.ndarray, i: int, j: int, unpaired: bool) -> tuple[float, float]:
    """Standard error and degrees of freedom of variant i - j, by the sentences of the guide, one variant at a time."""
    known = np.isfinite(x)
    n = known.sum(axis=1)
    variant, seed = np.nonzero(known)
    fit = [variant == v for v in range(len(x))] + [seed == s for s in range(x.shape[1]) if not unpaired]
    design = np.array(fit, dtype=float).T
    hat = design @ np.linalg.pinv(design)
    residuals, free = x[known] - hat @ x[known], 1 - np.diag(hat)
    df = np.array([free[variant == v].sum() for v in range(len(x))])
    tells = df > 1e-9
    own = np.array([(residuals[variant == v] ** 2).sum() / d if d > 1e-9 else 0.0 for v, d in enumerate(df)])
    average = np.average(own[tells], weights=df[tells])
    alone = unpaired and tells.sum() == 2
    spread = own if alone else np.maximum(own, (own + 2 * average) / 3)
    a, b = (spread[v] / (n[v] if unpaired else (known[i] & known[j]).sum()) for v in (i, j))
    d = df if alone else 3 * df
    most = min(df.sum(), tells.sum() * (min(n[i], n[j]) - 1) if unpaired else math.inf)
    return math.sqrt(a + b), min((a + b) ** 2 / (a**2 / d[i] + b**2 / d[j]), most)


@pytest.mark.parametrize("unpaired", [False, True])
def test_500_tables_with_gaps_have_the_errors_of_the_rule(unpaired):
    rng = np.random.default_rng(unpaired)
    for _ in range(250):
        variants, seeds = rng.integers(2, 9), rng.integers(2, 9)
        x = rng.normal(size=(variants, seeds)) * rng.lognormal(size=(variants, 1)) + rng.normal(size=seeds)
        x[rng.random(x.shape) < rng.choice([0, 0.1, 0.4])] = np.nan
        if rng.random() < 0.1:  # a chain: only neighbours have seeds in common
            x[np.abs(np.arange(variants)[:, None] - np.arange(seeds)) > 1] = np.nan
        first, second = pairs(variants)
        found = differences(x, first, second, "unpaired" if unpaired else "shared")
        finite = np.isfinite(x)
        for place, (i, j) in enumerate(zip(first, second, strict=True)):
            both = finite[i] & finite[j]
            n = min(finite[i].sum(), finite[j].sum()) if unpaired else both.sum()
            assert found.n[place] == n and np.isfinite(found.error[place]) == (n > 1)
            if n > 1:
                mean = np.nanmean(x[i]) - np.nanmean(x[j]) if unpaired else (x[i] - x[j])[both].mean()
                expected = (mean, *by_the_rule(x, i, j, unpaired))
                one = (found.mean[place], found.error[place], found.df[place])
                assert one == pytest.approx(expected, rel=1e-7)
                error, df = expected[1:]
                p = 2 * scipy_stats.t.sf(abs(mean) / error, df)
                assert found.t_test()[place] == pytest.approx(p, rel=1e-6)
                half = scipy_stats.t.ppf(0.995, df) * error
                assert found.half_width(0.99)[place] == pytest.approx(half, rel=1e-6)


@pytest.mark.parametrize("missing", [0, 1, 2])
@pytest.mark.parametrize("n", [2, 3, 5, 10])
def test_two_variants_with_seeds_have_the_paired_t_test(n, missing):
    """A third variant with a single run tells nothing of the spread."""
    x = np.random.default_rng(n).normal(size=(3, n + missing)) * np.array([1, 5, 1])[:, None]
    x[:1, n:], x[2, 1:] = np.nan, np.nan
    expected = scipy_stats.ttest_rel(x[0, :n], x[1, :n])
    for table in (x[:2], x):
        found = differences(table, np.array([0]), np.array([1]))
        assert found.t_test()[0] == pytest.approx(expected.pvalue)
        low, high = expected.confidence_interval(0.99)
        assert found.half_width(0.99)[0] == pytest.approx((high - low) / 2)


def test_what_seeds_and_variants_shift_changes_no_standard_error_although_runs_are_missing():
    """A variant that stopped, and a run that is missing, are no reason for other standard errors."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(6, 7))
    x[0, 3:], x[4, 2] = np.nan, np.nan
    moved = x + 100 * rng.normal(size=(6, 1)) + 100 * rng.normal(size=7)
    widths = [differences(values, *pairs(6)).half_width(0.95) for values in (x, moved)]
    np.testing.assert_allclose(*widths, rtol=1e-7)


def test_the_order_of_variants_and_seeds_and_the_unit_do_not_matter():
    x = np.random.default_rng(2).normal(size=(5, 6))
    first, second = pairs(5)
    expected = differences(x, first, second)
    order = np.array([3, 1, 4, 0, 2])
    place = np.argsort(order)
    again = differences(1000 * x[order][:, ::-1], place[first], place[second])
    np.testing.assert_allclose(again.t_test(), expected.t_test(), rtol=1e-9)
    np.testing.assert_allclose(again.half_width(0.95), 1000 * expected.half_width(0.95), rtol=1e-9)


def test_a_failed_variant_does_not_change_what_the_others_tell():
    """Its missing seeds leave the pairing by seed of the others as it is."""
    rng = np.random.default_rng(6)
    x = 0.9 + 0.02 * rng.normal(size=5) + 0.002 * rng.normal(size=(5, 5))
    first, second = pairs(5)
    expected = differences(x, first, second)
    found = differences(np.vstack([x, np.full((1, 5), np.nan)]), first, second)
    np.testing.assert_allclose(found.t_test(), expected.t_test(), rtol=1e-9)


def test_one_common_seed_is_no_test():
    x = np.random.default_rng(7).normal(size=(5, 7))
    x[0, 4:], x[1, :3] = np.nan, np.nan
    found = differences(x, *pairs(5))
    assert found.n[0] == 1 and np.isnan(found.t_test()[0]) and np.isfinite(found.t_test()[1:]).all()


def test_an_interval_ends_where_its_test_has_p_of_five_percent_even_beside_a_wild_run():
    x = np.random.default_rng(8).normal(size=(4, 5))
    x[3, 0] = 1e9
    found = differences(x, *pairs(4))
    np.testing.assert_allclose(found.t_test(found.mean - found.half_width(0.95)), ALPHA, rtol=1e-3)
