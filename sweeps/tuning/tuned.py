"""The result of a tuning, tuned.yaml: all trials, and the best one of each variant; or a study of further factors, of
which the best levels are chosen. It imports no Optuna.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml
from pydantic import ValidationError

from experiments.compared import RunSpec
from experiments.config import changed_settings
from experiments.errors import UserError, first_line
from experiments.files import read_mapping, write_text
from experiments.runs.record import read_ended
from experiments.study import Study
from experiments.tuned import Range, Tuned, TunedTrial, TunedVariant, best_trial
from experiments.version import code
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
    """Raise `UserError` where a tuned.yaml would be lost: its choices are not those of the plan and of these trials.

    `trials`: variant -> its trials so far. Two tunings may try the same settings, so their accuracies count, too.
    """
    if not path.exists():
        return
    old = read_tuned(path)
    known = {(label, trial.trial, trial.val_acc): trial.settings for label in trials for trial in trials[label]}
    chosen = {(label, best.trial, best.val_acc): best.settings for label, best in old.variants.items()}
    same = (old.sampler, old.pruner, old.seeds_per_trial) == (plan.sampler, plan.pruner, plan.seeds)
    if not same or any(known.get(key) != settings for key, settings in chosen.items()):
        raise UserError(f"{path}: is of another tuning, or was changed by hand; move it, or give another --out")


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
        base=changed_settings(plan.study.base),
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


def tuned_by_study(folder: Path, plan: Study) -> Tuned:
    """For each variant of `plan`, the best levels of the factors that the study in `folder` has in addition.

    Each variant of that study is a trial; its value is the mean over its seeds. Raises `UserError` for a study of
    another metric or of other variants, and where a run has not finished.
    """
    grid = Study.read(folder)
    further = {path: levels for path, levels in grid.factors.items() if path not in plan.factors}
    variants = {_key(variant.levels): variant for variant in plan.variants.values()}
    trials: dict[str, list[TunedTrial]] = {label: [] for label in plan.variants}
    for label in grid.variants:
        runs = [run for run in grid.runs if run.variant == label]
        settings = {path: level for path, level in runs[0].levels.items() if path in further}
        variant = variants.get(_key({path: level for path, level in runs[0].levels.items() if path not in further}))
        of_data = any(path.startswith("data.") for path in settings)
        if variant is None or not settings or {*settings} != {*further} or of_data or grid.metric != OBJECTIVE:
            what = "further factors, none of them of the data"
            expected = f"the folder of a study of {OBJECTIVE} of the variants of {plan.name} with {what}"
            raise UserError(f"--tuned: {str(folder)!r} is not allowed: expected {expected}")
        ended = {run.seed: read_ended(folder, run) for run in runs}
        summaries = [summary for summary in ended.values() if summary and summary["status"] == "finished"]
        if len(summaries) < len(ended):
            raise UserError(f"--tuned: {folder}: {label!r} has runs that have not finished")
        trial = TunedTrial(
            variant=variant.variant,
            trial=len(trials[variant.variant]),
            seed=runs[0].seed,
            accuracies={seed: summary[OBJECTIVE] for seed, summary in ended.items() if summary},
            status="finished",
            epochs=sum(summary["epochs"] for summary in summaries),
            val_acc=fmean(summary[OBJECTIVE] for summary in summaries),
            val_loss=fmean(summary["val/loss"] for summary in summaries),
            settings=settings,
        )
        trials[variant.variant].append(trial)
    if missing := [label for label, of_variant in trials.items() if not of_variant]:
        raise UserError(f"--tuned: {folder}: has no runs of {missing[0]!r}")
    tried = [trial.settings for of_variant in trials.values() for trial in of_variant]  # those of `extra`, too
    space = {path: _range([settings[path] for settings in tried]) for path in further}
    study = plan.changed(base=grid.base)
    return make_tuned(TuningPlan(study, space, max(map(len, trials.values())), "grid", "none", len(grid.seeds)), trials)


def _key(levels: dict[str, Any]) -> str:
    return str(sorted(levels.items()))


def _range(tried: list[Any]) -> Range:
    levels = [level for place, level in enumerate(tried) if level not in tried[:place]]
    numbers = all(isinstance(level, int | float) and level > 0 for level in levels) and len(levels) > 1
    return Range(low=min(levels), high=max(levels), log=True) if numbers else Range(choices=levels)
