"""The folder of a study, with its plan: a larger plan of the same study extends it, and no other one replaces it."""

import contextlib
import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from experiments.catalogue import DATASETS
from experiments.config import flatten, run_id, unplaced
from experiments.errors import UserError, format_level, writing
from experiments.files import check_own
from experiments.locks import DRIVER_LOCK, holder, lock
from experiments.runs import record
from experiments.runs.history import Look, add_look
from experiments.runs.reused import ReusedRuns, merged, reused_runs
from experiments.study import COMPARISON, GRID, OTHER_FOLDERS, STUDY, RunSpec, StudyPlan
from sweeps.plan import make_run
from vit import plugins

DRIVER_SECONDS = 1.0  # in which a driver that is ending ends, and one that only looks at the lock has looked
Ended = dict[str, dict[str, Any]]
"""run -> the summary of its record"""
LOG = "sweep.log"  # in the study's folder: what libraries print in the workers


@dataclass(frozen=True)
class StudyFolder:
    """A study, and what a command has read in its folder, once. A driver adds the records of runs that end.

    `stated`: the plan in study.json, if there is one. `ended` has the runs that are reused, too.
    """

    dir: Path
    plan: StudyPlan
    ended: Ended = field(default_factory=dict)
    stated: StudyPlan | None = None
    reused: ReusedRuns = field(default_factory=dict)

    @classmethod
    def read(cls, plan: StudyPlan, study_dir: Path, only: Collection[str] | None = None) -> Self:
        """Read study.json and the records, or `only` those of some runs. Raises `RecordError` where one is damaged, or
        that of another run, and where a source of runs that are reused is missing or was changed.

        The runs of the plan get the names, and so the folders, that they have in study.json: a study that gains a
        factor gives its variants longer labels, and the records stay where they are. See also `with_stopped`.
        """
        old = _old_plan(study_dir)
        names = {run.run_id: run.name for run in old.runs} if old else {}
        runs = [run.model_copy(update={"name": names.get(run.run_id, run.name)}) for run in plan.runs]
        plan = with_stopped(_with_sources(plan.changed(runs=runs), old), old)
        reused, ended = reused_runs(plan), Ended()
        for run in plan.runs:
            if only is not None and run.name not in only:
                continue
            if summary := record.read_ended(study_dir, run):
                ended[run.name] = summary
                reused.pop(run.run_id, None)  # the study has its own
            elif run.run_id in reused:
                ended[run.name] = reused[run.run_id].summary
        return cls(study_dir, plan, ended, old, reused)

    @property
    def left(self) -> list[RunSpec]:
        """The runs that have not ended, in the order of the plan."""
        return [run for run in self.plan.runs if run.name not in self.ended]

    def check(self) -> None:
        """Raise `UserError` where `write` would refuse the plan or the folder."""
        with_planned_runs(self.plan, self.stated, self.dir)
        for name in (*OTHER_FOLDERS, *(run.name for run in self.left)):
            check_own(self.dir / name)
        parent = next(path for path in (self.dir, *self.dir.parents) if os.path.lexists(path))
        if not (parent.is_dir() and os.access(parent, os.W_OK)):
            raise UserError(f"out: {str(self.dir)!r} cannot be written: {parent} is no folder that you may write to")

    def ready(self) -> None:
        """Every command that trains runs here asks first. Raises `UserError` where the user's images are not those of
        the first run of the plan and of study.json that has a record, and where runs are left to train and the images
        cannot be read.
        """
        runs = [run for run in self.plan.runs if DATASETS[run.config.data.name].source == "folder"]
        if runs and self.stated:
            every = with_planned_runs(self.plan, self.stated, self.dir).runs
            runs = [run for run in every if DATASETS[run.config.data.name].source == "folder"]
        if runs:
            from experiments.data.folder import files_digest  # they import torch
            from experiments.runs.images import check_unchanged, recorded_hash
        for root in {run.config.data.root: None for run in runs}:
            of_root = [run for run in runs if run.config.data.root == root]
            if not all(run.run_id in self.reused or record.is_finished(self.dir / run.name) for run in of_root):
                files_digest(root)  # here, so that the workers find it and not every one decodes the files
            recorded = ((run, recorded_hash(self.dir / run.name)) for run in of_root)
            run, files = next((pair for pair in recorded if pair[1]), (of_root[0], ""))
            check_unchanged(run.config, files, self.dir / run.name)
            held = [self.reused[run.run_id] for run in of_root if run.run_id in self.reused]
            for known, source in {(one.summary.get("data") or {}).get("files"): one.source for one in held}.items():
                check_unchanged(of_root[0].config, known, Path(source.folder))

    def write(self, command: str) -> StudyPlan:
        """Write the plan to study.json, together with the runs that earlier commands planned there. Returns it all.

        study.json is read again: another command may have changed it. The caller is `the_only_driver`. Raises
        `UserError` where the folder holds another study or cannot be written.
        """
        with writing(self.dir):
            self.dir.mkdir(parents=True, exist_ok=True)
            old = _old_plan(self.dir)
            plan = with_planned_runs(self.plan, old, self.dir)
            if old and {run.seed for run in plan.runs} > {run.seed for run in old.runs}:
                _record_look(old, self.dir, self.ended)
            plan = plan.changed(command=command)
            plan.write(self.dir)
        return plan

    def stop(self, look: int, labels: Collection[str]) -> StudyPlan:
        """Take the runs after a look of these variants out of study.json, and of those that stopped before. Returns
        its plan. The caller is `the_only_driver`.
        """
        plan = StudyPlan.read(self.dir)
        plan = plan.with_last_looks({**dict.fromkeys(labels, look), **plan.stopped})
        plan.write(self.dir)
        return plan


@contextlib.contextmanager
def the_only_driver(study_dir: Path) -> Iterator[None]:
    """Be the one process that trains the study or writes its plan, in the body.

    Raises `UserError`, which names the other one, where there is one.
    """
    with writing(study_dir):
        study_dir.mkdir(parents=True, exist_ok=True)
    path = study_dir / DRIVER_LOCK
    with lock(path, DRIVER_SECONDS) as held:
        if not held:
            other = holder(path)
            since = f" since {other.since}: {other.command}" if other and other.since else ""
            raise UserError(f"{study_dir}: {other or 'another process'} trains this study{since}")
        yield


def with_planned_runs(plan: StudyPlan, old: StudyPlan | None, study_dir: Path) -> StudyPlan:
    """The plan together with the runs of study.json, which is `old`. Raises `UserError` where that is another study."""
    if old is None:
        return plan
    return with_stopped(_with_sources(plan.changed(runs=_merged_runs(plan, old, study_dir)), old), old)


def _with_sources(plan: StudyPlan, old: StudyPlan | None) -> StudyPlan:
    """The plan with the sources of study.json, which is `old`, too: what was reused once is not trained later."""
    return plan.changed(reuse=merged(plan.reuse, old.reuse)) if old and old.reuse else plan


def plan_of(study_dir: Path) -> StudyPlan:
    """The plan in STUDY/study.json, to train it. Its plug-ins are imported. Nothing else is read, so any machine can
    join a sweep.

    Raises `UserError` where the file cannot be read, holds an exported study, or lists a run that has another id here:
    the source of its plug-in is another, or this version computes something else.
    """
    path, plan = study_dir / STUDY, StudyPlan.read(study_dir)
    plugins.add(plan.plugins, f"{path}: plugins")
    for run in plan.runs:
        if (here := run_id(run.config)) != run.run_id:
            raise UserError(f"{path}: {run.name} has the run id {here} here, not {run.run_id}: {WHY_OTHER}; use --out")
    return plan


def with_stopped(plan: StudyPlan, old: StudyPlan | None) -> StudyPlan:
    """The plan without the later runs of variants that have stopped in study.json, which is `old`.

    All variants go on where every pair is to be decided now, and the baseline's pairs were before. Raises `UserError`
    where a variant that has stopped is not in the plan.
    """
    now = plan.until_decided
    if now is None or old is None or old.until_decided is None or now.pairs > old.until_decided.pairs:
        return plan
    if unknown := [label for label in old.stopped if label not in plan.labels]:
        raise UserError(f"{plan.name}: {unknown[0]!r} has stopped and is not a variant here; choose another --out")
    return plan.with_last_looks(old.stopped)


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


def _old_plan(study_dir: Path) -> StudyPlan | None:
    """The plan in study.json; None where there is none. Raises `UserError` where its runs have no folders."""
    with writing(study_dir):
        return StudyPlan.read(study_dir) if (study_dir / STUDY).exists() else None


def _record_look(old: StudyPlan, study_dir: Path, ended: Ended) -> None:
    """Record a look at the finished runs: new seeds are planned, and the results may be the reason."""
    finished = Counter({run.variant: 0 for run in old.runs})
    for run in old.runs:
        summary = ended.get(run.name) or record.read_ended(study_dir, run)
        finished[run.variant] += summary is not None and summary["status"] == "finished"
    add_look(study_dir, Look.now(finished.values(), old.metric, "vit-sweep"))


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
    stated["until_decided"] = old.until_decided is not None, plan.until_decided is not None
    if any(tree.definition.get("baseline") is not None for tree in (old, plan)):  # else it is the first variant
        label = next(planned[run.run_id].variant for run in old.runs if run.variant == old.baseline)
        stated["baseline"] = label, plan.baseline  # a study that gains a factor gives its variants longer labels
    changed = [field for field, (there, here) in stated.items() if there != here]
    if changed and any(record.is_finished(study_dir / run.name) for run in old.runs):
        there, here = map(format_level, stated[changed[0]])
        reason = "and it cannot change after the first run has finished"
        if changed[0] == "looks" and old.until_decided:
            reason = f"and the looks share the 5 %: it ends at {old.looks[-1]} seeds, and --max-seeds adds none"
        return f"{changed[0]} is {there} there and {here} here, {reason}"
    return None


# Why a run of study.json has another run id here, though its settings are the same.
WHY_OTHER = "another version trained it, or the source of its plug-in was changed or is not recorded there"


def _contents(plan: StudyPlan) -> dict[str, Any]:
    """What decides which runs a plan has, in one level: tuned settings, base, factors and extra variants."""
    tuned = {label: chosen.settings for label, chosen in plan.tuned.variants.items()} if plan.tuned else {}
    base = unplaced(dict(flatten(plan.base)))
    return dict(flatten({**{field: getattr(plan, field) for field in GRID}, "base": base, "tuned": tuned}))
