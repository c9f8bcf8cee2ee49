"""Which factors matter, and whether their effects depend on each other."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis import verdicts
from analysis.findings.policy import Outcomes, Policy
from analysis.findings.variants import levels_by_variant
from analysis.runs.runs import Runs, in_order
from analysis.verdicts.factorial import cover_failed
from experiments.errors import first_few


@dataclass(frozen=True)
class Factors:
    """The factors of a study. All but `skipped_reason` is empty for a study of one factor."""

    model: verdicts.Factorial | None = None  # the effects. They share alpha with the pairs
    seeds_left_out: tuple[int, ...] = ()  # for lack of a finished run in some combination
    skipped_reason: str = ""  # why a study of several factors has no `model`


def study_factors(study: Runs, outcomes: Outcomes, policy: Policy) -> Factors:
    """The effects of a study's factors."""
    if len(study.factors) < 2 or study.plan.one_change:
        return Factors()
    if not policy.has_grid:
        return Factors(
            skipped_reason="it needs two factors or more with two levels each, and every combination in the plan"
        )
    if policy.looks.waiting:
        return Factors(skipped_reason=f"the first planned look is at {policy.looks.next} seeds")
    levels, tested = levels_by_variant(study), outcomes.at(policy.looks)
    places = levels.apply(lambda column: column.map(in_order(column).index))
    levels = levels.loc[places.sort_values(list(places), kind="stable").index]  # first by those of the first factor
    values, paired = tested.values[levels.index].dropna(how="all"), policy.unit == "seed"
    if reason := _incomplete(levels, values, paired):
        return Factors(skipped_reason=reason)

    def model(frame: pd.DataFrame) -> verdicts.Factorial:
        columns = {factor: cells.tolist() for factor, cells in levels.items()}
        cells = frame.loc[values.index, levels.index].to_numpy().T
        return verdicts.factorial(cells, columns, policy.families, policy.looks, paired)

    effects = model(values)
    if outcomes.has_failed:
        at_chance = tested.values.where(~tested.failed, tested.chance, axis=1)
        effects = cover_failed(effects, None if outcomes.chance_unknown else model(at_chance))
    return Factors(effects, tuple(values.index[list(effects.left_out)]))


def _incomplete(levels: pd.DataFrame, values: pd.DataFrame, paired: bool) -> str:
    """What a grid lacks; "" if nothing: half of the seeds or more have every cell; of unpaired runs, each has two."""
    finite = np.isfinite(values)
    least, few = (len(values) / 2, "half of the seeds have a") if paired else (2, "two")
    missing = levels[(finite.sum() < least).to_numpy()]
    if len(missing):
        cells = (", ".join(f"{factor} = {level}" for factor, level in cell.items()) for _, cell in missing.iterrows())
        return f"fewer than {few} finished run{'s' * (not paired)} of {first_few(cells, '; ')}"
    if paired and (complete := int(finite.all(axis=1).sum())) < 2:
        every = " and ".join(levels)
        return f"seeds with a finished run of every combination of {every}: {complete} of {len(values)}; two are needed"
    return ""
