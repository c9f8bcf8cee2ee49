"""Error rates over repeated looks and with diverged runs: seeded simulations of studies whose truth is known."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import study_file
from simulation import ALPHA, MARGIN, NEVER, SD, all_pairs, at_most, signs

from analysis import stats
from analysis.claims.check import check
from analysis.claims.literature import LITERATURE
from analysis.stats import Looks, Rule
from analysis.stats.estimates import moments, t_interval

PLAN = (5, 10)


def studies(means: list[float], sd: float = SD, count: int = 4000, seed: int = 0, shared: float = 1) -> np.ndarray:
    """Values (studies, variants, seeds) of the last look; a seed lifts all its runs alike, by `shared` times sd."""
    rng = np.random.default_rng([seed, len(means)])
    shape = (count, len(means), PLAN[-1])
    return np.array(means)[:, None] + rng.normal(0, sd, shape) + rng.normal(0, shared * sd, (count, 1, PLAN[-1]))


def at_each_look(runs: np.ndarray, planned: bool, margin: float, floor: float = 0.0) -> list[np.ndarray]:
    """The verdicts on all pairs (studies, pairs) at each look, with or without a plan of looks."""
    found = []
    for n in PLAN:
        looks = Looks(PLAN, tuple(range(n))) if planned else stats.NO_PLAN
        found.append(signs(all_pairs(runs[..., :n]), Rule(margin, floor=floor, looks=looks)))
    return found


def ever(false: list[np.ndarray]) -> np.ndarray:
    """Whether a study (studies,) has a false verdict at any look."""
    return np.any([each.any(axis=-1) for each in false], axis=0)


@pytest.mark.parametrize("variants", [2, 8])
def test_false_differences_over_two_planned_looks_in_at_most_alpha_of_all_studies(variants):
    runs = studies([0.9] * variants)
    planned, unplanned = (
        ever([np.abs(each) == 1 for each in at_each_look(runs, planned, NEVER)]) for planned in (True, False)
    )
    assert at_most(ALPHA, planned)
    assert unplanned.mean() > 0.06  # without a plan


@pytest.mark.parametrize("sd", [0.001, 0.003, SD])
def test_both_kinds_of_false_verdict_over_two_planned_looks(sd):
    """Two groups of variants, a margin apart: pairs within a group do not differ, pairs across are not equivalent."""
    means = [0.0, 0.0, MARGIN, MARGIN]
    across = np.abs(all_pairs(np.array(means)[None, :, None])[0, :, 0]) > 0
    found = at_each_look(studies(means, sd), True, MARGIN)
    assert at_most(ALPHA, ever([np.where(across, each == 0, np.abs(each) == 1) for each in found]))


def test_accuracies_in_steps_of_one_image_over_two_planned_looks():
    runs = np.rint(studies([90.0] * 3, sd=0.4)) / 100
    found = at_each_look(runs, True, NEVER, floor=math.sqrt(2) * 0.005)
    assert at_most(ALPHA, ever([np.abs(each) == 1 for each in found]))


@pytest.mark.parametrize("spreads", [(1.0, 1.0), (1.0, 3.0, 0.3)])
def test_averages_over_datasets_over_two_planned_looks(spreads):
    """Two variants that equal the baseline on average, and two that differ from it by the margin."""
    false, unplanned = {"different": [], "equivalent": []}, []
    rng = np.random.default_rng(5)
    whole = Rule(MARGIN, looks=Looks(PLAN, tuple(range(PLAN[-1]))))  # the verdicts of both looks together
    for _ in range(1200):
        drawn = {v: [rng.normal(0, SD * each, PLAN[-1]) for each in spreads] for v in "ab"}
        shifted = {v: [sample + MARGIN for sample in samples] for v, samples in drawn.items()}
        floors = (0.0,) * len(spreads)
        strict = [each.verdict for each in stats.compare_averages(drawn, floors, replace(whole, margin=NEVER)).values()]
        near = [each.verdict for each in stats.compare_averages(shifted, floors, whole).values()]
        false["different"].append("better" in strict or "worse" in strict)
        false["equivalent"].append("equivalent" in near)
        plain = Rule(NEVER)
        at_looks = [{v: [sample[:n] for sample in samples] for v, samples in drawn.items()} for n in PLAN]
        single = [found for look in at_looks for found in stats.compare_averages(look, floors, plain).values()]
        unplanned.append(any(found.verdict in ("better", "worse") for found in single))
    assert at_most(ALPHA, np.array(false["different"])) and at_most(ALPHA, np.array(false["equivalent"]))
    assert np.mean(unplanned) > 0.06  # without a plan


def test_intervals_of_all_looks_together_cover_at_their_level():
    diffs, covered = all_pairs(studies([0.0, 0.0], count=20_000, seed=1))[:, 0], []
    for n in PLAN:
        centre, deviation, counts = moments(diffs[:, :n])
        level = 1 - Looks(PLAN, tuple(range(n))).level(ALPHA)
        low, high = t_interval(centre, deviation / np.sqrt(n), counts - 1, level)
        covered.append((low <= 0) & (high >= 0))
    assert 0.945 <= np.all(covered, axis=0).mean() <= 0.955


def test_effects_of_factors_over_two_planned_looks():
    rng = np.random.default_rng(2)
    cells = pd.MultiIndex.from_product([range(PLAN[-1]), ["a", "b", "c"], ["x", "y"]], names=["seed", "kind", "site"])
    frame, false = cells.to_frame(index=False), []
    for _ in range(60):
        noise = (
            rng.normal(0, SD, (PLAN[-1], 3, 2)) + rng.normal(0, SD, (PLAN[-1], 3, 1)) + rng.normal(0, SD, (10, 1, 2))
        )
        frame["acc"] = noise.ravel()
        found = [
            stats.factorial(frame[frame["seed"] < n], "acc", ["kind", "site"], looks=Looks(PLAN, tuple(range(n))))
            for n in PLAN
        ]
        false.append(any((each.terms["p_holm"] <= ALPHA).any() for each in found))
    assert at_most(ALPHA, np.array(false))


def test_claims_over_two_planned_looks():
    """Every kind is a margin above none, so no claim of "far below" holds, but that of "below"; all alike, so every
    claim of "alike" does, and none of "better".
    """
    kinds = {"none": 0.900, "learned-1d": 0.910, "learned-2d": 0.910, "relative": 0.910, "rope-2d": 0.910}
    study = study_file.plan({kind: {"model.pos_embed": kind} for kind in kinds}, seeds=10, margin=MARGIN)
    false = []
    for row in studies(list(kinds.values()), 0.003, count=50, seed=3):
        wrong = []
        for n in PLAN:
            values = {kind: dict(enumerate(accuracies[:n])) for kind, accuracies in zip(kinds, row)}
            found = check(LITERATURE, study, values, Rule(MARGIN, looks=Looks(PLAN, tuple(range(n)))))
            wrong += [
                each.outcome
                == ("does not hold here" if each.claim.id.endswith(("kinds", "relative-none")) else "holds here")
                for each in found
            ]
        false.append(any(wrong))
    assert at_most(ALPHA, np.array(false))


@pytest.mark.parametrize("seeds", [5, 10])
@pytest.mark.parametrize("variants", [2, 8])
def test_a_variant_whose_unluckiest_runs_diverge_is_not_simply_better(seeds, variants):
    """The worst 40 % of the last variant's runs diverge; all variants are alike. Its survivors look better."""
    runs = studies([0.9] * variants, seed=4, shared=0)[..., :seeds]
    worst = np.argsort(np.argsort(runs[:, -1], axis=-1), axis=-1) < round(0.4 * seeds)
    survivors, at_chance = runs.copy(), runs.copy()
    survivors[:, -1][worst], at_chance[:, -1][worst] = np.nan, 0.1
    rule = Rule(MARGIN)
    finished, counted = (signs(all_pairs(given), rule) for given in (survivors, at_chance))
    last = np.triu_indices(variants, 1)[1] == variants - 1  # the pairs (another variant) - (the last)
    better = finished[:, last] == -1
    assert at_most(ALPHA, (better & (counted[:, last] == -1)).any(axis=-1))
    if (seeds, variants) == (10, 2):  # fewer survivors, or more pairs, leave little power for any verdict
        assert better.any(axis=-1).mean() > 0.07  # without counting diverged runs
