"""Differences, their one interval and its verdict against scipy and cases worked by hand."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats
from statsmodels.stats.multitest import multipletests

from analysis import verdicts
from analysis.verdicts import Rule
from analysis.verdicts.comparisons import of_baseline, without_test
from analysis.verdicts.power import detectable

NAN = float("nan")
CLOSE = {"rel": 1e-9, "abs": 1e-12}
A = [0.951, 0.962, 0.948, 0.957, 0.969, 0.944, 0.960]
B = [0.947, 0.951, 0.950, 0.949, 0.958, 0.945, 0.951]


def by_seed(*values: float) -> dict[int, float]:
    return dict(enumerate(values))


def against(values: dict, baseline: str, rule: Rule | None = None) -> dict[str, verdicts.Comparison]:
    """Every other variant minus the baseline, as one family."""
    pairs = [(variant, baseline) for variant in values if variant != baseline]
    return {a: found for (a, _), found in compare(values, pairs, rule or Rule()).items()}


def compare(values: dict, pairs: list, rule: Rule, **more) -> dict[tuple[str, str], verdicts.Comparison]:
    """As in the code under test, of variant -> seed -> value."""
    names, seeds = list(values), sorted({seed for runs in values.values() for seed in runs})
    x = np.array([[values[name].get(seed, NAN) for seed in seeds] for name in names])
    ended = np.array([[seed in values[name] for seed in seeds] for name in names])
    rows = [(names.index(a), names.index(b)) for a, b in pairs]
    return dict(zip(pairs, verdicts.compare(x, rows, rule, ended, **more)))


def shifted(diffs: list[float]) -> dict[str, dict[int, float]]:
    """Two variants, "b" ahead of "a" by `diffs`, seed by seed."""
    return {"a": by_seed(*[0.5] * len(diffs)), "b": by_seed(*(0.5 + d for d in diffs))}


@pytest.mark.parametrize("families", [1, 2])
def test_the_interval_of_which_a_verdict_is_read_is_bonferronis(families):
    rng = np.random.default_rng(0)
    values = {f"v{i}": by_seed(*rng.normal(0.9 + 0.004 * i, 0.005, 6)) for i in range(6)}
    pairs = list(itertools.combinations(values, 2))
    family = compare(values, pairs, Rule(has_grid=families == 2, variance="paired"))
    p = [scipy_stats.ttest_rel([*values[a].values()], [*values[b].values()]).pvalue for a, b in pairs]
    adjusted = multipletests(p, method="bonferroni")[1]
    assert [c.p_adjusted for c in family.values()] == pytest.approx(np.minimum(families * adjusted, 1), **CLOSE)
    for (a, b), compared in family.items():
        test = scipy_stats.ttest_rel([*values[a].values()], [*values[b].values()])
        low, high = test.confidence_interval(1 - 0.05 / (15 * families))
        assert (compared.adjusted.low, compared.adjusted.high) == pytest.approx((low, high), rel=1e-6)


@pytest.mark.parametrize(("seeds", "tests"), [(6, [5, 5, 5, 5, 5]), (4, [15, 15, 15, 15, 15]), (5, [15, 5, 5, 5, 5])])
def test_pairs_with_the_baseline_share_the_level_and_those_with_few_seeds_have_that_of_all_pairs(seeds, tests):
    rng = np.random.default_rng(0)
    values = {f"v{i}": by_seed(*rng.normal(0.9 + 0.004 * i, 0.005, seeds)) for i in range(6)}
    values["v1"] = {seed: value for seed, value in values["v1"].items() if seed or seeds != 5}
    pairs = [(f"v{i}", "v0") for i in range(1, 6)]
    found = compare(values, pairs, Rule(family="baseline", variance="paired"))
    for (a, b), number in zip(pairs, tests, strict=True):
        test = scipy_stats.ttest_rel([values[a][seed] for seed in values[a]], [values[b][seed] for seed in values[a]])
        low, high = test.confidence_interval(1 - 0.05 / number)
        assert (found[a, b].adjusted.low, found[a, b].adjusted.high) == pytest.approx((low, high), rel=1e-6)
        assert found[a, b].p_adjusted == pytest.approx(min(number * test.pvalue, 1), **CLOSE)


@pytest.mark.parametrize("seed", range(20))
def test_a_verdict_says_what_its_interval_shows_and_p_agrees(seed):
    rng, margin = np.random.default_rng(seed), 3.0
    runs = rng.normal(rng.normal(0, 2, (6, 1)), 1, (6, 5))
    values = {f"v{i}": by_seed(*row) for i, row in enumerate(runs)}
    pairs = [(f"v{i}", f"v{j}") for i in range(6) for j in range(i)]
    for compared in compare(values, pairs, Rule(margin)).values():
        low, high = compared.adjusted.low, compared.adjusted.high
        inside, beyond = -margin <= low and high <= margin, low > 0 or high < 0
        expected = "equivalent" if inside else "not shown" if not beyond else "better" if low > 0 else "worse"
        assert compared.verdict == expected and (compared.p_adjusted <= 0.05) == beyond
        assert (low + high) / 2 == pytest.approx(compared.diff.value)  # never cut


def test_seeds_are_paired_and_the_rest_counted():
    values = {"base": {0: 0.1, 1: 0.2, 2: 0.3, 7: 0.4, 8: NAN}, "v": {2: 0.35, 1: 0.22, 0: 0.11, 3: 0.9, 7: math.inf}}
    found = against(values, "base")
    assert (found["v"].n, found["v"].dropped) == (3, 3)  # used 0, 1, 2; not 3 (no partner), 7 and 8 (diverged)
    assert found["v"].diff.value == pytest.approx((0.01 + 0.02 + 0.05) / 3, **CLOSE)
    itself = of_baseline(np.array([*values["base"].values()]))
    assert (itself.verdict, itself.n, itself.dropped, itself.diff.value) == ("baseline", 4, 1, 0)
    assert math.isnan(itself.p)


@pytest.mark.parametrize(
    ("diffs", "verdict"),
    [
        ([0.100, 0.101, 0.099, 0.102, 0.098], "better"),
        ([-0.100, -0.101, -0.099, -0.102, -0.098], "worse"),
        ([0.001, -0.001, 0.002, -0.002, 0.000], "equivalent"),
        ([0.005, 0.006, 0.004] * 4, "equivalent"),  # reliably there, and reliably smaller than the margin
        ([0.03, -0.02, 0.01, -0.03, 0.02], "not shown"),
        ([0.009, 0.011, 0.010, 0.0105, 0.0095], "better"),  # about the margin: there, but not shown to be small
        ([0.001] * 5, "not tested"),  # neither side varies: a rare failure may be missed
        ([0.0] * 5, "not tested"),
        ([0.1], "not tested"),
        ([NAN, NAN, NAN], "not tested"),
    ],
)
def test_verdicts(diffs, verdict):
    found = against(shifted(diffs), "a", Rule(margin=0.01))["b"]
    assert found.verdict == verdict


@pytest.mark.parametrize("diffs", [[0.1] * 5, [x + 0.1 - x for x in (0.3, 0.7, 0.1, 0.9)]])
def test_equal_differences_are_no_evidence(diffs):
    """Also where the floats differ in the last digits."""
    found = against(shifted(diffs), "a")["b"]
    assert (found.verdict, found.reason) == ("not tested", "no spread over the seeds")
    assert np.isnan([found.p, found.p_adjusted, found.diff.low, found.detectable]).all()


def test_less_of_a_loss_is_better():
    found = against(shifted([-0.100, -0.101, -0.099, -0.102]), "a", Rule(lower_is_better=True))["b"]
    assert found.verdict == "better"
    assert found.diff.value == pytest.approx(-0.1005, **CLOSE)


def test_a_verdict_takes_the_familys_level():
    diffs = [0.010, 0.013, 0.004, 0.018, 0.009]  # p = .009 alone
    alone = against(shifted(diffs), "a", Rule(margin=0.001))["b"]
    noise = {f"v{i}": by_seed(*(0.5 + d for d in (0.1, -0.1, 0.05, -0.07, 0.02 * i))) for i in range(9)}
    among = against({**shifted(diffs), **noise}, "a", Rule(margin=0.001, variance="paired"))["b"]
    assert alone.verdict == "better" and among.verdict == "not shown"
    assert among.p == pytest.approx(alone.p, **CLOSE) and among.p_adjusted == pytest.approx(10 * alone.p, **CLOSE)
    assert among.detectable > alone.detectable


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=8), st.floats(0.001, 0.1))
def test_the_two_sides_mirror_each_other(pairs, margin):
    values = {"a": by_seed(*(a for a, _ in pairs)), "b": by_seed(*(b for _, b in pairs))}
    there, back = (against(values, x, Rule(margin=margin))[y] for x, y in ("ab", "ba"))
    assert there.diff.value == pytest.approx(-back.diff.value, abs=1e-12)
    assert there.p == pytest.approx(back.p, rel=1e-6, nan_ok=True)
    assert there.adjusted.low == pytest.approx(-back.adjusted.high, rel=1e-6, abs=1e-12, nan_ok=True)
    mirror = {"better": "worse", "worse": "better"}
    assert there.verdict == mirror.get(back.verdict, back.verdict)


def test_an_open_comparison_says_which_difference_its_seeds_would_find():
    diffs = np.tile([0.03, -0.02, 0.01, -0.03, 0.02], 2)
    found = against(shifted(diffs.tolist()), "a")["b"]
    assert found.detectable == pytest.approx(detectable(diffs.std(ddof=1), 10, 0.05, 9), **CLOSE)


@pytest.mark.parametrize(
    ("lost", "chance", "verdict"),
    [(1, 0.6, "better"), (1, 0.1, "not shown"), (2, 0.1, "not shown"), (1, NAN, "not tested")],
)
def test_a_verdict_also_holds_where_failed_runs_count_at_chance_level(lost, chance, verdict):
    """The interval covers both; without a known chance level there is none."""
    whole, (_, pair) = shifted([0.1, 0.12, 0.09, 0.1, 0.11, *[NAN] * lost]), ("", ("b", "a"))
    failed = np.isnan([[*runs.values()] for runs in whole.values()])
    failed[0] = False
    whole["a"] |= dict.fromkeys(range(5, 5 + lost), 0.5)
    counted = {**whole, "b": {seed: chance if math.isnan(value) else value for seed, value in whole["b"].items()}}
    found, other = (compare(values, [pair], Rule())[pair] for values in (whole, counted))
    assert found.verdict == "better"
    both = compare(whole, [pair], Rule(), failed=failed, chance=np.array([NAN, chance]))[pair]
    assert (both.verdict, both.verdict_of_finished) == (verdict, "better")
    assert both.depends_on_failed == (verdict != "better")
    ends, unknown = [(c.adjusted.low, c.adjusted.high) for c in (found, other)], math.isnan(chance)
    expected = (NAN, NAN) if unknown else (np.min(ends), np.max(ends))
    assert (both.adjusted.low, both.adjusted.high) == pytest.approx(expected, nan_ok=True)
    p = max(found.p_adjusted, other.p_adjusted) if verdict == "better" else NAN if unknown else 1
    assert both.p_adjusted == pytest.approx(p, nan_ok=True)


def test_a_rare_failure_that_no_run_shows_is_not_called_equivalent():
    """One of 20 runs fails (60 % instead of 100 %), so "a" is 2 points worse than "b": beyond the margin."""
    failed = np.random.default_rng(0).random((400, 5)) < 0.05
    rule, found = Rule(margin=0.01), []
    for study in failed:
        values = {"a": by_seed(*np.where(study, 0.6, 1.0)), "b": by_seed(*[1.0] * 5)}
        found.append(against(values, "b", rule)["a"].verdict)
    assert found.count("equivalent") <= 0.05 * len(found)
    assert found.count("not tested") == int((~failed).all(axis=1).sum()) > 0.7 * len(found)


def test_a_pair_that_is_not_tested_has_no_part_of_a_test():
    (compared,) = verdicts.compare(np.array([[0.5, 0.52, 0.54], [0.7, 0.71, 0.72]]), [(0, 1)], Rule(0.01))
    shown = without_test(replace(compared, shown_at=2, decided_early=True), "one common seed")
    assert (shown.verdict, shown.reason, shown.shown_at, shown.decided_early) == (
        "not tested",
        "one common seed",
        None,
        False,
    )
    assert shown.diff.value == compared.diff.value
    assert all(
        math.isnan(x) for x in (shown.p, shown.p_adjusted, shown.detectable, shown.adjusted.low, shown.diff.high)
    )
