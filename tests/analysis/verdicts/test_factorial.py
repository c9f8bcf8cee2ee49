"""Effects of several factors against scipy and the runs themselves; incomplete grids are refused."""

import math

import numpy as np
import pandas as pd
import pytest
from commands import refusal
from scipy import stats as scipy_stats

from analysis import verdicts
from analysis.verdicts.factorial import cover_failed

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


def interval(estimate: verdicts.Estimate) -> tuple[float, float, float]:
    return estimate.value, estimate.low, estimate.high


@pytest.mark.parametrize("factors", [{KIND: ["a", "b"]}, GRID, {**GRID, "model.depth": [1, 2]}])
def test_contrasts_are_t_tests_over_the_seeds(factors):
    frame = grid(**factors)
    found = verdicts.factorial(frame, "acc", list(factors))
    counts = found.contrasts["factor"].value_counts().to_dict()
    assert counts == {factor: math.comb(len(levels), 2) for factor, levels in factors.items()}
    for _, contrast in found.contrasts.iterrows():
        factor = contrast["factor"]
        diffs = per_seed(frame, {factor: contrast["level"]}, {factor: contrast["reference"]})
        test = scipy_stats.ttest_1samp(diffs, 0)
        expected = (diffs.mean(), *test.confidence_interval(), test.pvalue)
        assert (*interval(contrast["diff"]), contrast["p"]) == pytest.approx(expected, **CLOSE)


def test_interaction_of_two_by_two_is_the_t_test_of_the_difference_of_differences():
    frame = grid(**{KIND: ["a", "b"], SITE: ["x", "y"]})
    found = verdicts.factorial(frame, "acc", [KIND, SITE])
    at = {site: per_seed(frame, {KIND: "b", SITE: site}, {KIND: "a", SITE: site}) for site in "xy"}
    assert found.tests[f"{KIND}+{SITE}"] == 1
    p = scipy_stats.ttest_1samp(at["y"] - at["x"], 0).pvalue
    assert found.interactions["p"].tolist() == pytest.approx([p] * 4, **CLOSE)
    assert found.interactions["p_adjusted"].tolist() == pytest.approx([min(3 * p, 1)] * 4, **CLOSE)
    assert found.interactions["effect"][0].value == pytest.approx((at["y"] - at["x"]).mean() / 4, **CLOSE)


def test_effects_of_all_terms_are_one_family_in_which_every_term_has_the_same_weight():
    found = verdicts.factorial(grid(**GRID), "acc", [KIND, SITE])
    kinds, (site,) = (found.contrasts.loc[found.contrasts["factor"] == factor, "p"] for factor in (KIND, SITE))
    cells = found.interactions.loc[found.interactions["level"].str.endswith(" x x"), "p"]  # those at y: their negatives
    assert found.tests == {KIND: 3, SITE: 1, f"{KIND}+{SITE}": 3}
    factor = [9, 9, 9, 3]  # three terms, and three effects of kinds, one of sites
    adjusted = np.minimum(factor * np.array([*kinds, site]), 1)
    assert found.contrasts["p_adjusted"].tolist() == pytest.approx(adjusted.tolist(), **CLOSE)
    assert found.interactions["p_adjusted"].tolist() == pytest.approx(
        np.minimum(np.repeat(9 * cells.to_numpy(), 2), 1).tolist(), **CLOSE
    )
    shared = verdicts.factorial(grid(**GRID), "acc", [KIND, SITE], families=2)
    expected = np.minimum(2 * np.array(factor) * [*kinds, site], 1).tolist()
    assert shared.contrasts["p_adjusted"].tolist() == pytest.approx(expected, **CLOSE)


@pytest.mark.parametrize("families", [1, 2])
def test_an_effect_is_shown_where_its_interval_for_all_effects_leaves_zero_out(families):
    frame = grid(**GRID)
    found = verdicts.factorial(frame, "acc", [KIND, SITE], families=families)
    for _, contrast in found.contrasts.iterrows():
        diffs = per_seed(frame, {contrast["factor"]: contrast["level"]}, {contrast["factor"]: contrast["reference"]})
        share = 0.05 / families / 3 / (3 if contrast["factor"] == KIND else 1)
        low, high = scipy_stats.ttest_1samp(diffs, 0).confidence_interval(1 - share)
        assert interval(contrast["adjusted"]) == pytest.approx((diffs.mean(), low, high), **CLOSE)
        assert contrast["verdict"] == ("shown" if low > 0 or high < 0 else "not shown")
    words = found.contrasts.groupby("factor")["verdict"].apply(
        lambda own: "shown" if "shown" in set(own) else "not shown"
    )
    assert {factor: found.verdicts[factor] for factor in (KIND, SITE)} == words.to_dict()


def test_effects_that_need_the_surviving_runs_are_not_shown():
    """Where diverged runs count at chance level, the intervals cover both; where that is not known, there are none."""
    frame = grid(seeds=6, **GRID)
    finished = verdicts.factorial(frame, "acc", [KIND, SITE])
    lost = frame.assign(acc=frame["acc"].where((frame[KIND] != "c") | (frame["seed"] > 2), 0.1))
    counted = verdicts.factorial(lost, "acc", [KIND, SITE])
    both = cover_failed(finished, counted)
    assert set(finished.contrasts["verdict"]) == {"shown"}
    by_pair = both.contrasts.set_index(["level", "reference"])
    assert by_pair.loc[[("b", "a"), ("c", "a"), ("y", "x")], "verdict"].tolist() == ["shown", "not shown", "shown"]
    wide = by_pair.loc[("c", "a"), "adjusted"]
    (other,) = counted.contrasts.query("level == 'c' and reference == 'a'")["adjusted"]
    (own,) = finished.contrasts.query("level == 'c' and reference == 'a'")["adjusted"]
    assert (wide.low, wide.high) == (min(own.low, other.low), max(own.high, other.high))
    assert both.contrasts["verdict_of_finished"].tolist() == finished.contrasts["verdict"].tolist()
    unknown = cover_failed(finished, None)
    assert set(unknown.contrasts["verdict"]) | set(unknown.verdicts.values()) == {"not tested"}
    for frame in (unknown.contrasts, unknown.interactions):
        assert frame[["p", "p_adjusted"]].isna().all(axis=None)


def test_interactions_by_hand():
    frame = grid(**GRID)
    found = verdicts.factorial(frame, "acc", [KIND, SITE])
    grand = frame["acc"].mean()
    kinds, cells = frame.groupby(KIND)["acc"].mean(), frame.groupby([KIND, SITE])["acc"].mean()
    sites = frame.groupby(SITE)["acc"].mean()
    for _, effect in found.interactions.iterrows():
        k, s = effect["level"].split(" x ")
        assert effect["effect"].value == pytest.approx(cells[k, s] - kinds[k] - sites[s] + grand, **CLOSE)
    assert (found.seeds, found.seeds_left_out) == ((0, 1, 2, 3), ())


def test_a_seed_counts_only_if_it_has_every_cell():
    frame = grid(**GRID)
    gone = frame.copy()
    gone.loc[[2, 9], "acc"] = [NAN, math.inf]  # seeds 2 and 1
    found = verdicts.factorial(gone, "acc", [KIND, SITE])
    assert (found.seeds, found.seeds_left_out) == ((0, 3), (1, 2))
    whole = verdicts.factorial(frame[frame["seed"].isin([0, 3])], "acc", [KIND, SITE])
    for frame, column in (("contrasts", "diff"), ("interactions", "effect")):
        effects = [[interval(effect) for effect in getattr(model, frame)[column]] for model in (found, whole)]
        np.testing.assert_allclose(*effects, rtol=1e-9, atol=1e-12)


def test_numeric_and_unset_levels():
    frame = grid(**{"model.depth": [1, 2], "model.drop_rate": [0.0, 0.1]})
    frame["model.drop_rate"] = frame["model.drop_rate"].replace(0.0, NAN)
    found = verdicts.factorial(frame, "acc", ["model.depth", "model.drop_rate"])
    assert found.levels == {"model.depth": (1, 2), "model.drop_rate": ("none", 0.1)}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda f: f[f[KIND] == "a"], f"{KIND} takes only a in these runs"),
        (lambda f: f[(f[KIND] != "b") | (f[SITE] != "y")], f"run of {KIND} = b, {SITE} = y"),
        (lambda f: f[(f[KIND] != "b") | (f[SITE] != "y") | (f["seed"] == 0)], f"run of {KIND} = b, {SITE} = y"),
        (lambda f: f.assign(acc=f["acc"].where((f["seed"] < 3) | (f[SITE] == "x"))).query("seed > 1"), "1 of 2; two"),
        (lambda f: f.assign(seed=range(len(f))), f"and 3 more|{KIND} = a, {SITE} = x"),
    ],
)
def test_an_incomplete_grid_is_refused_by_the_names_of_what_is_missing(change, said):
    line = refusal(verdicts.factorial, change(grid(**GRID)), "acc", [KIND, SITE])
    assert any(each in line for each in said.split("|"))
