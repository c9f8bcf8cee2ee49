"""A tuning as a study of validation accuracy: what is chosen are its further factors, and the best level wins."""

from pathlib import Path
from statistics import fmean
from typing import Any

from experiments.errors import UserError
from experiments.runs.record import read_ended
from experiments.study import Study
from experiments.tuned import Range, Tuned, TunedTrial
from sweeps.tuning.tuned import make_tuned
from sweeps.tuning.tuning_plan import OBJECTIVE, TuningPlan


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
        if variant is None or not settings or of_data or grid.metric != OBJECTIVE:
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
    space = {path: _range(levels) for path, levels in further.items()}
    study = plan.changed(base=grid.base)
    return make_tuned(TuningPlan(study, space, max(map(len, trials.values())), "grid", "none", len(grid.seeds)), trials)


def _key(levels: dict[str, Any]) -> str:
    return str(sorted(levels.items()))


def _range(levels: list[Any]) -> Range:
    numbers = all(isinstance(level, int | float) and level > 0 for level in levels) and len(levels) > 1
    return Range(low=min(levels), high=max(levels), log=True) if numbers else Range(choices=levels)
