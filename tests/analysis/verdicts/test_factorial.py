"""Effects of several factors against scipy and the runs themselves; incomplete grids are refused."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats
from simulation import factorial

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


@pytest.mark.parametrize("factors", [{KIND: ["a", "b"]}, GRID, {**GRID, "model.depth": ["1", "2"]}])
def test_contrasts_are_t_tests_over_the_seeds(factors):
    frame = grid(**factors)
    found = factorial(frame, list(factors))
    terms = [one.term for one in found.contrasts]
    assert {term: terms.count(term) for term in terms} == {
        factor: math.comb(len(levels), 2) for factor, levels in factors.items()
    }
    for contrast in found.contrasts:
        diffs = per_seed(frame, {contrast.term: contrast.level}, {contrast.term: contrast.reference})
        test = scipy_stats.ttest_1samp(diffs, 0)
        expected = (diffs.mean(), *test.confidence_interval(), test.pvalue)
        assert (*interval(contrast.alone), contrast.p) == pytest.approx(expected, **CLOSE)


def test_interaction_of_two_by_two_is_the_t_test_of_the_difference_of_differences():
    frame = grid(**{KIND: ["a", "b"], SITE: ["x", "y"]})
    found = factorial(frame, [KIND, SITE])
    at = {site: per_seed(frame, {KIND: "b", SITE: site}, {KIND: "a", SITE: site}) for site in "xy"}
    assert found.tests[f"{KIND}+{SITE}"] == 1
    p = scipy_stats.ttest_1samp(at["y"] - at["x"], 0).pvalue
    assert [one.p for one in found.interactions] == pytest.approx([p] * 4, **CLOSE)
    assert [one.p_adjusted for one in found.interactions] == pytest.approx([min(3 * p, 1)] * 4, **CLOSE)
    assert found.interactions[0].alone.value == pytest.approx((at["y"] - at["x"]).mean() / 4, **CLOSE)


def test_effects_of_all_terms_are_one_family_in_which_every_term_has_the_same_weight():
    found = factorial(grid(**GRID), [KIND, SITE])
    kinds, (site,) = ([one.p for one in found.contrasts if one.term == factor] for factor in (KIND, SITE))
    cells = [one.p for one in found.interactions if one.level.endswith(" x x")]  # those at y: their negatives
    assert found.tests == {KIND: 3, SITE: 1, f"{KIND}+{SITE}": 3}
    factor = [9, 9, 9, 3]  # three terms, and three effects of kinds, one of sites
    adjusted = np.minimum(factor * np.array([*kinds, site]), 1)
    assert [one.p_adjusted for one in found.contrasts] == pytest.approx(adjusted.tolist(), **CLOSE)
    beyond = np.minimum(np.repeat(9 * np.array(cells), 2), 1).tolist()
    assert [one.p_adjusted for one in found.interactions] == pytest.approx(beyond, **CLOSE)
    shared = factorial(grid(**GRID), [KIND, SITE], families=2)
    expected = np.minimum(2 * np.array(factor) * [*kinds, site], 1).tolist()
    assert [one.p_adjusted for one in shared.contrasts] == pytest.approx(expected, **CLOSE)


@pytest.mark.parametrize("families", [1, 2])
def test_an_effect_is_shown_where_its_interval_for_all_effects_leaves_zero_out(families):
    frame = grid(**GRID)
    found = factorial(frame, [KIND, SITE], families=families)
    for contrast in found.contrasts:
        diffs = per_seed(frame, {contrast.term: contrast.level}, {contrast.term: contrast.reference})
        share = 0.05 / families / 3 / (3 if contrast.term == KIND else 1)
        low, high = scipy_stats.ttest_1samp(diffs, 0).confidence_interval(1 - share)
        assert interval(contrast.adjusted) == pytest.approx((diffs.mean(), low, high), **CLOSE)
        assert contrast.verdict == ("shown" if low > 0 or high < 0 else "not shown")
    for factor in (KIND, SITE):
        words = {one.verdict for one in found.contrasts if one.term == factor}
        assert found.verdicts[factor] == ("shown" if "shown" in words else "not shown")


def test_effects_that_need_the_surviving_runs_are_not_shown():
    """Where diverged runs count at chance level, the intervals cover both; where that is not known, there are none."""
    frame = grid(seeds=6, **GRID)
    finished = factorial(frame, [KIND, SITE])
    lost = frame.assign(acc=frame["acc"].where((frame[KIND] != "c") | (frame["seed"] > 2), 0.1))
    counted = factorial(lost, [KIND, SITE])
    both = cover_failed(finished, counted)
    assert {one.verdict for one in finished.contrasts} == {"shown"}
    by_pair, own, other = (
        {(one.level, one.reference): one for one in model.contrasts} for model in (both, finished, counted)
    )
    assert [by_pair[pair].verdict for pair in [("b", "a"), ("c", "a"), ("y", "x")]] == ["shown", "not shown", "shown"]
    ends = [(of["c", "a"].adjusted.low, of["c", "a"].adjusted.high) for of in (by_pair, own, other)]
    assert ends[0] == (min(ends[1][0], ends[2][0]), max(ends[1][1], ends[2][1]))
    assert {one.verdict_of_finished for one in both.contrasts} == {"shown"}
    unknown = cover_failed(finished, None)
    assert {one.verdict for one in unknown.effects} | set(unknown.verdicts.values()) == {"not tested"}
    assert np.isnan([(one.p, one.p_adjusted) for one in unknown.effects]).all()


def test_interactions_by_hand():
    frame = grid(**GRID)
    found = factorial(frame, [KIND, SITE])
    grand = frame["acc"].mean()
    kinds, cells = frame.groupby(KIND)["acc"].mean(), frame.groupby([KIND, SITE])["acc"].mean()
    sites = frame.groupby(SITE)["acc"].mean()
    for effect in found.interactions:
        k, s = effect.level.split(" x ")
        assert effect.alone.value == pytest.approx(cells[k, s] - kinds[k] - sites[s] + grand, **CLOSE)
    assert found.left_out == ()


def test_a_seed_counts_only_if_it_has_every_cell():
    frame = grid(**GRID)
    gone = frame.copy()
    gone.loc[[2, 9], "acc"] = [NAN, NAN]  # seeds 2 and 1
    found = factorial(gone, [KIND, SITE])
    assert found.left_out == (1, 2)
    whole = factorial(frame[frame["seed"].isin([0, 3])], [KIND, SITE])
    effects = [[interval(effect.alone) for effect in model.effects] for model in (found, whole)]
    np.testing.assert_allclose(*effects, rtol=1e-9, atol=1e-12)
