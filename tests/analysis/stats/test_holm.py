"""Holm's adjustment against statsmodels; its form for exclusive hypotheses against a procedure written out in full."""

import math
from itertools import combinations

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from analysis import stats
from analysis.stats.comparisons import holm_exclusive

NAN = float("nan")
CLOSE = {"rel": 1e-9, "abs": 1e-12}


@pytest.mark.parametrize(
    "p", [[0.03], [0.5, 0.5], [0.01, 0.04, 0.03, 0.005], [0.0, 1.0, 1e-9], [0.2, 0.01, 0.01, 0.9, 0.02]]
)
def test_holm_is_statsmodels_and_passes_over_what_was_not_tested(p):
    expected = multipletests(p, method="holm")[1].tolist()
    assert stats.holm(p).tolist() == pytest.approx(expected, **CLOSE)
    with_gap = stats.holm([NAN, *p])
    assert math.isnan(with_gap[0]) and with_gap[1:].tolist() == pytest.approx(expected, **CLOSE)
    assert stats.holm([p, p[::-1]])[1].tolist() == pytest.approx(expected[::-1], **CLOSE)


@pytest.mark.parametrize("seed", range(5))
def test_holm_with_weights_is_the_closed_test_of_every_intersection(seed):
    """An intersection of hypotheses has the smallest p / weight, times all its weights; a hypothesis the largest p
    of its own.
    """
    rng = np.random.default_rng(seed)
    p, weights = rng.uniform(size=6) ** 3, rng.choice([1 / 3, 1 / 2, 1], 6)
    subsets = [list(of) for size in range(1, 7) for of in combinations(range(6), size)]
    tests = {tuple(of): min((p / weights)[of]) * weights[of].sum() for of in subsets}
    expected = [min(max(value for of, value in tests.items() if i in of), 1) for i in range(6)]
    assert stats.holm(p, weights).tolist() == pytest.approx(expected, **CLOSE)
    assert stats.holm([NAN, *p], [1, *weights])[1:].tolist() == pytest.approx(expected, **CLOSE)


def rejected_one_by_one(p, q, alpha):
    """Shaffer's procedure: while the smallest p is at most alpha / (places that can still hold a true hypothesis)."""
    left = [(value, place, kind) for kind, values in enumerate((p, q)) for place, value in enumerate(values)]
    left = sorted(hypothesis for hypothesis in left if not math.isnan(hypothesis[0]))
    gone = set()
    while left:
        possible = len({place for _, place, _ in left})
        if left[0][0] > alpha / possible:
            break
        gone.add(left.pop(0)[1:])
    return gone


@pytest.mark.parametrize("seed", range(40))
def test_exclusive_hypotheses_are_adjusted_as_the_procedure_rejects(seed):
    rng = np.random.default_rng(seed)
    places = int(rng.integers(1, 6))
    p, q = rng.uniform(size=(2, places)) ** rng.choice([1, 4, 8], size=(2, places))
    if places > 2:
        p[0] = q[0] = q[1] = NAN
    adjusted = holm_exclusive(p, q)
    for alpha in (0.01, 0.05, 0.2):
        found = {(i, kind) for kind in (0, 1) for i in range(places) if adjusted[kind][i] <= alpha}
        assert found == rejected_one_by_one(p, q, alpha)


def test_exclusive_hypotheses_of_one_place_need_no_adjustment():
    assert [float(each[0]) for each in holm_exclusive([0.03], [0.9])] == [0.03, 0.9]


def test_families_are_adjusted_each_for_itself():
    p, q = np.random.default_rng(0).uniform(size=(2, 7, 4)) ** 4
    together = holm_exclusive(p, q)
    for i in range(7):
        alone = holm_exclusive(p[i], q[i])
        assert together[0][i].tolist() == alone[0].tolist() and together[1][i].tolist() == alone[1].tolist()
