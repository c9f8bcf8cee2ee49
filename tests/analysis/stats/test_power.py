"""Power and numbers of seeds against statsmodels and closed forms."""

import math

import pytest
from scipy import stats as scipy_stats
from statsmodels.stats.power import TTestPower

from analysis.stats.power import MOST_SEEDS, detectable, sd_quantiles, seeds_needed_band, seeds_to_decide

NAN = float("nan")
CLOSE = {"rel": 1e-9, "abs": 1e-12}
NEVER = 1e-9  # a margin within which nothing is shown to lie


@pytest.mark.parametrize("n", [2, 3, 5, 10, 100])
@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_detectable_difference_is_where_statsmodels_finds_80_percent_power(n, alpha):
    difference = detectable(0.02, n, alpha)
    found = TTestPower().power(difference / 0.02, n, alpha)
    if math.isnan(found):  # statsmodels adds the wrong side's power, which underflows there
        found = TTestPower().power(difference / 0.02, n, alpha / 2, alternative="larger")
    assert found == pytest.approx(0.8, **CLOSE)


def test_the_edges():
    assert detectable(0.0, 5) == 0.0
    assert math.isnan(detectable(0.02, 1))
    assert seeds_to_decide(0.02, 0.0, NEVER) == [None]  # nothing shows a difference of nothing
    assert seeds_to_decide(0.02, 1e-5, NEVER) == [None]  # more than MOST_SEEDS
    assert seeds_to_decide(0.0, 0.01, NEVER) == [2]
    for sd, n, margin in ((NAN, 1, 0.01), (NAN, 10, 0.01), (0.02, 9, NAN)):
        assert seeds_needed_band(sd, 0.005, n, margin) == [None]
    (found,) = seeds_needed_band(0.02, 3e-4, 20, NEVER)
    assert found.high is None and (found.low is None or found.low < MOST_SEEDS)


@pytest.mark.parametrize("ratio", [0.1, 0.3, 0.5, 1.0, 2.0, 5.0])
def test_seeds_to_decide_are_the_first_with_that_power(ratio):
    (n,) = seeds_to_decide(0.02, 0.02 * ratio, NEVER)
    power = TTestPower().power
    assert power(ratio, n, 0.05) >= 0.8
    assert n == 2 or power(ratio, n - 1, 0.05) < 0.8
    assert seeds_to_decide(0.02, -0.02 * ratio, NEVER) == [n]


def test_seeds_to_decide_take_the_shorter_way():
    (far,) = seeds_to_decide(0.02, 0.05, margin=0.01)
    assert [far] == seeds_to_decide(0.02, 0.05, NEVER)  # a difference, and no equivalence to be had
    (none,) = seeds_to_decide(0.02, 0.0, margin=0.01)
    # without a difference both one-sided tests need power .9: the one-sample one-sided count of statsmodels
    one_sided = TTestPower().solve_power(0.5, alpha=0.05, power=0.9, alternative="larger")
    assert none == math.ceil(one_sided)
    assert seeds_to_decide([0.02, NAN], [0.0, 0.1], margin=0.01) == [none, None]
    assert seeds_to_decide(0.02, 0.05, margin=0.01, least=40) == [40]


def test_seeds_needed_are_those_of_the_spreads_that_the_seeds_leave_open():
    (found,) = seeds_needed_band(0.02, 0.005, 10, 0.01)
    low, high = (0.02 * math.sqrt(9 / scipy_stats.chi2.ppf(q, 9)) for q in (0.9, 0.1))
    assert found.low == max(seeds_to_decide(low, 0.005, 0.01)[0], 11)
    assert found.high == seeds_to_decide(high, 0.005, 0.01)[0]
    assert found.low < seeds_to_decide(0.02, 0.005, 0.01)[0] < found.high


@pytest.mark.parametrize("observed", [0.0, 0.005, -0.3])
def test_few_seeds_need_what_finds_a_difference_of_the_margin_whatever_was_observed(observed):
    (found,) = seeds_needed_band(0.02, observed, 5, 0.01)
    for n, q in ((found.low, 0.9), (found.high, 0.1)):
        effect, power = 0.01 / (0.02 * math.sqrt(4 / scipy_stats.chi2.ppf(q, 4))), TTestPower().power
        assert power(effect, n, 0.05) >= 0.8 > power(effect, n - 1, 0.05)


@pytest.mark.parametrize("n", [10, 20])
def test_quantiles_of_the_standard_deviation_hold_in_simulation(n):
    import numpy as np

    sd = np.random.default_rng(n).normal(size=(20_000, n)).std(axis=1, ddof=1)
    low, high = sd_quantiles(sd, np.full(len(sd), n))
    assert np.mean(low > 1) == pytest.approx(0.1, abs=0.01) and np.mean(high < 1) == pytest.approx(0.1, abs=0.01)
