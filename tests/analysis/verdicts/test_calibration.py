"""Error rates and coverage of the statistics: seeded simulations of studies whose truth is known."""

import numpy as np
import pandas as pd
import pytest
from simulation import ALPHA, SD, at_most, factorial

from analysis.verdicts import Looks

SEEDS = (3, 10)


@pytest.mark.parametrize("n", SEEDS)
@pytest.mark.parametrize("crossed", [0, 3])
def test_factors_keep_their_level_whatever_varies_with_the_seed(n, crossed):
    """`crossed` is the factor x seed variation relative to that of runs, which an error pooled over cells leaves
    out.
    """
    rng = np.random.default_rng([n, 6])
    cells = pd.MultiIndex.from_product([["a", "b", "c"], ["x", "y"], range(n)], names=["kind", "site", "seed"])
    frame = cells.to_frame(index=False)
    true = {("b", "a"): 0.01, ("c", "a"): 0.03, ("c", "b"): 0.02, ("y", "x"): 0.0}
    shift = {"a": 0.0, "b": 0.01, "c": 0.03}
    covered, false = [], []
    for _ in range(200):
        noise = rng.normal(0, SD, (3, 2, n)) + rng.normal(0, 0.02, n)
        noise += crossed * (rng.normal(0, SD, (3, 1, n)) + rng.normal(0, SD, (1, 2, n)))
        frame["acc"] = frame["kind"].map(shift) + noise.ravel()
        found = factorial(frame, ["kind", "site"])
        covered += [one.alone.low <= true[one.level, one.reference] <= one.alone.high for one in found.contrasts]
        false.append("shown" in (found.verdicts["site"], found.verdicts["kind+site"]))
    assert np.mean(covered) >= 0.93
    assert at_most(ALPHA, np.array(false))


@pytest.mark.parametrize("levels", [[0, 0, 3], [0, 0, 3, 3]], ids=["3 x 3 x 3", "4 x 4"])
def test_levels_that_do_not_differ_are_rarely_told_apart_beside_levels_that_do(levels):
    """True effects make every factor significant; its other contrasts, and all interactions, must stay at the level
    of the study.
    """
    rng = np.random.default_rng([len(levels), 15])
    factors = ["kind", "site", "depth"][: 6 - len(levels)]
    frame = pd.MultiIndex.from_product([range(len(levels))] * len(factors) + [range(5)], names=[*factors, "seed"])
    frame = frame.to_frame(index=False)
    shift, false, power = np.array(levels)[frame[factors]].sum(axis=1), [], []
    for _ in range(250):
        frame["acc"] = shift + rng.normal(0, 1, len(frame))
        found = factorial(frame, factors, families=2)
        shown = np.array([one.verdict == "shown" for one in found.contrasts])
        true = np.array([levels[int(one.level)] != levels[int(one.reference)] for one in found.contrasts])
        false.append(any(shown & ~true) or "shown" in {one.verdict for one in found.interactions})
        power.append(np.mean(shown[true]))
    assert at_most(ALPHA, np.array(false))
    assert np.mean(power) > (0.98 if len(levels) == 3 else 0.75)


def test_effects_of_factors_over_two_planned_looks():
    plan, rng = (5, 10), np.random.default_rng(2)
    cells = pd.MultiIndex.from_product([range(plan[-1]), ["a", "b", "c"], ["x", "y"]], names=["seed", "kind", "site"])
    frame, false = cells.to_frame(index=False), []
    for _ in range(60):
        noise = (
            rng.normal(0, SD, (plan[-1], 3, 2)) + rng.normal(0, SD, (plan[-1], 3, 1)) + rng.normal(0, SD, (10, 1, 2))
        )
        frame["acc"] = noise.ravel()
        found = [
            factorial(frame[frame["seed"] < n], ["kind", "site"], looks=Looks(plan, tuple(range(n)))) for n in plan
        ]
        false.append(any("shown" in each.verdicts.values() for each in found))
    assert at_most(ALPHA, np.array(false))
