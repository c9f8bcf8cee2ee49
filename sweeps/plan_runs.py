"""The runs of a plan as a source of a driver: those without a record, in the order of the plan, in cohorts."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.config import cohort_key
from experiments.runs.record import read_ended
from experiments.runs.resume import read_members
from experiments.study import RunSpec
from sweeps.dashboard import Dashboard


class PlanRuns:
    """Those of some runs of a plan that have not ended. See `sweeps.driver.Source`.

    `cohort`: the largest number of runs that are trained as one stack. Runs that were interrupted in a stack go on
    together, however many they are. A run that has failed is trained alone: the stack may have been too large for the
    memory. `dashboard` is told what happens.
    """

    def __init__(
        self, runs: Sequence[RunSpec], study_dir: Path, cohort: int = 1, dashboard: Dashboard | None = None
    ) -> None:
        self.folder, self.cohort, self.dashboard = study_dir, cohort, dashboard
        self.waiting: list[RunSpec] = []
        self.ended_before: list[str] = []
        for run in runs:
            if read_ended(study_dir, run) is None:
                self.waiting.append(run)
            else:
                self.ended_before.append(run.name)
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
        members = read_members(self.folder / first.name)
        if first.name in self._alone or (self.cohort == 1 and not members):
            return [first]
        key = self._key(first)
        alike = (run for run in self.waiting if run.name not in self._alone and self._key(run) == key)
        if members:
            return [run for run in alike if run.run_id in members]
        fresh = (run for run in alike if not read_members(self.folder / run.name))
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

    def epoch(self, run: RunSpec, row: dict[str, float]) -> bool:
        """See `Source`. No run of a plan is pruned."""
        if self.dashboard:
            self.dashboard.epoch(run, row)
        return False

    def ended(self, run: RunSpec, summary: dict[str, Any]) -> None:
        if self.dashboard:
            self.dashboard.ended(run, summary)

    def stopped(self, run: RunSpec, reason: str, given_up: bool) -> None:
        if self.dashboard:
            self.dashboard.stopped(run, reason)
