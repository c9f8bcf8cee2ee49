"""The folder of a study: its study.json and what has ended in it, and the one process that writes there."""

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from experiments.catalogue import DATASETS
from experiments.compared import RunSpec
from experiments.config import run_id
from experiments.errors import UserError, writing
from experiments.files import DRIVER_LOCK, check_own, lock
from experiments.runs import record
from experiments.runs.exports import ReusedRuns, merged, reused_runs
from experiments.runs.history import Look, add_look
from experiments.study import OTHER_FOLDERS, STUDY, WHY_OTHER, Study
from vit import plugins

DRIVER_SECONDS = 1.0  # in which a driver that is ending ends, and one that only looks at the lock has looked
Ended = dict[str, dict[str, Any]]
"""run -> the summary of its record"""
LOG = "sweep.log"  # in the study's folder: what libraries print in the workers


@dataclass(frozen=True)
class StudyFolder:
    """A study, and what a command has read in its folder, once. A driver adds the records of runs that end.

    `plan`: the study with the runs of the command. `old`: the study in study.json, if there is one; `whole`: the two
    together. `ended` has the runs that are reused, too.
    """

    dir: Path
    plan: Study
    ended: Ended = field(default_factory=dict)
    reused: ReusedRuns = field(default_factory=dict)
    old: Study | None = None

    @classmethod
    def read(cls, plan: Study, study_dir: Path) -> Self:
        """Read study.json and the records. Raises `RecordError` where one is damaged, or that of another run, and where
        a source of runs that are reused is missing or was changed.

        The runs of the plan get the names, and so the folders, that they have in study.json: a study that gains a
        factor gives its variants longer labels, and the records stay where they are.
        """
        old = _old_study(study_dir)
        if old:
            names = {run.run_id: run.name for run in old.runs}
            runs = [run.model_copy(update={"name": names.get(run.run_id, run.name)}) for run in plan.runs]
            plan = plan.changed(runs=runs, **_sources(plan, old))
        reused, ended = reused_runs(plan), Ended()
        for run in plan.runs:
            if summary := record.read_ended(study_dir, run):
                ended[run.name] = summary
                reused.pop(run.run_id, None)  # the study has its own
            elif run.run_id in reused:
                ended[run.name] = reused[run.run_id].summary
        return cls(study_dir, plan, ended, reused, old)

    @property
    def left(self) -> list[RunSpec]:
        """The runs that have not ended, in the order of the plan."""
        return [run for run in self.plan.runs if run.name not in self.ended]

    @cached_property
    def whole(self) -> Study:
        """The plan together with what study.json has more. Raises `UserError` where that is another study."""
        if self.old is None:
            return self.plan
        ended = sum(record.has_ended(self.dir / run.name) for run in self.old.runs)
        whole = self.plan.extended(self.old, ended).changed(**_sources(self.plan, self.old))
        if difference := self.old.difference(whole, finished=ended > 0):
            path = self.dir / STUDY
            raise UserError(f"{path}: holds another study: {difference}; choose another --out, or another name")
        return whole

    def check(self) -> None:
        """Raise `UserError` where `write` would refuse the plan or the folder."""
        _ = self.whole
        for name in (*OTHER_FOLDERS, *(run.name for run in self.left)):
            check_own(self.dir / name)

    def ready(self) -> None:
        """Every command that trains runs here asks first. Raises `UserError` where the user's images are not those of
        the first run of the plan and of study.json that has a record, and where runs are left to train and the images
        cannot be read.
        """
        if runs := [run for run in self.whole.runs if DATASETS[run.config.data.name].source == "folder"]:
            from experiments.data.folder import files_digest  # they import torch
            from experiments.runs.run import check_unchanged, recorded_hash
        for root in {run.config.data.root: None for run in runs}:
            of_root = [run for run in runs if run.config.data.root == root]
            if not all(run.run_id in self.reused or record.has_ended(self.dir / run.name) for run in of_root):
                files_digest(root)  # here, so that the workers find it and not every one decodes the files
            recorded = ((run, recorded_hash(self.dir / run.name)) for run in of_root)
            run, files = next((pair for pair in recorded if pair[1]), (of_root[0], ""))
            check_unchanged(run.config, files, self.dir / run.name)
            reused = [self.reused[run.run_id] for run in of_root if run.run_id in self.reused]
            for digest, source in {(run.summary.get("data") or {}).get("files"): run.source for run in reused}.items():
                check_unchanged(of_root[0].config, digest, Path(source.folder))

    def write(self, command: str) -> Study:
        """Write the plan to study.json, together with what that has more. Returns it all.

        study.json is read again: another command may have changed it. The caller is `the_only_driver`. Raises
        `UserError` where the folder holds another study or cannot be written.
        """
        with writing(self.dir):
            self.dir.mkdir(parents=True, exist_ok=True)
            old = _old_study(self.dir)
            study = replace(self, old=old).whole.changed(command=command)
            if old and len(study.seeds) > len(old.seeds):
                _record_look(old, self.dir, self.ended)
            study.write(self.dir)
        return study


@contextlib.contextmanager
def the_only_driver(study_dir: Path) -> Iterator[None]:
    """Be the one process that trains the study or writes its plan, in the body.

    Raises `UserError`, which names the other one, where there is one.
    """
    with writing(study_dir):
        study_dir.mkdir(parents=True, exist_ok=True)
    path = study_dir / DRIVER_LOCK
    with lock(path, DRIVER_SECONDS) as is_held:
        if not is_held:
            raise UserError(f"{study_dir}: another command trains this study")
        yield


def read_study(study_dir: Path) -> Study:
    """The study in STUDY/study.json, to train it. Its plug-ins are imported. Nothing else is read, so any machine can
    join a sweep.

    Raises `UserError` where the file cannot be read, holds an exported study, or lists a run that has another id here:
    the source of its plug-in is another, or this version computes something else.
    """
    path, study = study_dir / STUDY, Study.read(study_dir)
    plugins.add(study.plugins, f"{path}: plugins")
    study = study.configured()
    for run in study.runs:
        if (here := run_id(run.config)) != run.run_id:
            raise UserError(f"{path}: {run.name} has the run id {here} here, not {run.run_id}: {WHY_OTHER}; use --out")
    return study


def _old_study(study_dir: Path) -> Study | None:
    """The study in study.json; None where there is none. Raises `UserError` where its runs have no folders."""
    with writing(study_dir):
        return Study.read(study_dir) if (study_dir / STUDY).exists() else None


def _sources(plan: Study, old: Study) -> dict[str, Any]:
    """The sources of both: what was reused once is not trained later."""
    return {"sources": merged(plan.sources, old.sources)} if old.sources else {}


def _record_look(old: Study, study_dir: Path, ended: Ended) -> None:
    """Record a look at the finished runs: new seeds are planned, and the results may be the reason."""
    finished = Counter({run.variant: 0 for run in old.runs})
    for run in old.runs:
        summary = ended.get(run.name) or record.read_ended(study_dir, run)
        finished[run.variant] += summary is not None and summary["status"] == "finished"
    add_look(study_dir, Look.now(finished.values(), old.metric, "vit-sweep"))
