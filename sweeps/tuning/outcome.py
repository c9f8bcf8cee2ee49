"""What a tuning ends with: its result is checked against an earlier one, and written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.errors import UserError
from experiments.tuned import Tuned, TunedTrial
from sweeps.tuning.result import best_trial, tuned_result
from sweeps.tuning.tuned import read_tuned, write_tuned
from sweeps.tuning.tuning_plan import TuningPlan, same_tuning


@dataclass(frozen=True)
class Outcome:
    """What a tuning ended with. `untuned`: variants without a finished trial; then nothing is written."""

    tuned: Tuned | None
    failed: list[TunedTrial]
    untuned: list[str]


def check_result(plan: TuningPlan, path: Path) -> None:
    """Raise `UserError` where a tuned.yaml would be lost: one of another tuning or of more trials, or one changed by hand."""
    if not path.exists():
        return
    old = read_tuned(path)
    advice = "move it, or give another --out"
    if field := same_tuning(old, plan):
        raise UserError(f"{path}: is of another tuning: {field} differs; {advice}")
    if plan.trials < old.budget:
        raise UserError(
            f"--trials: {plan.trials} is not allowed: {path} is the result of {old.budget} trials of each variant; {advice}"
        )
    settings = {(trial.variant, trial.trial): trial.settings for trial in old.trials}
    for variant, found in old.variants.items():
        if settings.get((variant, found.trial)) != found.settings:
            raise UserError(f"{path}: the settings of {variant!r} are not those of trial {found.trial}; {advice}")


def write_result(plan: TuningPlan, rows: Mapping[str, Sequence[TunedTrial]], path: Path) -> Outcome:
    """Write tuned.yaml, unless a variant has no finished trial. `rows`: variant -> its trials."""
    failed = [row for own in rows.values() for row in own if row.status == "failed"]
    untuned = [variant for variant, own in rows.items() if best_trial(own) is None]
    if untuned:
        return Outcome(None, failed, untuned)
    tuned = tuned_result(plan, rows)
    write_tuned(path, tuned)
    return Outcome(tuned, failed, [])
