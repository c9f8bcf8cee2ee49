"""Train the runs of a plan with the workers of an engine: those without a record, in its order, in cohorts."""

import itertools
import math
from collections.abc import Container, Sequence
from typing import Any

from experiments.compared import RunSpec
from experiments.config import cohort_key
from experiments.runs.resume import read_members
from experiments.tracker import Tracker
from sweeps.driver import Driver, Source
from sweeps.engines.contract import Engine, Task
from sweeps.progress import ProgressDisplay, shown_metric
from sweeps.study_folder import LOG, StudyFolder

CPU_COHORT = 1  # measured on digits: a stack of 4 takes 4.0 times as long as a single run; on CIFAR-10 it takes longer


def train_plan(
    folder: StudyFolder, engine: Engine, tracker: Tracker, *, cohort: int | None, only: Container[str] | None = None
) -> dict[str, str]:
    """Train the runs of a plan that are left, or only some of them. Returns the runs that were given up, and why.

    `cohort` is the largest number of runs that a worker trains as one stacked model. None: on a GPU a worker gets its
    part of a variant's runs and stacks as many as fit; on a CPU it is 1 (see `CPU_COHORT`). A study of a validation
    metric leaves the test images out: it makes a choice. Raises as `Driver.run` does.
    """
    plan = folder.plan
    planned = [run for run in plan.runs if only is None or run.name in only]
    if cohort is None:
        cohort = math.ceil(len(planned) / max(engine.places, 1)) if engine.on_gpu else CPU_COHORT
    with ProgressDisplay(plan.name, len(planned)) as display:
        display.skip([run for run in planned if run.name in folder.ended])
        runs = PlanRuns(planned, folder, cohort)
        task = Task(folder.dir, folder.dir / LOG, test=not plan.metric.startswith("val/"), most=runs.left)
        driver = Driver(runs, engine, task, display, shown_metric(plan), tracker)
        driver.run()
    return driver.failed


class PlanRuns(Source):
    """Those of some runs of a plan that have not ended. See `sweeps.driver.Source`.

    `cohort`: the largest number of runs that are trained as one stack. Runs that were interrupted in a stack go on
    together, however many they are. A run that has failed is trained alone: the stack may have been too large for the
    memory.
    """

    def __init__(self, runs: Sequence[RunSpec], folder: StudyFolder, cohort: int = 1) -> None:
        self.folder, self.cohort = folder, cohort
        self.waiting = [run for run in runs if run.name not in folder.ended]
        self._alone, self._keys = set[str](), dict[str, bytes]()

    @property
    def left(self) -> int:
        return len(self.waiting)

    def next(self) -> list[RunSpec]:
        runs = self._next_cohort() if self.waiting else []
        names = {run.name for run in runs}
        self.waiting = [run for run in self.waiting if run.name not in names]
        return runs

    def _next_cohort(self) -> list[RunSpec]:
        first = self.waiting[0]
        members = read_members(self.folder.dir / first.name)
        if first.name in self._alone or (self.cohort == 1 and not members):
            return [first]
        key = self._key(first)
        alike = (run for run in self.waiting if run.name not in self._alone and self._key(run) == key)
        if members:
            return [run for run in alike if run.run_id in members]
        fresh = (run for run in alike if not read_members(self.folder.dir / run.name))
        return list(itertools.islice(fresh, self.cohort))

    def _key(self, run: RunSpec) -> bytes:
        """What the runs of one stack have in common."""
        if run.name not in self._keys:
            self._keys[run.name] = cohort_key(run.config)
        return self._keys[run.name]

    def give_back(self, runs: Sequence[RunSpec], last: bool = False, alone: bool = False) -> None:
        if alone:
            self._alone.update(run.name for run in runs)
        self.waiting = [*self.waiting, *runs] if last else [*runs, *self.waiting]

    def ended(self, run: RunSpec, summary: dict[str, Any] | None) -> None:
        if summary:
            self.folder.ended[run.name] = summary
