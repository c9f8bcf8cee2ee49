"""Which factors matter, and whether their effects depend on each other."""

from dataclasses import dataclass

import pandas as pd

from analysis import verdicts
from analysis.findings.means import Means
from analysis.findings.variants import levels_by_variant
from analysis.runs.runs import Runs, factor_levels
from analysis.runs.settings import in_order
from analysis.runs.source_run import ENDED
from analysis.verdicts.factorial import cover_failed
from analysis.verdicts.study import Policy
from experiments.errors import UserError


@dataclass(frozen=True)
class Factors:
    """The factors of a study. All but `skipped_reason` is empty for a study of one factor."""

    model: verdicts.Factorial | None = None  # the effects. They share alpha with the pairs
    skipped_reason: str = ""  # why a study of several factors has no `model`


def study_factors(study: Runs, means: Means, policy: Policy) -> Factors:
    """The effects of a study's factors."""
    if len(study.factors) < 2 or study.plan.one_change:
        return Factors()
    if not policy.has_grid:
        return Factors(
            skipped_reason="it needs two factors or more with two levels each, and every combination in the plan"
        )
    if policy.looks.waiting:
        return Factors(skipped_reason=f"the first planned look is at {policy.looks.next} seeds")
    try:
        model = _model(study.of("finished"), study, policy)
    except UserError as error:
        return Factors(skipped_reason=str(error).replace("factors: ", ""))
    return Factors(cover_failed(model, _counted(study, means, policy)) if policy.chance.failed else model)


def _model(runs: pd.DataFrame, study: Runs, policy: Policy) -> verdicts.Factorial:
    runs = runs.loc[[policy.looks.may_test(seed) for seed in runs["seed"]]]
    order = {variant: place for place, variant in enumerate(_by_levels(study))}
    runs = runs.sort_values("variant", key=lambda variant: variant.map(order), kind="stable")
    frame = runs[["seed", study.metric]].copy()
    for factor in study.factors:
        frame[factor] = factor_levels(runs, factor)
    paired, factors = policy.unit == "seed", list(study.factors)
    return verdicts.factorial(frame, study.metric, factors, policy.families, policy.looks, paired)


def _by_levels(study: Runs) -> list[str]:
    """The variants by the levels of the first factor, then of the next one: as planned, but numbers as numbers."""
    levels = levels_by_variant(study)
    places = {factor: {level: at for at, level in enumerate(in_order(levels[factor]))} for factor in levels}
    return sorted(levels.index, key=lambda variant: [of[levels.at[variant, factor]] for factor, of in places.items()])


def _counted(study: Runs, means: Means, policy: Policy) -> verdicts.Factorial | None:
    """The effects where failed runs count at chance level; None where that is unknown, or leaves no complete grid."""
    if policy.chance.unknown:
        return None
    runs, counted = study.of(*ENDED), policy.chance.counted(means.values)
    metric = [counted[variant][int(seed)] for variant, seed in zip(runs["variant"], runs["seed"])]
    try:
        return _model(runs.assign(**{study.metric: metric}).dropna(subset=[study.metric]), study, policy)
    except UserError:
        return None
