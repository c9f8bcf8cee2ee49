"""The result of a tuning: the best trial of each variant, Optuna's importances, and the table of all trials."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.trial import create_trial

from experiments.tuned import Range, Tuned, TunedTrial, TunedVariant
from experiments.version import code
from sweeps.tuning.space import Space, distribution_of
from sweeps.tuning.tuning_plan import OBJECTIVE, TuningPlan

FEWEST = 8  # trials from which importances are computed


def best_trial(rows: Sequence[TunedTrial]) -> TunedTrial | None:
    """The finished trial with the highest validation accuracy, then the lowest validation loss, then the lowest number."""
    finished = [row for row in rows if row.status == "finished" and row.val_acc is not None]
    return min(finished, key=lambda row: (-(row.val_acc or 0), row.val_loss or 0, row.trial), default=None)


def tuned_result(plan: TuningPlan, rows: Mapping[str, Sequence[TunedTrial]]) -> Tuned:
    """The content of tuned.yaml. `rows`: variant -> its trials; each variant has a finished one."""
    variants = {}
    for variant in plan.variants:
        own = rows[variant.variant]
        best = best_trial(own)
        assert best is not None and best.val_acc is not None
        variants[variant.variant] = TunedVariant(
            levels=dict(variant.levels),
            settings=best.settings,
            trial=best.trial,
            val_acc=best.val_acc,
            epochs=sum(row.epochs for row in own),
            importances=importances(plan.space, own),
        )
    return Tuned(
        study=plan.study.name,
        objective=OBJECTIVE,
        sampler=plan.sampler,
        pruner=plan.pruner,
        budget=plan.trials,
        space=dict(plan.space),
        base=plan.base,
        code=code(),
        variants=variants,
        trials=[row for own in rows.values() for row in own],
    )


def importances(space: Space, rows: Sequence[TunedTrial]) -> dict[str, float]:
    """Optuna's fANOVA importances of the settings; empty for one setting, or where the trials say nothing about them.

    That is with fewer than `FEWEST` trials, or if all have the same value. A pruned trial counts with its last validation
    accuracy, a diverged one with 0. Failed trials do not count.
    """
    counted = [row for row in rows if row.status != "failed"]
    values = [row.val_acc or 0.0 for row in counted]
    if len(counted) < FEWEST or len(space) < 2 or len(set(values)) < 2:
        return {}
    study = optuna.create_study(direction="maximize")
    tried: dict[str, BaseDistribution] = {path: distribution_of(path, each) for path, each in space.items()}
    for row, value in zip(counted, values, strict=True):
        params = {path: _within(each, row.settings[path]) for path, each in space.items()}
        study.add_trial(create_trial(params=params, distributions=tried, value=value))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
        found = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return {path: round(float(found[path]), 4) for path in space}


def _within(tried: Range, value: Any) -> Any:
    """The value, at most the end of its range: rounding to four digits can exceed an end, and Optuna refuses that."""
    return value if tried.low is None or tried.high is None else min(max(value, tried.low), tried.high)
