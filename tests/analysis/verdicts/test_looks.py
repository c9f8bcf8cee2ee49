"""Group-sequential levels and p-values against published tables and simulations."""

import numpy as np
import pytest
from scipy import stats as scipy_stats

from analysis.verdicts.comparisons import Rule, compare
from analysis.verdicts.looks import Looks, crossing_probabilities, levels, repeated_rate, sequential_p

PLANS = [(5, 10), (5, 10, 20), (3, 5, 10), (4, 8, 12, 16, 20), (9, 10)]


@pytest.mark.parametrize(
    ("looks", "bounds"),
    [
        # Lan and DeMets's O'Brien-Fleming-type bounds for equal looks at two-sided 5 %, as tabulated by ldbounds and
        # gsDesign
        (2, [2.9626, 1.9686]),
        (3, [3.7103, 2.5114, 1.9930]),
        (4, [4.3326, 2.9631, 2.3590, 2.0141]),
        (5, [4.8769, 3.3569, 2.6803, 2.2898, 2.0310]),
    ],
)
def test_tabulated_bounds_spend_what_they_are_made_for(looks, bounds):
    information = np.arange(1, looks + 1) / looks
    made_for = 4 * scipy_stats.norm.sf(scipy_stats.norm.isf(0.05 / 4) / np.sqrt(information))
    assert np.cumsum(list(crossing_probabilities(information, bounds))) == pytest.approx(made_for, abs=2e-5)


@pytest.mark.parametrize("plan", [(5, 10), (5, 20), (5, 8, 20)])
def test_each_look_may_have_spent_alpha_times_the_cube_of_its_share(plan):
    """The probability that no bound is crossed yet is that of a box under a multivariate normal density (scipy)."""
    found = levels(plan)
    assert found[0] == pytest.approx(0.05 * (plan[0] / plan[-1]) ** 3, rel=1e-6)
    bounds = scipy_stats.norm.isf(np.array(found) / 2)
    for k in range(2, len(plan) + 1):
        n = np.array(plan[:k])
        cov, low = np.sqrt(np.minimum.outer(n, n) / np.maximum.outer(n, n)), -bounds[:k]
        inside = scipy_stats.multivariate_normal.cdf(bounds[:k], cov=cov, lower_limit=low, abseps=1e-7)
        assert 1 - inside == pytest.approx(0.05 * (n[-1] / plan[-1]) ** 3, abs=1e-5)


@pytest.mark.parametrize(
    ("looks", "rate"), [(1, 0.05), (2, 0.083), (3, 0.107), (4, 0.126), (5, 0.142), (10, 0.193)]
)  # Jennison and Turnbull (2000), table 2.2; Armitage, McPherson and Rowe (1969)
def test_repeated_tests_find_false_differences_at_the_published_rates(looks, rate):
    assert repeated_rate(range(1, looks + 1)) == pytest.approx(rate, abs=6e-4)


@pytest.mark.parametrize("plan", PLANS)
def test_a_sequential_p_is_the_overall_level_at_which_the_look_rejects(plan):
    for alpha in (0.3, 0.05, 0.025, 0.05 / 28, 1e-6):
        for look, level in enumerate(levels(plan, alpha)):
            if level > 1e-12:
                assert sequential_p(level, look, plan) == pytest.approx(alpha, rel=2e-3)
    p = np.logspace(-8, 0, 200)
    for look in range(len(plan)):
        found = sequential_p(p, look, plan)
        assert (np.diff(found) >= 0).all() and (found >= p).all() and found[-1] == 1
    assert np.isnan(sequential_p(np.nan, 0, plan))


def test_a_single_look_is_the_plain_test():
    assert levels((7,), 0.05) == pytest.approx([0.05], rel=1e-9)
    assert sequential_p(0.2, 0, (7,)) == 0.2


def test_a_pair_is_judged_at_its_last_look_and_says_where_an_earlier_one_showed_it():
    """Five seeds differ by 1, the next five by less than nothing; of the second pair all ten seeds differ."""
    early = [1.0, 1.01, 0.99, 1.0, 1.005, -3.0, 2.0, -1.0, 0.5, -1.5]
    values = {"a": dict.fromkeys(range(10), 0.0), "b": dict(enumerate(early)), "c": dict(enumerate(early[:5] * 2))}
    compared = {
        n: compare(rule.looks.limit(values), [("b", "a"), ("c", "a")], rule)
        for n in (5, 10)
        for rule in [Rule(margin=0.1, looks=Looks((5, 10), tuple(range(n))), variance="paired")]
    }
    found = {n: {pair[0]: (c.verdict, c.shown_at) for pair, c in of.items()} for n, of in compared.items()}
    assert found[5] == {"b": ("better", None), "c": ("better", None)}
    assert found[10] == {"b": ("not shown", 5), "c": ("better", None)}


def test_a_variant_that_stopped_keeps_the_verdict_and_the_interval_of_its_last_look():
    """Also where the other side goes on, and the same data would be significant at the level of a later look."""
    plan, rng = (5, 10), np.random.default_rng(1)
    shift = {"a": 0.0, "b": 2.2, "c": 0.5, "d": 1.0, "e": 0.2}
    values = {name: dict(enumerate(by + rng.normal(size=10))) for name, by in shift.items()}
    values["b"] = {seed: values["b"][seed] for seed in range(5)}

    def compared(n, stopped):
        rule = Rule(margin=0.5, looks=Looks(plan, tuple(range(n)), stopped))
        pairs = [(other, "a") for other in "bcde"]
        return compare(rule.looks.limit(values), pairs, rule)

    first, tested_again, last = compared(5, {}), compared(10, {}), compared(10, {"b": 5})
    b = ("b", "a")
    assert last[b].diff == first[b].diff and (last[b].p, last[b].dropped) == (first[b].p, 0)
    assert first[b].p_adjusted > 0.05 > tested_again[b].p_adjusted  # the same five seeds
    assert last[b].verdict == first[b].verdict == "not shown"
    on = {"b": dict.fromkeys(range(10), 1.0)}  # runs beyond its last look
    assert Looks(plan, tuple(range(10)), {"b": 5}).limit(on) == {"b": dict.fromkeys(range(5), 1.0)}
    assert last["c", "a"].diff.n == 10 and last["c", "a"].diff == tested_again["c", "a"].diff
