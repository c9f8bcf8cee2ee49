"""Effects of several factors against scipy, cases worked by hand and the rules for missing cells."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats
from statsmodels.stats.multitest import multipletests

from analysis import stats
from experiments.errors import UserError

NAN = float("nan")
CLOSE = {"rel": 1e-9, "abs": 1e-12}


def grid(seed: int = 0, seeds: int = 4, **levels: list) -> pd.DataFrame:
    frame = pd.MultiIndex.from_product([*levels.values(), range(seeds)], names=[*levels, "seed"]).to_frame(index=False)
    frame["acc"] = np.random.default_rng(seed).normal(0.9, 0.01, len(frame))
    for i, (factor, values) in enumerate(levels.items()):
        frame["acc"] += frame[factor].map({value: 0.02 * (i + 1) * j for j, value in enumerate(values)})
    return frame


KIND, SITE = "model.pos_embed", "model.pos_site"
GRID = {KIND: ["a", "b", "c"], SITE: ["x", "y"]}


def per_seed(frame: pd.DataFrame, at: dict, less: dict) -> np.ndarray:
    """The mean of the runs at some levels minus that at others, seed by seed, from the runs themselves."""
    means = []
    for levels in (at, less):
        chosen = frame[np.all([frame[factor] == value for factor, value in levels.items()], axis=0)]
        means.append(chosen.groupby("seed")["acc"].mean())
    return (means[0] - means[1]).to_numpy()


@pytest.mark.parametrize("factors", [{**GRID}, {**GRID, "model.depth": [1, 2]}])
def test_contrasts_are_t_tests_over_the_seeds(factors):
    frame = grid(**factors)
    found = stats.factorial(frame, "acc", list(factors))
    assert len(found.contrasts) == 3 + len(factors) - 1
    for contrast in found.contrasts:
        diffs = per_seed(frame, {contrast.factor: contrast.high}, {contrast.factor: contrast.low})
        test = scipy_stats.ttest_1samp(diffs, 0)
        low, high = test.confidence_interval()
        assert (contrast.diff.value, contrast.diff.low, contrast.diff.high) == pytest.approx(
            (diffs.mean(), low, high), **CLOSE
        )
        assert contrast.p == pytest.approx(test.pvalue, **CLOSE)


def test_interaction_of_two_by_two_is_the_t_test_of_the_difference_of_differences():
    frame = grid(**{KIND: ["a", "b"], SITE: ["x", "y"]})
    found = stats.factorial(frame, "acc", [KIND, SITE])
    diffs = per_seed(frame, {KIND: "b", SITE: "y"}, {KIND: "a", SITE: "y"}) - per_seed(
        frame, {KIND: "b", SITE: "x"}, {KIND: "a", SITE: "x"}
    )
    test = next(test for test in found.terms if test.term == (KIND, SITE))
    assert test.contrasts == 1 and test.p == pytest.approx(scipy_stats.ttest_1samp(diffs, 0).pvalue, **CLOSE)
    assert found.of(KIND, SITE)[0].effect.value == pytest.approx(diffs.mean() / 4, **CLOSE)


def test_terms_are_adjusted_over_their_contrasts_and_over_each_other():
    found = stats.factorial(grid(**GRID), "acc", [KIND, SITE])
    kinds = [c.p for c in found.contrasts if c.factor == KIND]
    (site,) = (c.p for c in found.contrasts if c.factor == SITE)
    cells = [e.p for e in found.of(KIND, SITE) if e.levels[1] == "x"]  # those at y are their negatives
    p = [min(multipletests(each, method="holm")[1]) for each in (kinds, [site], cells)]
    assert [test.term for test in found.terms] == [(KIND,), (SITE,), (KIND, SITE)]
    assert [test.contrasts for test in found.terms] == [3, 1, 3]
    assert [test.p for test in found.terms] == pytest.approx(p, **CLOSE)
    adjusted = multipletests(p, method="holm")[1]
    assert list(found.tested().values()) == pytest.approx(adjusted.tolist(), **CLOSE)
    shared = stats.factorial(grid(**GRID), "acc", [KIND, SITE], families=2)
    assert list(shared.tested().values()) == pytest.approx(np.minimum(2 * adjusted, 1).tolist(), **CLOSE)


def test_no_contrast_is_shown_where_its_factor_is_not():
    for seed in range(20):
        found = stats.factorial(grid(seed, **{KIND: list("abcd"), SITE: ["x", "y"]}), "acc", [KIND, SITE])
        for test in (*found.contrasts, *found.effects):
            term = (test.factor,) if isinstance(test, stats.Contrast) else test.term
            assert test.p_holm >= found.tested()[term]


def test_the_mean_of_a_cell_is_that_of_its_runs():
    frame = grid(**GRID)
    frame.loc[(frame[KIND] == "a") & (frame[SITE] == "x") & (frame["seed"] == 1), "acc"] = NAN
    found = stats.factorial(frame, "acc", [KIND, SITE])
    for effect in found.of(KIND, SITE):
        runs = frame[(frame[KIND] == effect.levels[0]) & (frame[SITE] == effect.levels[1])]["acc"]
        assert effect.mean == stats.mean(runs.to_numpy())


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
    assert found.n == 24 and found.seeds == (0, 1, 2, 3) and found.gaps.missing == found.gaps.not_finite == 0


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
    assert (found.gaps.cells, found.gaps.missing, found.gaps.left_out) == (9, 2, ((KIND, "none"),))
    without = stats.factorial(frame[frame[KIND] != "none"], "acc", [KIND, SITE])
    assert found.effects == without.effects and not found.gaps.additive


def test_three_of_four_cells_give_main_effects_as_if_they_added_up():
    frame = grid(**{KIND: ["a", "b"], SITE: ["x", "y"]})
    found = stats.factorial(frame[~((frame[KIND] == "b") & (frame[SITE] == "y"))], "acc", [KIND, SITE])
    assert not found.of(KIND, SITE) and len(found.of(KIND)) == 2 and found.gaps.additive
    diffs = per_seed(frame, {KIND: "b", SITE: "x"}, {KIND: "a", SITE: "x"})
    contrast = next(c for c in found.contrasts if c.factor == KIND)
    assert contrast.diff.value == pytest.approx(diffs.mean(), **CLOSE)
    assert contrast.p == pytest.approx(scipy_stats.ttest_1samp(diffs, 0).pvalue, **CLOSE)


def test_a_seed_counts_only_if_it_has_every_cell():
    frame = grid(**GRID)
    gone = frame.copy()
    gone.loc[[2, 9], "acc"] = [NAN, math.inf]  # seeds 2 and 1
    found = stats.factorial(gone, "acc", [KIND, SITE])
    assert (found.n, found.seeds, found.gaps.not_finite, found.gaps.seeds_left_out) == (12, (0, 3), 2, (1, 2))
    whole = stats.factorial(frame[frame["seed"].isin([0, 3])], "acc", [KIND, SITE])
    assert found.contrasts == whole.contrasts and found.terms == whole.terms


def test_a_cell_with_few_seeds_is_left_out_and_not_the_seeds():
    frame = grid(**GRID)
    mostly_diverged = (frame[KIND] == "c") & (frame[SITE] == "y") & (frame["seed"] > 0)
    found = stats.factorial(frame.assign(acc=frame["acc"].mask(mostly_diverged)), "acc", [KIND, SITE])
    assert found.seeds == (0, 1, 2, 3) and found.levels[KIND] == ("a", "b")
    assert found.gaps.missing == 1 and found.gaps.left_out == ((KIND, "c"),)


def test_one_run_a_cell_has_effects_but_no_intervals():
    found = stats.factorial(grid(seeds=1, **GRID), "acc", [KIND, SITE])
    assert all(math.isfinite(e.effect.value) and math.isnan(e.effect.low) and math.isnan(e.p) for e in found.effects)
    assert all(math.isnan(p) for p in found.tested().values())


def test_runs_that_never_vary_show_no_effects():
    frame = grid(**GRID).assign(acc=0.9)
    found = stats.factorial(frame, "acc", [KIND, SITE], floor=0.005)
    assert all(e.effect.value == 0 and e.p == 1 for e in found.effects)
    assert set(found.tested().values()) == {1.0}
    unknown = stats.factorial(frame, "acc", [KIND, SITE])
    assert all(e.effect.value == 0 and math.isnan(e.p) for e in unknown.effects)


def test_seeds_that_do_not_cross_the_cells_are_refused():
    frame = grid(**GRID)
    frame["seed"] = range(len(frame))
    with pytest.raises(UserError, match="no seed has a finished run of every combination"):
        stats.factorial(frame, "acc", [KIND, SITE])


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
