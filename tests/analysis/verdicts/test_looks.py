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
    x = np.array([[0.0] * 10, early, early[:5] * 2])
    rules = {n: Rule(margin=0.1, looks=Looks((5, 10), tuple(range(n))), variance="paired") for n in (5, 10)}
    compared = {n: compare(x[:, :n], [(1, 0), (2, 0)], rule) for n, rule in rules.items()}
    found = {n: {name: (c.verdict, c.shown_at) for name, c in zip("bc", of)} for n, of in compared.items()}
    assert found[5] == {"b": ("better", None), "c": ("better", None)}
    assert found[10] == {"b": ("not shown", 5), "c": ("better", None)}
