"""A plan together with that of study.json: a larger plan of the same study extends it, and no other one replaces it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.config import flatten, unplaced
from experiments.errors import UserError, format_level
from experiments.runs import record
from experiments.runs.reused import merged
from experiments.study import COMPARISON, GRID, STUDY, RunSpec, StudyPlan
from sweeps.plan import make_run

WHY_OTHER = "another version trained it, or the source of its plug-in was changed or is not recorded there"
"""Why a run of study.json has another run id here, though its settings are the same."""


def with_planned_runs(plan: StudyPlan, old: StudyPlan | None, study_dir: Path) -> StudyPlan:
    """The plan together with the runs of study.json, which is `old`. Raises `UserError` where that is another study."""
    if old is None:
        return plan
    return with_sources(plan.changed(runs=_merged_runs(plan, old, study_dir)), old)


def with_sources(plan: StudyPlan, old: StudyPlan | None) -> StudyPlan:
    """The plan with the sources of study.json, which is `old`, too: what was reused once is not trained later."""
    return plan.changed(reuse=merged(plan.reuse, old.reuse)) if old and old.reuse else plan


def _merged_runs(plan: StudyPlan, old: StudyPlan, study_dir: Path) -> list[RunSpec]:
    """The runs of study.json, which is `old`, and those of the plan, ordered by seed, the seeds of the former first.

    Raises `UserError` where the folder holds another study, naming the first difference. More seeds, levels and factors
    make no other study if the plan has every run of the folder.
    """
    seeds = dict.fromkeys(run.seed for run in (*old.runs, *plan.runs))
    every = (
        make_run(run.variant, run.levels, run.config, seed, run.settings)
        for seed in seeds
        for run in plan.variants.values()
    )
    planned = {run.run_id: run for run in every}
    if difference := _difference(old, plan, planned, study_dir):
        path = study_dir / STUDY
        raise UserError(f"{path}: holds another study: {difference}; choose another --out, or another name")
    names = {run.run_id: run.name for run in (*plan.runs, *old.runs)}
    return [run.model_copy(update={"name": names[key]}) for key, run in planned.items() if key in names]


def _difference(old: StudyPlan, plan: StudyPlan, planned: Mapping[str, RunSpec], study_dir: Path) -> str | None:
    """What makes the study in the folder another study than the plan's; None if nothing does.

    `planned`: run id -> run, for every variant of the plan and every seed of both.
    """
    if missing := [run for run in old.runs if run.run_id not in planned]:
        before, now = map(_contents, (old, plan))
        for path in {**before, **now}:
            if before.get(path) != now.get(path):
                return f"{path} is {format_level(before.get(path))} there and {format_level(now.get(path))} here"
        return f"{missing[0].name} is not among the runs here: {WHY_OTHER}"
    stated = {field: (getattr(old, field), getattr(plan, field)) for field in COMPARISON if field != "baseline"}
    if any(tree.definition.get("baseline") is not None for tree in (old, plan)):  # else it is the first variant
        label = next(planned[run.run_id].variant for run in old.runs if run.variant == old.baseline)
        stated["baseline"] = label, plan.baseline  # a study that gains a factor gives its variants longer labels
    changed = [field for field, (there, here) in stated.items() if there != here]
    if changed and any(record.is_finished(study_dir / run.name) for run in old.runs):
        there, here = map(format_level, stated[changed[0]])
        return f"{changed[0]} is {there} there and {here} here, and it cannot change after the first run has finished"
    return None


def _contents(plan: StudyPlan) -> dict[str, Any]:
    """What decides which runs a plan has, in one level: tuned settings, base, factors and extra variants."""
    tuned = {label: chosen.settings for label, chosen in plan.tuned.variants.items()} if plan.tuned else {}
    base = unplaced(dict(flatten(plan.base)))
    return dict(flatten({**{field: getattr(plan, field) for field in GRID}, "base": base, "tuned": tuned}))
