"""The runs of a plan as a source of a driver: those without a record, in the order of the plan, in cohorts."""

import itertools
from collections.abc import Sequence
from typing import Any

from experiments.config import cohort_key
from experiments.runs.resume import read_members
from experiments.study import RunSpec
from sweeps.study_folder import StudyFolder


class PlanRuns:
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

    def epoch(self, run: RunSpec, row: dict[str, float]) -> bool:
        """See `Source`. No run of a plan is pruned."""
        return False

    def ended(self, run: RunSpec, summary: dict[str, Any]) -> None:
        self.folder.ended[run.name] = summary

    def stopped(self, run: RunSpec, reason: str, given_up: bool) -> None:
        """See `Source`. The driver keeps the reasons."""
