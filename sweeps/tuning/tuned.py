"""tuned.yaml, the result of a tuning: all trials, and the best one of each variant. Reading it imports no Optuna."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml
from pydantic import ValidationError

from experiments.config import unplaced
from experiments.errors import UserError, first_line
from experiments.files import write_text
from experiments.study import RunSpec
from experiments.tuned import Tuned, TunedTrial, TunedVariant, best_trial
from experiments.version import code
from experiments.yaml_file import read_mapping
from sweeps.tuning.tuning_plan import OBJECTIVE, TuningPlan

TUNED = "tuned.yaml"  # in the study's folder
HEAD = "# The result of a tuning. Train with it: vit-sweep run STUDY --tuned FILE\n"


def read_tuned(path: Path) -> Tuned:
    """A tuned.yaml, or the same in a study.json. Raises `UserError` naming file, field and reason."""
    tree = read_mapping(path, "`variants` and `trials`")
    if "runs" in tree and "tuning" not in tree:
        raise UserError(f"{path}: is the plan of a study that was not tuned")
    try:
        return Tuned.model_validate(tree.get("tuning", tree))
    except ValidationError as error:
        raise UserError(f"{path}: {first_line(error)}") from error


def write_tuned(path: Path, tuned: Tuned) -> None:
    """Write the file. The same content gives the same bytes."""
    text = yaml.safe_dump(tuned.tree(), sort_keys=False, allow_unicode=True, width=1000, default_flow_style=None)
    write_text(path, HEAD + text)


def check_result(plan: TuningPlan, trials: Mapping[str, Sequence[TunedTrial]], path: Path) -> None:
    """Raise `UserError` where a tuned.yaml would be lost: one of another tuning, or one that was changed by hand.

    `trials`: variant -> its trials so far.
    """
    if not path.exists():
        return
    old, advice = read_tuned(path), "move it, or give another --out"
    planned = {"study": plan.study.name, "base": unplaced(plan.base), "sampler": plan.sampler, "pruner": plan.pruner}
    known = {**old.tree(), "base": unplaced(old.base)}
    for field, value in {**planned, "space": plan.tried, "seeds_per_trial": plan.seeds}.items():
        if known[field] != json.loads(json.dumps(value)):
            raise UserError(f"{path}: is of another tuning: {field} differs; {advice}")
    settings = {(label, trial.trial): trial.settings for label in trials for trial in trials[label]}
    for label, chosen in old.variants.items():
        if settings.get((label, chosen.trial)) != chosen.settings:
            raise UserError(f"{path}: the settings of {label!r} are not those of trial {chosen.trial}; {advice}")


def make_tuned(plan: TuningPlan, trials: Mapping[str, Sequence[TunedTrial]]) -> Tuned:
    """The content of tuned.yaml. `trials`: variant -> its trials that have ended, one of which has finished."""
    return Tuned(
        study=plan.study.name,
        objective=OBJECTIVE,
        sampler=plan.sampler,
        pruner=plan.pruner,
        budget=plan.trials,
        seeds_per_trial=plan.seeds,
        space=dict(plan.space),
        base=plan.base,
        code=code(),
        variants={label: tuned_variant(v, trials[label]) for label, v in plan.study.variants.items()},
        trials=[trial for of_variant in trials.values() for trial in of_variant],
    )


def tuned_variant(variant: RunSpec, trials: Sequence[TunedTrial]) -> TunedVariant:
    """The settings chosen for a variant, which has a finished trial."""
    best = best_trial(trials)
    assert best is not None and best.val_acc is not None
    return TunedVariant(
        levels=dict(variant.levels),
        settings=best.settings,
        trial=best.trial,
        val_acc=best.val_acc,
        epochs=sum(trial.epochs for trial in trials),
    )
