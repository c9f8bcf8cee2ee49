"""The trials that agents of W&B have trained, read from their records."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.config import SETTINGS, flatten, load, override, run_id
from experiments.runs import record
from experiments.study import RunSpec
from experiments.tuned import Range, TunedTrial
from sweeps.tuning.space import Space
from sweeps.tuning.tuning_plan import FIRST_SEED, TuningPlan
from sweeps.tuning.wandb_sweep import TRIALS


def trials_needed(plan: TuningPlan) -> int:
    """The trials with different settings that end the search of a variant: the budget, or fewer in a small space."""
    return int(min(plan.trials, math.prod(_size(path, tried) for path, tried in plan.space.items())))


def trial_rows(plan: TuningPlan, study_dir: Path) -> dict[str, list[TunedTrial]]:
    """variant -> its trials that have ended, in the order of their start, at most the budget of each.

    A trial belongs to a variant if the variant with the settings of the trial has its run id, and if the settings are within
    the plan's space. The others are of another plan. Trials with the same settings are one record. Raises `RecordError`.
    """
    records = [record.read_run(path.parent) for path in (study_dir / TRIALS).glob(f"*/{record.SUMMARY}")]
    records.sort(key=lambda each: (each.summary["provenance"]["started"], each.summary["run_id"]))
    found: dict[str, list[TunedTrial]] = {variant.variant: [] for variant in plan.variants}
    for each in records:
        config = dict(flatten(load(each.config).model_dump()))
        settings = {path: config[path] for path in plan.space}
        for variant in plan.variants:
            rows = found[variant.variant]
            if len(rows) < plan.trials and _belongs(plan.space, variant, settings, each.summary["run_id"]):
                rows.append(_row(variant, len(rows), each.summary, settings))
    return found


def _belongs(space: Space, variant: RunSpec, settings: Mapping[str, Any], trained: str) -> bool:
    if not all(_is_within(tried, settings[path]) for path, tried in space.items()):
        return False
    config = variant.config.model_copy(update={"seed": FIRST_SEED})
    return run_id(override(config, settings)) == trained


def _row(variant: RunSpec, number: int, summary: Mapping[str, Any], settings: dict[str, Any]) -> TunedTrial:
    diverged = summary["status"] == "diverged"
    return TunedTrial(
        variant=variant.variant,
        trial=number,
        seed=FIRST_SEED,
        status=summary["status"],
        epochs=summary["epochs"],
        val_acc=None if diverged else summary["val/acc"],
        val_loss=None if diverged else summary["val/loss"],
        settings=settings,
    )


def _is_within(tried: Range, value: Any) -> bool:
    if tried.choices is not None:
        return value in tried.choices
    low, high = tried.ends
    return low <= value <= high


def _size(path: str, tried: Range) -> float:
    """The number of values of a range."""
    if tried.choices is not None:
        return len(tried.choices)
    low, high = tried.ends
    return high - low + 1 if SETTINGS[path].annotation is int else math.inf
