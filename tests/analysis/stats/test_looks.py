"""Group-sequential levels against published tables and a simulation."""

import numpy as np
import pytest
from scipy import stats as scipy_stats

from analysis.stats.looks import crossing_probabilities, levels, obrien_fleming_spending
from analysis.stats.student import t_test
from experiments.errors import UserError


@pytest.mark.parametrize(
    ("looks", "bounds"),
    [
        # Lan and DeMets's O'Brien-Fleming-type bounds for equal looks at two-sided 5 %, as tabulated by ldbounds and gsDesign
        (2, [2.9626, 1.9686]),
        (3, [3.7103, 2.5114, 1.9930]),
        (4, [4.3326, 2.9631, 2.3590, 2.0141]),
        (5, [4.8769, 3.3569, 2.6803, 2.2898, 2.0310]),
    ],
)
def test_bounds_are_the_tabulated_ones(looks, bounds):
    found = levels([10 * (k + 1) for k in range(looks)])
    assert scipy_stats.norm.isf(np.array(found) / 2) == pytest.approx(bounds, abs=2e-4)


@pytest.mark.parametrize(
    ("looks", "pocock", "obrien_fleming"),  # Jennison and Turnbull (2000), tables 2.1 and 2.3, alpha = 0.05
    [(2, 2.178, 1.977), (3, 2.289, 2.004), (4, 2.361, 2.024), (5, 2.413, 2.040), (10, 2.555, 2.087)],
)
def test_constants_of_jennison_and_turnbull_spend_five_percent(looks, pocock, obrien_fleming):
    information = np.arange(1, looks + 1) / looks
    for bounds in (np.full(looks, pocock), obrien_fleming / np.sqrt(information)):
        assert sum(crossing_probabilities(information, bounds)) == pytest.approx(0.05, abs=1.5e-4)


def test_all_looks_together_spend_alpha():
    looks = [5, 10, 20]
    information = np.array(looks) / 20
    spent = crossing_probabilities(information, scipy_stats.norm.isf(np.array(levels(looks, 0.05)) / 2))
    assert np.cumsum(spent) == pytest.approx(obrien_fleming_spending(information, 0.05), rel=1e-6)
    assert sum(spent) == pytest.approx(0.05, rel=1e-6)


def test_a_single_look_is_the_plain_test():
    assert levels([7], 0.05) == pytest.approx([0.05], rel=1e-9)


def test_t_tests_at_each_look_keep_the_level():
    looks, studies = [5, 10, 20], 40_000
    diffs = np.random.default_rng(0).normal(size=(studies, looks[-1]))
    found = [t_test(diffs[:, :n]) <= level for n, level in zip(looks, levels(looks))]
    naive = [t_test(diffs[:, :n]) <= 0.05 for n in looks]
    assert np.any(found, axis=0).mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / studies)
    assert np.any(naive, axis=0).mean() > 0.09


@pytest.mark.parametrize("looks", [[], [10, 5], [5, 5], [1, 10]])
def test_looks_that_do_not_rise_are_refused_by_name(looks):
    with pytest.raises(UserError, match="looks"):
        levels(looks)
