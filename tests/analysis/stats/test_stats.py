"""Statistics against other libraries, closed forms and cases worked by hand; simulations have a file of their own."""

import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats
from statsmodels.stats.anova import anova_lm
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower
from statsmodels.stats.weightstats import DescrStatsW

from analysis import stats
from analysis.stats.estimates import expanded_level
from experiments.errors import UserError

NAN = float("nan")
CLOSE = {"rel": 1e-9, "abs": 1e-12}
A = [0.951, 0.962, 0.948, 0.957, 0.969, 0.944, 0.960]
B = [0.947, 0.951, 0.950, 0.949, 0.958, 0.945, 0.951]


def by_seed(*values: float) -> dict[int, float]:
    return dict(enumerate(values))


def shifted(diffs: list[float]) -> dict[str, dict[int, float]]:
    """Two variants, "b" ahead of "a" by `diffs`, seed by seed."""
    return {"a": by_seed(*[0.5] * len(diffs)), "b": by_seed(*(0.5 + d for d in diffs))}


# one sample


@pytest.mark.parametrize("n", [2, 3, 5, 7])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_mean_has_students_interval(n, level):
    found = stats.mean(A[:n], level)
    low, high = DescrStatsW(A[:n]).tconfint_mean(alpha=1 - level)
    assert (found.value, found.low, found.high) == pytest.approx((np.mean(A[:n]), low, high), **CLOSE)
    assert found.n == n


def test_mean_by_hand():
    found = stats.mean([1.0, 2.0, 4.0])  # sd = sqrt(7/3), t(0.975, 2) = 4.302652729749464
    half = 4.302652729749464 * math.sqrt(7 / 3) / math.sqrt(3)
    assert (found.value, found.low, found.high) == pytest.approx((7 / 3, 7 / 3 - half, 7 / 3 + half), **CLOSE)


@pytest.mark.parametrize(
    ("values", "value", "n"), [([], NAN, 0), ([0.5], 0.5, 1), ([0.5, NAN], 0.5, 1), ([0.5, 0.5], 0.5, 2)]
)
def test_what_says_nothing_about_spread_has_no_interval(values, value, n):
    for found in (stats.mean(values), stats.iqm_interval(values), stats.bootstrap(values)):
        assert found.value == pytest.approx(value, nan_ok=True)
        assert math.isnan(found.low) and math.isnan(found.high)
        assert found.n == n


def test_three_equal_values_have_an_interval_without_width():
    for found in (stats.mean([0.1] * 3), stats.iqm_interval([0.1] * 3), stats.bootstrap([0.1] * 3)):
        assert (found.value, found.low, found.high) == pytest.approx((0.1, 0.1, 0.1), **CLOSE)


def test_diverged_runs_are_left_out():
    assert stats.mean([1.0, NAN, 2.0, math.inf, 4.0]) == stats.mean([1.0, 2.0, 4.0])
    assert stats.sd([1.0, NAN, 2.0, 4.0]) == pytest.approx(math.sqrt(7 / 3), **CLOSE)
    assert stats.iqm([NAN, *A]) == stats.iqm(A)


def test_interquartile_mean_by_hand():
    assert stats.iqm([10, 1, 3, 2, 100]) == pytest.approx(5.0, **CLOSE)  # one cut at each end: 2, 3, 10
    assert stats.iqm([1, 2, 6]) == pytest.approx(3.0, **CLOSE)  # a quarter of three rounds down to none
    assert stats.iqm(range(8)) == pytest.approx(3.5, **CLOSE)


@pytest.mark.parametrize("values", [A, A[:5], [1.0, 2.0, 3.0, 5.0, 7.0, 11.0, 13.0, 40.0]])
def test_interval_of_the_interquartile_mean_is_that_of_yuens_test(values):
    found = stats.iqm_interval(values)
    # Yuen's two-sample test against a sample that does not vary is the one-sample test
    with np.errstate(all="ignore"):
        yuen = scipy_stats.ttest_ind(values, [0.0] * len(values), trim=0.25, equal_var=False)
    half = scipy_stats.t.isf(0.025, yuen.df) * found.value / yuen.statistic
    assert (found.low, found.high) == pytest.approx((found.value - half, found.value + half), **CLOSE)


@pytest.mark.parametrize(("statistic", "n"), [(np.mean, 5), (np.mean, 7), (stats.iqm, 7), (np.median, 7)])
def test_bootstrap_is_scipys_bca_at_the_expanded_level(statistic, n):
    found = stats.bootstrap(A[:n], statistic, resamples=2000, seed=3)
    level = 1 - 2 * scipy_stats.norm.cdf(-math.sqrt(n / (n - 1)) * scipy_stats.t.isf(0.025, n - 1))
    assert expanded_level(0.95, n) == pytest.approx(level, **CLOSE)
    scipys = scipy_stats.bootstrap(
        (A[:n],), statistic, n_resamples=2000, confidence_level=level, rng=np.random.default_rng(3)
    ).confidence_interval
    assert (found.low, found.high) == pytest.approx((scipys.low, scipys.high), **CLOSE)


def test_bootstrap_repeats_itself_and_leaves_the_global_generator_alone():
    before = np.random.get_state()[1].copy()
    assert stats.bootstrap(A) == stats.bootstrap(A)
    assert stats.bootstrap(A) != stats.bootstrap(A, seed=1)
    assert (np.random.get_state()[1] == before).all()


@pytest.mark.parametrize("values", [[1.0, 2.0], [1.0, 1.0, 2.0], [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0, 5.0]])
@pytest.mark.parametrize("statistic", [np.mean, np.median, stats.iqm])
def test_bootstrap_of_few_or_tied_values_stays_in_their_range(values, statistic):
    found = stats.bootstrap(values, statistic, resamples=999)
    assert min(values) <= found.low <= found.value <= found.high <= max(values)


# differences


def test_comparison_agrees_with_scipy_and_statsmodels():
    found = stats.compare({"b": by_seed(*B), "a": by_seed(*A)}, "b", margin=0.01)["a"]
    diffs = DescrStatsW(np.array(A) - B)
    test = scipy_stats.ttest_rel(A, B)
    interval = test.confidence_interval()
    assert found.p == pytest.approx(test.pvalue, **CLOSE)
    assert (found.diff.low, found.diff.high) == pytest.approx((interval.low, interval.high), **CLOSE)
    assert (found.equivalence.low, found.equivalence.high) == pytest.approx(diffs.tconfint_mean(0.1), **CLOSE)
    assert found.tost_p == pytest.approx(diffs.ttost_mean(-0.01, 0.01)[0], **CLOSE)
    assert found.p_holm == found.p and found.tost_p_holm == found.tost_p  # a family of one
    assert (found.n, found.dropped) == (7, 0)


def test_comparison_by_hand():
    found = stats.compare(shifted([0.01, 0.02, 0.03]), "a")["b"]
    # mean .02, sd .01, t = .02 / (.01 / sqrt 3) = 2 sqrt 3; with 2 degrees of freedom p = 1 - t / sqrt(2 + t^2)
    assert found.diff.value == pytest.approx(0.02, **CLOSE)
    assert found.p == pytest.approx(1 - math.sqrt(12 / 14), **CLOSE)
    # Hedges: gamma(1) / (sqrt(1) gamma(1/2)) = 1 / sqrt(pi), times d_z = 2
    assert found.effect == pytest.approx(2 / math.sqrt(math.pi), **CLOSE)
    # all three won: the exact lower bound solves p^3 = .025
    assert (found.improvement.value, found.improvement.high) == (1.0, 1.0)
    assert found.improvement.low == pytest.approx(0.025 ** (1 / 3), **CLOSE)
    assert found.verdict == "not enough evidence"


def test_family_is_holm_adjusted():
    rng = np.random.default_rng(0)
    values = {f"v{i}": by_seed(*rng.normal(0.9 + 0.004 * i, 0.005, 6)) for i in range(6)}
    found = stats.compare(values, "v2")
    family = [found[v] for v in values if v != "v2"]
    for raw, adjusted in (("p", "p_holm"), ("tost_p", "tost_p_holm")):
        expected = multipletests([getattr(c, raw) for c in family], method="holm")[1]
        assert [getattr(c, adjusted) for c in family] == pytest.approx(expected.tolist(), **CLOSE)
    every = stats.compare_all(values)
    assert len(every) == 15
    expected = multipletests([c.p for c in every.values()], method="holm")[1]
    assert [c.p_holm for c in every.values()] == pytest.approx(expected.tolist(), **CLOSE)
    assert every["v0", "v1"].diff.value == pytest.approx(np.mean([values["v0"][s] - values["v1"][s] for s in range(6)]))


@pytest.mark.parametrize(
    "p", [[0.03], [0.5, 0.5], [0.01, 0.04, 0.03, 0.005], [0.0, 1.0, 1e-9], [0.2, 0.01, 0.01, 0.9, 0.02]]
)
def test_holm_is_statsmodels_and_passes_over_what_was_not_tested(p):
    expected = multipletests(p, method="holm")[1].tolist()
    assert stats.holm(p).tolist() == pytest.approx(expected, **CLOSE)
    with_gap = stats.holm([NAN, *p])
    assert math.isnan(with_gap[0]) and with_gap[1:].tolist() == pytest.approx(expected, **CLOSE)
    assert stats.holm([p, p[::-1]])[1].tolist() == pytest.approx(expected[::-1], **CLOSE)


def test_seeds_are_paired_and_the_rest_counted():
    values = {"base": {0: 0.1, 1: 0.2, 2: 0.3, 7: 0.4, 8: NAN}, "v": {2: 0.35, 1: 0.22, 0: 0.11, 3: 0.9, 7: math.inf}}
    found = stats.compare(values, "base")
    assert (found["v"].n, found["v"].dropped) == (3, 3)  # used 0, 1, 2; not 3 (no partner), 7 and 8 (diverged)
    assert found["v"].diff.value == pytest.approx((0.01 + 0.02 + 0.05) / 3, **CLOSE)
    assert (found["base"].verdict, found["base"].n, found["base"].dropped) == ("baseline", 4, 1)
    assert found["base"].diff.value == 0 and math.isnan(found["base"].p)


@pytest.mark.parametrize(
    ("diffs", "verdict"),
    [
        ([0.100, 0.101, 0.099, 0.102, 0.098], "better"),
        ([-0.100, -0.101, -0.099, -0.102, -0.098], "worse"),
        ([0.001, -0.001, 0.002, -0.002, 0.000], "equivalent"),
        ([0.003, 0.004, 0.003, 0.004, 0.003], "equivalent"),  # reliably there, and reliably smaller than the margin
        ([0.03, -0.02, 0.01, -0.03, 0.02], "not enough evidence"),
        ([0.009, 0.011, 0.010, 0.0105, 0.0095], "better"),  # about the margin: there, but not shown to be small
        ([0.1] * 5, "better"),
        ([0.001] * 5, "equivalent"),
        ([0.0] * 5, "equivalent"),
        ([0.1, 0.1], "not enough evidence"),  # two equal differences come about by chance
        ([0.0, 0.0], "not enough evidence"),
        ([0.1], "not enough evidence"),
        ([NAN, NAN, NAN], "not enough evidence"),
    ],
)
def test_verdicts(diffs, verdict):
    found = stats.compare(shifted(diffs), "a", margin=0.01)["b"]
    assert found.verdict == verdict
    if verdict != "not enough evidence":
        assert found.seeds_needed == found.n


def test_less_of_a_loss_is_better():
    found = stats.compare(shifted([-0.100, -0.101, -0.099, -0.102]), "a", lower_is_better=True)["b"]
    assert found.verdict == "better" and found.improvement.value == 1.0
    assert found.diff.value == pytest.approx(-0.1005, **CLOSE)


def test_a_verdict_takes_the_familys_level():
    diffs = [0.010, 0.013, 0.004, 0.018, 0.009]  # p = .009 alone
    alone = stats.compare(shifted(diffs), "a", margin=0.001)["b"]
    noise = {f"v{i}": by_seed(*(0.5 + d for d in (0.1, -0.1, 0.05, -0.07, 0.02 * i))) for i in range(9)}
    among = stats.compare({**shifted(diffs), **noise}, "a", margin=0.001)["b"]
    assert alone.verdict == "better" and among.verdict == "not enough evidence"
    assert among.p == alone.p and among.p_holm == pytest.approx(10 * alone.p, **CLOSE)
    assert among.detectable > alone.detectable
    assert among.seeds_needed > 5


def test_no_spread_is_no_spread_whatever_the_rounding():
    base = [0.3, 0.7, 0.1, 0.9]
    values = {"a": by_seed(*base), "b": by_seed(*(x + 0.1 for x in base))}
    found = stats.compare(values, "a")["b"]  # the floats differ by .1 only to the last digits
    assert (found.p, found.verdict, found.effect) == (0.0, "better", math.inf)
    assert found.diff.low == found.diff.value == found.diff.high


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=8), st.floats(0.001, 0.1))
def test_the_two_sides_mirror_each_other(pairs, margin):
    values = {"a": by_seed(*(a for a, _ in pairs)), "b": by_seed(*(b for _, b in pairs))}
    there, back = stats.compare(values, "a", margin)["b"], stats.compare(values, "b", margin)["a"]
    assert there.diff.value == pytest.approx(-back.diff.value, abs=1e-12)
    assert (there.p, there.tost_p) == pytest.approx((back.p, back.tost_p), rel=1e-6, nan_ok=True)
    assert there.improvement.value == pytest.approx(1 - back.improvement.value)
    mirror = {"better": "worse", "worse": "better"}
    assert there.verdict == mirror.get(back.verdict, back.verdict)


@pytest.mark.parametrize(("wins", "n"), [(0, 5), (1, 5), (3, 5), (5, 5), (7, 10), (1, 1)])
def test_probability_of_improvement_is_exact_binomial(wins, n):
    found = stats.improvement([1.0] * wins + [0.0] * (n - wins), [0.5] * n)
    exact = scipy_stats.binomtest(wins, n).proportion_ci(method="exact")
    assert (found.value, found.low, found.high) == pytest.approx((wins / n, exact.low, exact.high), **CLOSE)


def test_a_tie_is_half_an_improvement():
    found = stats.improvement([1.0, 0.5, 0.5, NAN], [0.5, 0.5, 0.5, 0.1])
    assert (found.value, found.n) == (pytest.approx(2 / 3), 3)
    assert 0 < found.low < 0.5 < found.high < 1


@pytest.mark.parametrize(
    ("baseline", "margin", "alpha", "names"),
    [
        ("nobody", 0.01, 0.05, ["baseline", "nobody", "'a', 'b'"]),
        ("a", 0.0, 0.05, ["margin", "0.0"]),
        ("a", NAN, 0.05, ["margin", "nan"]),
        ("a", 0.01, 0.7, ["alpha", "0.7"]),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(baseline, margin, alpha, names):
    with pytest.raises(UserError) as error:
        stats.compare(shifted([0.1, 0.2]), baseline, margin, alpha)
    assert all(name in str(error.value) for name in names)


def test_a_study_of_the_baseline_alone_has_nothing_to_compare():
    assert [c.verdict for c in stats.compare({"a": by_seed(*A)}, "a").values()] == ["baseline"]
    assert stats.compare_all({"a": by_seed(*A)}) == {}


# power


@pytest.mark.parametrize("n", [2, 3, 5, 10, 100])
@pytest.mark.parametrize(("alpha", "power"), [(0.05, 0.8), (0.01, 0.9)])
def test_detectable_difference_is_where_statsmodels_finds_that_power(n, alpha, power):
    difference = stats.detectable(0.02, n, alpha, power)
    found = TTestPower().power(difference / 0.02, n, alpha)
    if math.isnan(found):  # statsmodels adds the wrong side's power, which underflows there
        found = TTestPower().power(difference / 0.02, n, alpha / 2, alternative="larger")
    assert found == pytest.approx(power, **CLOSE)


@pytest.mark.parametrize("ratio", [0.1, 0.3, 0.5, 1.0, 2.0, 5.0])
def test_seeds_needed_are_the_first_with_that_power(ratio):
    n = stats.seeds_needed(0.02, 0.02 * ratio)
    power = TTestPower().power
    assert power(ratio, n, 0.05) >= 0.8
    assert n == 2 or power(ratio, n - 1, 0.05) < 0.8
    assert stats.seeds_needed(0.02, -0.02 * ratio) == n


def test_seeds_needed_at_the_edges():
    assert stats.seeds_needed(0.02, 0.0) is None  # nothing shows a difference of nothing
    assert stats.seeds_needed(0.02, 1e-5) is None  # more than anyone trains
    assert stats.seeds_needed(0.0, 0.01) == 2
    assert stats.detectable(0.0, 5) == 0.0
    assert math.isnan(stats.detectable(0.02, 1))


def test_seeds_to_decide_take_the_shorter_way():
    (far,) = stats.seeds_to_decide(0.02, 0.05, margin=0.01)
    assert far == stats.seeds_needed(0.02, 0.05)  # a difference, and no equivalence to be had
    (none,) = stats.seeds_to_decide(0.02, 0.0, margin=0.01)
    # without a difference both one-sided tests need power .9: the one-sample one-sided count of statsmodels
    one_sided = TTestPower().solve_power(0.5, alpha=0.05, power=0.9, alternative="larger")
    assert none == math.ceil(one_sided)
    assert stats.seeds_to_decide([0.02, NAN], [0.0, 0.1], margin=0.01) == [none, None]
    assert stats.seeds_to_decide(0.02, 0.05, margin=0.01, least=40) == [40]


def test_an_open_comparison_says_how_many_seeds_would_do():
    found = stats.compare(shifted([0.03, -0.02, 0.01, -0.03, 0.02]), "a")["b"]
    diffs = np.array([0.03, -0.02, 0.01, -0.03, 0.02])
    assert found.seeds_needed == stats.seeds_to_decide(diffs.std(ddof=1), diffs.mean(), 0.01)[0] > 5
    assert found.detectable == pytest.approx(stats.detectable(diffs.std(ddof=1), 5), **CLOSE)


# factorial


def grid(seed: int = 0, seeds: int = 4, **levels: list) -> pd.DataFrame:
    frame = pd.MultiIndex.from_product([*levels.values(), range(seeds)], names=[*levels, "seed"]).to_frame(index=False)
    frame["acc"] = np.random.default_rng(seed).normal(0.9, 0.01, len(frame))
    for i, (factor, values) in enumerate(levels.items()):
        frame["acc"] += frame[factor].map({value: 0.02 * (i + 1) * j for j, value in enumerate(values)})
    return frame


KIND, SITE = "model.pos_embed", "model.pos_site"
GRID = {KIND: ["a", "b", "c"], SITE: ["x", "y"]}


@pytest.mark.parametrize("lost", [[], [3], [0, 5, 13, 23]])
def test_factorial_agrees_with_statsmodels_formula(lost):
    frame = grid(**GRID).drop(index=lost)
    found = stats.factorial(frame, "acc", [KIND, SITE])
    renamed = frame.rename(columns={KIND: "k", SITE: "s"})
    fit = smf.ols("acc ~ C(k, Sum) * C(s, Sum) + C(seed, Sum)", renamed).fit()
    table = anova_lm(fit, typ=2)
    rows = {(KIND,): "C(k, Sum)", (SITE,): "C(s, Sum)", (KIND, SITE): "C(k, Sum):C(s, Sum)", ("seed",): "C(seed, Sum)"}
    for row in found.anova[:-1]:
        expected = table.loc[rows[row.term]]
        assert (row.df, row.sum_sq, row.f, row.p) == pytest.approx(
            tuple(expected[["df", "sum_sq", "F", "PR(>F)"]]), **CLOSE
        )
        assert row.eta_sq == pytest.approx(
            expected["sum_sq"] / (expected["sum_sq"] + table.loc["Residual", "sum_sq"]), **CLOSE
        )
    names = {("a",): "C(k, Sum)[S.a]", ("b",): "C(k, Sum)[S.b]", ("x",): "C(s, Sum)[S.x]"}
    names[("a", "x")] = "C(k, Sum)[S.a]:C(s, Sum)[S.x]"
    low, high = fit.conf_int()[0], fit.conf_int()[1]
    for effect in found.effects:
        if name := names.get(effect.levels):
            expected = (fit.params[name], low[name], high[name], fit.pvalues[name])
            assert (effect.effect.value, effect.effect.low, effect.effect.high, effect.p) == pytest.approx(
                expected, **CLOSE
            )
    assert found.grand.value == pytest.approx(fit.params["Intercept"], **CLOSE)
    assert any("Unbalanced" in note for note in found.notes) == bool(lost)


def test_effects_of_an_even_grid_by_hand():
    frame = grid(**GRID)
    found = stats.factorial(frame, "acc", [KIND, SITE])
    grand = frame["acc"].mean()
    kinds, cells = frame.groupby(KIND)["acc"].mean(), frame.groupby([KIND, SITE])["acc"].mean()
    sites = frame.groupby(SITE)["acc"].mean()
    for effect in found.of(KIND):
        assert effect.mean.value == pytest.approx(kinds[effect.levels[0]], **CLOSE)
        assert effect.effect.value == pytest.approx(kinds[effect.levels[0]] - grand, **CLOSE)
    for effect in found.of(KIND, SITE):
        k, s = effect.levels
        assert effect.mean.value == pytest.approx(cells[k, s], **CLOSE)
        assert effect.effect.value == pytest.approx(cells[k, s] - kinds[k] - sites[s] + grand, **CLOSE)
    assert not found.notes and found.n == 24 and found.dropped == 0


def test_one_factor_of_two_levels_is_the_paired_t_test():
    frame = grid(**{KIND: ["a", "b"]})
    (contrast,) = stats.factorial(frame, "acc", [KIND]).contrasts
    b, a = (frame[frame[KIND] == level]["acc"].to_numpy() for level in ("b", "a"))
    test = scipy_stats.ttest_rel(b, a)
    low, high = test.confidence_interval()
    assert (contrast.high, contrast.low) == ("b", "a")
    assert (contrast.diff.low, contrast.diff.high, contrast.p) == pytest.approx((low, high, test.pvalue), **CLOSE)


def test_empty_cells_leave_the_largest_complete_grid():
    frame = grid(**{KIND: ["none", "a", "b"], SITE: ["stem", "every-layer", "shared"]})
    table8 = frame[~((frame[KIND] == "none") & (frame[SITE] != "stem"))]
    found = stats.factorial(table8, "acc", [KIND, SITE])
    assert found.levels == {KIND: ("a", "b"), SITE: ("stem", "every-layer", "shared")}
    assert found.notes == (f"2 of 9 cells are empty: the model is of the complete grid without {KIND} = none.",)
    without = stats.factorial(frame[frame[KIND] != "none"], "acc", [KIND, SITE])
    assert found.effects == without.effects


def test_three_of_four_cells_give_main_effects_only():
    frame = grid(**{KIND: ["a", "b"], SITE: ["x", "y"]})
    found = stats.factorial(frame[~((frame[KIND] == "b") & (frame[SITE] == "y"))], "acc", [KIND, SITE])
    assert not found.of(KIND, SITE) and len(found.of(KIND)) == 2
    assert found.notes == (
        "1 of 4 cells is empty and no complete grid can be had: main effects only, taken to add up.",
    )


def test_diverged_runs_are_left_out_of_the_model_and_counted():
    frame = grid(**GRID)
    gone = frame.copy()
    gone.loc[[2, 9], "acc"] = [NAN, math.inf]
    found = stats.factorial(gone, "acc", [KIND, SITE])
    assert (found.n, found.dropped) == (22, 2) and "2 runs without a finite value are left out." in found.notes
    assert found.effects == stats.factorial(frame.drop(index=[2, 9]), "acc", [KIND, SITE]).effects


def test_one_run_a_cell_has_effects_but_no_intervals():
    found = stats.factorial(grid(seeds=1, **GRID), "acc", [KIND, SITE])
    assert all(math.isfinite(e.effect.value) and math.isnan(e.effect.low) and math.isnan(e.p) for e in found.effects)
    assert any("no intervals" in note for note in found.notes)


def test_runs_that_never_vary_show_no_effects():
    frame = grid(**GRID).assign(acc=0.9)
    found = stats.factorial(frame, "acc", [KIND, SITE])
    assert all(e.effect.value == 0 and e.p == 1 for e in found.effects)
    assert all(not row.p <= 0.05 for row in found.anova)


def test_seeds_that_do_not_cross_the_cells_are_no_blocks():
    frame = grid(**GRID)
    frame["seed"] = range(len(frame))
    found = stats.factorial(frame, "acc", [KIND, SITE])
    fit = smf.ols("acc ~ C(k, Sum) * C(s, Sum)", frame.rename(columns={KIND: "k", SITE: "s"})).fit()
    assert found.anova[-1].sum_sq == pytest.approx(fit.ssr, **CLOSE)
    assert "Seeds are not blocks: the cells do not share them." in found.notes


def test_numeric_and_unset_levels():
    frame = grid(**{"model.depth": [1, 2], "model.drop_rate": [0.0, 0.1]})
    frame["model.drop_rate"] = frame["model.drop_rate"].replace(0.0, NAN)
    found = stats.factorial(frame, "acc", ["model.depth", "model.drop_rate"])
    assert found.levels == {"model.depth": (1, 2), "model.drop_rate": ("not set", 0.1)}


@pytest.mark.parametrize(
    ("change", "factors", "names"),
    [
        (lambda f: f, [KIND, "model.depth"], ["model.depth"]),
        (lambda f: f[f[KIND] == "a"], [KIND, SITE], [KIND, "['a']"]),
        (
            lambda f: f[(f[KIND] == "a") == (f[SITE] == "x")].query("`model.pos_embed` != 'c'"),
            [KIND, SITE],
            [KIND, SITE],
        ),
        (lambda f: f, [], ["factors"]),
    ],
)
def test_factors_that_cannot_be_told_apart_are_refused_by_name(change, factors, names):
    with pytest.raises(UserError) as error:
        stats.factorial(change(grid(**GRID)), "acc", factors)
    assert all(name in str(error.value) for name in names)
