"""Group-sequential levels, and how pairs are judged over several looks."""

import numpy as np
import pytest
from scipy import stats as scipy_stats

from analysis.verdicts.comparisons import Rule, compare
from analysis.verdicts.looks import Looks


@pytest.mark.parametrize(
    ("plan", "shares"),
    [
        ((), [1]),
        ((7,), [1]),
        ((5, 10), [1 / 8, 7 / 8]),
        ((5, 20), [1 / 64, 63 / 64]),
        ((4, 6, 8), [8 / 64, 19 / 64, 37 / 64]),
    ],
)
def test_the_looks_so_far_have_spent_the_cube_of_their_share_of_the_seeds(plan, shares):
    assert Looks(plan).shares == pytest.approx(shares)
    for look, n in enumerate(plan):
        at = Looks(plan, tuple(range(n)))
        assert at.share == shares[look] and at.confidence == pytest.approx(1 - 0.05 * shares[look])


@pytest.mark.parametrize("plan", [(5, 10), (5, 20), (3, 5), (5, 8, 12, 20), (4, 8, 12, 16, 20)])
def test_normal_tests_at_all_looks_reject_at_most_at_the_overall_level(plan):
    """The probability that no bound is crossed is that of a box under a multivariate normal density (scipy)."""
    n, bounds = np.array(plan), scipy_stats.norm.isf(0.05 * np.array(Looks(plan).shares) / 2)
    cov = np.sqrt(np.minimum.outer(n, n) / np.maximum.outer(n, n))
    inside = scipy_stats.multivariate_normal.cdf(bounds, cov=cov, lower_limit=-bounds, abseps=1e-6)
    assert 0.03 < 1 - inside < 0.05


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

    def ends(one):
        return one.diff.value, one.diff.low, one.diff.high, one.p

    first, tested_again, last = compared(5, {}), compared(10, {}), compared(10, {"b": 5})
    b = ("b", "a")
    assert ends(last[b]) == pytest.approx(ends(first[b]), rel=1e-9) and last[b].dropped == 0
    assert first[b].p_adjusted > 0.05 > tested_again[b].p_adjusted  # the same five seeds
    assert last[b].verdict == first[b].verdict == "not shown"
    on = {"b": dict.fromkeys(range(10), 1.0)}  # runs beyond its last look
    assert Looks(plan, tuple(range(10)), {"b": 5}).limit(on) == {"b": dict.fromkeys(range(5), 1.0)}
    assert last["c", "a"].diff.n == 10 and ends(last["c", "a"]) == pytest.approx(ends(tested_again["c", "a"]), rel=1e-9)
