"""Effects of several factors against scipy and the runs themselves; incomplete grids are refused."""

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
KIND, SITE = "model.pos_embed", "model.pos_site"
GRID = {KIND: ["a", "b", "c"], SITE: ["x", "y"]}


def grid(seed: int = 0, seeds: int = 4, **levels: list) -> pd.DataFrame:
    frame = pd.MultiIndex.from_product([*levels.values(), range(seeds)], names=[*levels, "seed"]).to_frame(index=False)
    frame["acc"] = np.random.default_rng(seed).normal(0.9, 0.01, len(frame))
    for i, (factor, values) in enumerate(levels.items()):
        frame["acc"] += frame[factor].map({value: 0.02 * (i + 1) * j for j, value in enumerate(values)})
    return frame


def per_seed(frame: pd.DataFrame, at: dict, less: dict) -> np.ndarray:
    """The mean of the runs at some levels minus that at others, seed by seed, from the runs themselves."""
    means = []
    for levels in (at, less):
        chosen = frame[np.all([frame[factor] == value for factor, value in levels.items()], axis=0)]
        means.append(chosen.groupby("seed")["acc"].mean())
    return (means[0] - means[1]).to_numpy()


@pytest.mark.parametrize("factors", [{KIND: ["a", "b"]}, GRID, {**GRID, "model.depth": [1, 2]}])
def test_contrasts_are_t_tests_over_the_seeds(factors):
    frame = grid(**factors)
    found = stats.factorial(frame, "acc", list(factors))
    assert [len(found.effects[factor,]) for factor in factors] == [math.comb(len(v), 2) for v in factors.values()]
    for factor in factors:
        for contrast in found.effects[factor,]:
            diffs = per_seed(frame, {factor: contrast.levels[0]}, {factor: contrast.reference[0]})
            test = scipy_stats.ttest_1samp(diffs, 0)
            low, high = test.confidence_interval()
            assert (contrast.diff.value, contrast.diff.low, contrast.diff.high) == pytest.approx(
                (diffs.mean(), low, high), **CLOSE
            )
            assert contrast.p == pytest.approx(test.pvalue, **CLOSE)


def test_interaction_of_two_by_two_is_the_t_test_of_the_difference_of_differences():
    frame = grid(**{KIND: ["a", "b"], SITE: ["x", "y"]})
    found = stats.factorial(frame, "acc", [KIND, SITE])
    at = {site: per_seed(frame, {KIND: "b", SITE: site}, {KIND: "a", SITE: site}) for site in "xy"}
    test = found.terms[KIND, SITE]
    assert test.effects == 1
    assert test.p == pytest.approx(scipy_stats.ttest_1samp(at["y"] - at["x"], 0).pvalue, **CLOSE)
    assert found.effects[KIND, SITE][0].diff.value == pytest.approx((at["y"] - at["x"]).mean() / 4, **CLOSE)
    simple = {effect.levels: effect for effect in found.simple[KIND, SITE]}
    for site, diffs in at.items():
        low, high = scipy_stats.ttest_1samp(diffs, 0).confidence_interval()
        diff = simple["b", site].diff
        assert simple["b", site].reference == ("a", site)
        assert (diff.value, diff.low, diff.high) == pytest.approx((diffs.mean(), low, high), **CLOSE)


def test_terms_are_adjusted_over_their_effects_and_over_each_other():
    found = stats.factorial(grid(**GRID), "acc", [KIND, SITE])
    kinds, (site,) = ([effect.p for effect in found.effects[factor,]] for factor in (KIND, SITE))
    cells = [
        effect.p for effect in found.effects[KIND, SITE] if effect.levels[1] == "x"
    ]  # those at y are their negatives
    p = [min(multipletests(each, method="holm")[1]) for each in (kinds, [site], cells)]
    assert list(found.terms) == [(KIND,), (SITE,), (KIND, SITE)]
    assert [test.effects for test in found.terms.values()] == [3, 1, 3]
    assert [test.p for test in found.terms.values()] == pytest.approx(p, **CLOSE)
    adjusted = multipletests(p, method="holm")[1]
    assert [test.p_holm for test in found.terms.values()] == pytest.approx(adjusted.tolist(), **CLOSE)
    shared = stats.factorial(grid(**GRID), "acc", [KIND, SITE], families=2)
    assert [test.p_holm for test in shared.terms.values()] == pytest.approx(
        np.minimum(2 * adjusted, 1).tolist(), **CLOSE
    )


def test_no_effect_is_shown_where_its_term_is_not():
    for seed in range(20):
        found = stats.factorial(grid(seed, **{KIND: list("abcd"), SITE: ["x", "y"]}), "acc", [KIND, SITE])
        for term, effects in found.effects.items():
            assert all(effect.p_holm >= found.terms[term].p_holm for effect in effects)


def test_means_and_interactions_by_hand():
    frame = grid(**GRID)
    found = stats.factorial(frame, "acc", [KIND, SITE])
    grand = frame["acc"].mean()
    kinds, cells = frame.groupby(KIND)["acc"].mean(), frame.groupby([KIND, SITE])["acc"].mean()
    sites = frame.groupby(SITE)["acc"].mean()
    assert {kind: mean.value for (kind,), mean in found.means[KIND,].items()} == pytest.approx(dict(kinds), **CLOSE)
    assert {cell: mean.value for cell, mean in found.means[KIND, SITE].items()} == pytest.approx(dict(cells), **CLOSE)
    for effect in found.effects[KIND, SITE]:
        k, s = effect.levels
        assert effect.diff.value == pytest.approx(cells[k, s] - kinds[k] - sites[s] + grand, **CLOSE)
    assert (found.seeds, found.seeds_left_out) == ((0, 1, 2, 3), ())


def test_a_seed_counts_only_if_it_has_every_cell():
    """But the mean of a cell is that of all its runs, as in the table of variants."""
    frame = grid(**GRID)
    gone = frame.copy()
    gone.loc[[2, 9], "acc"] = [NAN, math.inf]  # seeds 2 and 1
    found = stats.factorial(gone, "acc", [KIND, SITE])
    assert (found.seeds, found.seeds_left_out) == ((0, 3), (1, 2))
    whole = stats.factorial(frame[frame["seed"].isin([0, 3])], "acc", [KIND, SITE])
    assert found.effects == whole.effects and found.terms == whole.terms and found.simple == whole.simple
    for (kind, site), mean in found.means[KIND, SITE].items():
        assert mean == stats.mean(gone[(gone[KIND] == kind) & (gone[SITE] == site)]["acc"].to_numpy())


def test_runs_that_never_vary_show_no_effects():
    frame = grid(**GRID).assign(acc=0.9)
    known, unknown = (stats.factorial(frame, "acc", [KIND, SITE], floor=floor) for floor in (0.005, 0.0))
    for effects in known.effects.values():
        assert all(effect.diff.value == 0 and effect.p == 1 for effect in effects)
    for effects in unknown.effects.values():
        assert all(effect.diff.value == 0 and math.isnan(effect.p) for effect in effects)


def test_numeric_and_unset_levels():
    frame = grid(**{"model.depth": [1, 2], "model.drop_rate": [0.0, 0.1]})
    frame["model.drop_rate"] = frame["model.drop_rate"].replace(0.0, NAN)
    found = stats.factorial(frame, "acc", ["model.depth", "model.drop_rate"])
    assert found.levels == {"model.depth": (1, 2), "model.drop_rate": ("not set", 0.1)}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda f: f[f[KIND] == "a"], f"{KIND} takes only ['a']"),
        (lambda f: f[(f[KIND] != "b") | (f[SITE] != "y")], f"run of {KIND} = b, {SITE} = y"),
        (lambda f: f[(f[KIND] != "b") | (f[SITE] != "y") | (f["seed"] == 0)], f"run of {KIND} = b, {SITE} = y"),
        (lambda f: f.assign(acc=f["acc"].where((f["seed"] < 3) | (f[SITE] == "x"))).query("seed > 1"), "1 of 2 seeds"),
        (lambda f: f.assign(seed=range(len(f))), f"and 3 more|{KIND} = a, {SITE} = x"),
    ],
)
def test_an_incomplete_grid_is_refused_by_the_names_of_what_is_missing(change, said):
    with pytest.raises(UserError) as error:
        stats.factorial(change(grid(**GRID)), "acc", [KIND, SITE])
    assert any(each in str(error.value) for each in said.split("|"))
