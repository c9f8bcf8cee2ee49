"""Error rates over repeated looks: seeded simulations of averages over datasets and of factors."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from error_rates import rates, runs
from simulation import ALPHA, MARGIN, NEVER, SD, at_most

from analysis import stats
from analysis.stats import Looks, Rule

PLAN = (5, 10)


@pytest.mark.parametrize("variants", [2, 8])
def test_looks_without_a_plan_find_more_false_differences(variants):
    x = runs("equal", variants, PLAN[-1], 1000)
    unplanned = np.any([rates(x[..., :n]).difference for n in PLAN], axis=0).mean()
    assert at_most(ALPHA, rates(x, PLAN).difference) and unplanned > rates(x, PLAN).difference.mean() + 0.01


@pytest.mark.parametrize("spreads", [(1.0, 1.0), (1.0, 3.0, 0.3)])
def test_averages_over_datasets_over_two_planned_looks(spreads):
    """Two variants that equal the baseline on average, and two that differ from it by the margin."""
    false, unplanned = {"different": [], "equivalent": []}, []
    rng = np.random.default_rng(5)
    planned = [Rule(MARGIN, looks=Looks(PLAN, tuple(range(n)))) for n in PLAN]
    for _ in range(600):
        drawn = {v: [rng.normal(0, SD * each, PLAN[-1]) for each in spreads] for v in "ab"}
        shifted = {v: [sample + MARGIN for sample in samples] for v, samples in drawn.items()}
        floors = (0.0,) * len(spreads)
        words = {"different": set(), "equivalent": set()}
        for n, rule in zip(PLAN, planned):
            for kind, given, own in (("different", drawn, replace(rule, margin=NEVER)), ("equivalent", shifted, rule)):
                cut = {v: [sample[:n] for sample in samples] for v, samples in given.items()}
                words[kind] |= {each.verdict for each in stats.compare_averages(cut, floors, own).values()}
        false["different"].append(bool(words["different"] & {"better", "worse"}))
        false["equivalent"].append("equivalent" in words["equivalent"])
        plain = Rule(NEVER)
        at_looks = [{v: [sample[:n] for sample in samples] for v, samples in drawn.items()} for n in PLAN]
        single = [found for look in at_looks for found in stats.compare_averages(look, floors, plain).values()]
        unplanned.append(any(found.verdict in ("better", "worse") for found in single))
    assert at_most(ALPHA, np.array(false["different"])) and at_most(ALPHA, np.array(false["equivalent"]))
    assert np.mean(unplanned) > 0.06  # without a plan


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
        false.append(any("shown" in set(each.terms["verdict"]) for each in found))
    assert at_most(ALPHA, np.array(false))
