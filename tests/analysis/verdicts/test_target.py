"""Which variants reach a target, against scipy's one-sided t test."""

import math

import numpy as np
import pytest
from scipy import stats

from analysis.verdicts.chance import Chance
from analysis.verdicts.looks import Looks
from analysis.verdicts.study import Policy
from analysis.verdicts.target import reaches
from experiments.metric import Metric

ACCURACY, LOSS = Metric("test/acc"), Metric("test/loss")
A = [0.951, 0.953, 0.949, 0.952]
B = [0.938, 0.945, 0.943, 0.944]


def reach(values, target, metric=ACCURACY, failed=None, level=None, **rule):
    chance = Chance(metric, None, level or {}, failed or {})
    policy = Policy(metric=metric, chance=chance, lower_is_better=metric.lower_is_better, **rule)
    return reaches({name: dict(enumerate(runs)) for name, runs in values.items()}, target, policy)


def p_of(runs, target, alternative="greater"):
    return stats.ttest_1samp(runs, target, alternative=alternative).pvalue


@pytest.mark.parametrize("values", [{"a": A}, {"a": A, "b": B}, {"a": A, "b": B, "c": A[:2]}])
def test_p_values_are_those_of_one_sided_t_tests_adjusted_over_the_variants(values):
    found = reach(values, 0.94)
    expected = {name: min(len(values) * p_of(runs, 0.94), 1) for name, runs in values.items()}
    assert {name: one.p for name, one in found.items()} == pytest.approx(expected, rel=1e-9)
    assert {name: one.shown for name, one in found.items()} == {name: p <= 0.05 for name, p in expected.items()}


def test_a_loss_is_to_be_at_most_the_target():
    runs = [0.31, 0.33, 0.32]
    assert reach({"a": runs}, 0.35, LOSS)["a"].p == pytest.approx(p_of(runs, 0.35, "less"), rel=1e-9)
    assert not reach({"a": runs}, 0.3, LOSS)["a"].shown


def test_the_level_of_a_planned_look_is_its_share():
    looks = Looks((2, 4), (0, 1, 2))  # the look at two of four seeds has an eighth of the level
    assert reach({"a": A}, 0.94, looks=looks)["a"].p == pytest.approx(min(8 * p_of(A[:2], 0.94), 1), rel=1e-9)
    waiting = reach({"a": A}, 0.94, looks=Looks((3, 4), (0, 1)))["a"]
    assert math.isnan(waiting.p) and waiting.reason == "waiting for a look" and not waiting.shown


def test_failed_runs_count_at_chance_level_where_it_is_known():
    values, failed = {"a": [*A, math.nan]}, {"a": [4]}
    assert reach(values, 0.94)["a"].shown  # no run of it failed
    counted = reach(values, 0.94, failed=failed, level={"a": 0.1})["a"]
    assert counted.p == pytest.approx(p_of([*A, 0.1], 0.94), rel=1e-9) and not counted.shown
    unknown = reach(values, 0.94, failed=failed)["a"]
    assert unknown.reason == "failed runs, chance level unknown" and math.isnan(unknown.p)


def test_equal_runs_have_the_smallest_standard_deviation_of_a_mean_and_without_one_no_test():
    equal = {"a": [0.95] * 3, "b": [0.95], "c": []}
    t = (0.95 - 0.94) / (0.002 / math.sqrt(3))
    found = reach(equal, 0.94, floor=0.002)
    assert found["a"].p == pytest.approx(3 * stats.t.sf(t, 2), rel=1e-9)
    assert [one.reason for one in reach(equal, 0.94).values()] == ["no spread over the seeds", "one run", "no run"]


def test_at_the_target_one_study_in_twenty_says_that_it_is_reached():
    runs = np.random.default_rng(0).normal(0.94, 0.01, (4000, 3, 3))
    shown = [any(one.shown for one in reach(dict(zip("abc", of)), 0.94).values()) for of in runs]
    assert np.mean(shown) == pytest.approx(1 - (1 - 0.05 / 3) ** 3, abs=0.01)
