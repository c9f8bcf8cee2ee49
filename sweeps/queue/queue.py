"""The queue of a study: an Optuna study with one trial for every attempt at a run.

The records decide which runs have ended; the queue decides which process trains the others. A trial is added when its
run is assigned. Every change is made under the lock of the storage, so that two workers never get the same run, on one
machine or several.
"""

import contextlib
import functools
import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState, create_trial

from experiments.config import cohort_key
from experiments.metric import Metric
from experiments.runs import record
from experiments.runs.resume import read_members
from experiments.study import RunSpec, StudyPlan
from sweeps.queue import trials as stored
from sweeps.queue.optuna_study import create_study
from sweeps.queue.process import ProcessInfo
from sweeps.queue.storage import QueueStorage, exclusive, open_storage
from sweeps.study_folder import ERROR as TRACEBACK


@dataclass(frozen=True)
class Assignment:
    """A run that a process has to train, and the trial of this attempt."""

    run: RunSpec
    trial_id: int
    number: int
    process: ProcessInfo


@dataclass(frozen=True)
class QueueState:
    """The runs of a plan by state, as names. `failed`: name -> error of the last attempt. `dropped`: never trained."""

    ended: list[str]
    running: dict[str, ProcessInfo]
    waiting: list[str]
    failed: dict[str, str]
    dropped: list[str] = field(default_factory=list)


class Queue:
    """The runs of one study folder. `sweep` is the process that assigns runs to its workers and settles them.

    An assignment is valid while its worker or its sweep is alive: the sweep settles the runs of a worker that died. A
    run that failed `stored.ATTEMPTS` times, whichever process trained it, is given up until `retry`. `only` are the
    names of the runs that this process trains or waits for; by default, all runs of the plan.
    """

    def __init__(
        self,
        plan: StudyPlan,
        study_dir: Path,
        sweep: ProcessInfo,
        storage: QueueStorage | None = None,
        only: Container[str] | None = None,
    ) -> None:
        self.dir, self.sweep = study_dir, sweep
        self.runs = {run.name: run for run in plan.runs if only is None or run.name in only}
        self._by_id = {run.run_id: run for run in self.runs.values()}
        self.store = storage or open_storage(study_dir)
        self._lost: set[int] = set()  # numbers of the trials whose record is gone
        self._open(plan)

    @exclusive
    def _open(self, plan: StudyPlan) -> None:
        self.study = create_study(self.store, plan)
        self.study_id = self.store.rdb.get_study_id_from_name(self.study.study_name)
        (metric,) = self.study.metric_names or [Metric(plan.metric).on_validation]
        self.metric = Metric(metric)  # of the values: on validation data, because choices never use the test set
        self._read()

    @exclusive
    def reconcile(self) -> QueueState:
        """Bring the trials into line with the records and the living processes. Idempotent.

        It looks into the folder of every run; `refresh` is the fast way to learn what other processes have done.
        """
        self.refresh()
        for name in self.runs:
            if name not in self.state.running:
                self._look_for_record(name)
        self._sort()
        return self.state

    @exclusive
    def refresh(self) -> None:
        """Learn from the trials what other processes have done. Close the trials of processes that died."""
        self._read()
        self._interrupt(trial for trial in self._running if not stored.is_assigned(trial, self.store.silence))

    @property
    def left(self) -> int:
        """The number of runs to assign, as last read."""
        return 0 if self.cancelled else len(self.state.waiting)

    def _read(self) -> None:
        """Read the trials, and what users have asked for. A finished trial is read only once: Optuna keeps it."""
        attributes, self._trials = self.study.user_attrs, self.study.get_trials(deepcopy=False)
        self.cancelled = bool(attributes.get(stored.CANCELLED))
        self._retried: dict[str, int] = attributes.get(stored.RETRIED, {})
        self._sort()

    def _sort(self) -> None:
        """Find the state of each run from the trials."""
        attempts = self._attempts = stored.sort_attempts(self._trials, self._by_id, self._retried)
        self._running = [trial for running in attempts.running.values() for trial in running]
        state = self.state = QueueState([], {}, [], {})
        for name in self.runs:
            if name in attempts.running:
                state.running[name] = stored.worker_of(attempts.running[name][0])
            elif self._recorded(name):
                state.ended.append(name)
            elif len(attempts.failed.get(name, ())) >= stored.ATTEMPTS:
                state.failed[name] = attempts.failed[name][-1].user_attrs.get(stored.ERROR, "")
            else:
                state.waiting.append(name)

    def _recorded(self, name: str) -> list[FrozenTrial]:
        """The trials that say that a run has a record, but for those whose record is gone."""
        return [trial for trial in self._attempts.recorded.get(name, ()) if trial.number not in self._lost]

    def _look_for_record(self, name: str) -> bool:
        """Whether a run that is not in training has a record. If no trial says so yet, one is added."""
        run, recorded = self.runs[name], self._recorded(name)
        exists = record.is_finished(self.dir / name)
        if not exists:
            self._lost.update(trial.number for trial in recorded)
        elif not recorded and (summary := record.read_ended(self.dir, run)):
            self._add(run, *self._result(summary))
        return exists

    def assign(self, process: ProcessInfo, max_runs: int = 1) -> list[Assignment]:
        """Assign runs to a worker: the first that is left, and up to `max_runs` in all that can be stacked with it.

        A run that failed before is assigned alone: the stack may have been too large for the memory, and one failure
        ends all runs of a stack. It comes last on the host where it failed, and only while no other host trains: the
        host may be at fault. Runs that were interrupted in a stack are assigned together, however many they are.
        """
        known: list[int] = []  # the number of trials before each try

        def assign() -> list[Assignment]:
            self._read()
            known.append(len(self._trials))
            if not self.cancelled and not self._assigned(process, known[0]):  # else only the answer was lost
                owner = stored.stored_process(process, self.sweep, self.store.now())
                for run in self._next_cohort(max_runs, process.host):
                    self._add(run, TrialState.RUNNING, None, {stored.PROCESS: owner})
                self._sort()
            return self._assigned(process, known[0])

        return self.store.run(assign)

    def _assigned(self, process: ProcessInfo, first: int) -> list[Assignment]:
        """The runs that were assigned to a worker by the trial with the number `first`, or a later one."""
        return [
            Assignment(self._run_of(trial), self._id(trial), trial.number, process)
            for trial in self._running
            if trial.number >= first and stored.worker_of(trial) == process
        ]

    def is_untried(self, name: str, host: str) -> bool:
        """Whether a run has not failed on a host since the last retry."""
        return all(stored.worker_of(trial).host != host for trial in self._attempts.failed.get(name, ()))

    def _next_cohort(self, max_runs: int, host: str) -> list[RunSpec]:
        """The runs that `assign` assigns, in the order of the plan, but those that failed on the host come last."""
        names = [name for name in self.state.waiting if self.is_untried(name, host)]
        if all(process.host == host for process in self.state.running.values()):  # else another host takes the others
            names += [name for name in self.state.waiting if name not in names]
        left = [self.runs[name] for name in names]
        while left and self._look_for_record(left[0].name):  # something else than this queue has trained it
            left.pop(0)
        members = read_members(self.dir / left[0].name) if left else []
        failed = self._attempts.failed
        if not left or left[0].name in failed or (max_runs == 1 and not members):
            return left[:1]
        key = self._cohorts[left[0].name]
        alike = [run for run in left if run.name not in failed and self._cohorts[run.name] == key]
        if members:
            return [run for run in alike if run.run_id in members]
        fresh = [run for run in alike if not read_members(self.dir / run.name)][:max_runs]
        return [run for run in fresh if not record.is_finished(self.dir / run.name)]

    @functools.cached_property
    def _cohorts(self) -> dict[str, bytes]:
        """Run -> what the runs of one stack have in common."""
        return {run.name: cohort_key(run.config) for run in self.runs.values()}

    def _add(self, run: RunSpec, state: TrialState, value: float | None, attributes: Mapping[str, Any]) -> None:
        """Add a trial. All others have been read, and the lock is held: so its number is known."""
        names = {stored.RUN: run.name, stored.RUN_ID: run.run_id, stored.VARIANT: run.variant, stored.SEED: run.seed}
        trial = create_trial(state=state, value=value, user_attrs={**attributes, **names})
        self.store.rdb.create_new_trial(self.study_id, trial)
        trial.number = len(self._trials)
        self._trials.append(trial)

    def _run_of(self, trial: FrozenTrial) -> RunSpec:
        return self._by_id[trial.user_attrs[stored.RUN_ID]]

    def _id(self, trial: FrozenTrial) -> int:
        return self.store.rdb.get_trial_id_from_study_id_trial_number(self.study_id, trial.number)

    @exclusive
    def heartbeat(self, assignments: Sequence[Assignment]) -> list[Assignment]:
        """Tell other machines that these runs are still in training. Returns the assignments that are no longer ours:
        another machine has taken the run over, because this one missed its heartbeats.
        """
        self._read()
        valid = {running[0].number for running in self._attempts.running.values()}
        for assignment in assignments:
            if assignment.number in valid:
                owner = stored.stored_process(assignment.process, self.sweep, self.store.now())
                self.store.rdb.set_trial_user_attr(assignment.trial_id, stored.PROCESS, owner)
        return [assignment for assignment in assignments if assignment.number not in valid]

    @exclusive
    def report(self, assignment: Assignment, row: Mapping[str, float]) -> bool:
        """Store the metric of an epoch as an intermediate value, for dashboards.

        Returns whether the run is pruned: never.
        """
        value = row.get(self.metric)
        if value is not None and math.isfinite(value):
            with contextlib.suppress(optuna.exceptions.UpdateFinishedTrialError):  # `heartbeat` finds that out too
                self.store.rdb.set_trial_intermediate_value(assignment.trial_id, int(row["epoch"]), value)
        return False

    @exclusive
    def cancel(self) -> None:
        """Assign no more runs. Sweeps stop their workers at the next heartbeat or poll, until `retry`."""
        self.study.set_user_attr(stored.CANCELLED, True)
        self.refresh()

    @exclusive
    def retry(self, names: Iterable[str] | None = None) -> list[str]:
        """Forget the failed attempts of these runs, or of all, and take back `cancel`.

        Returns the runs that had some.
        """
        self._read()
        if self.cancelled:
            self.study.set_user_attr(stored.CANCELLED, False)
        failed = [name for name in (self.runs if names is None else names) if name in self._attempts.failed]
        if failed:
            now = {self.runs[name].run_id: len(self._trials) for name in failed}
            self.study.set_user_attr(stored.RETRIED, {**self._retried, **now})
        self._read()
        return failed

    @exclusive
    def settle(self, assignment: Assignment, reason: str = "failed", error: str = "") -> str:
        """Close an assignment. Returns the status in the run's record; without a record, `reason`, or "taken over" if
        another process has closed it.

        `reason` is "failed", which counts as an attempt, or "interrupted", which does not.
        """
        status = self._settle(assignment.trial_id, assignment.run, reason, error)
        self._read()
        return status

    @exclusive
    def release(self) -> None:
        """Close every assignment of this sweep, also one that was interrupted while it was made or settled."""
        self._read()
        self._interrupt(trial for trial in self._running if stored.sweep_of(trial) == self.sweep)

    def _interrupt(self, trials: Iterable[FrozenTrial]) -> None:
        """Close trials whose process has ended."""
        for trial in (closing := list(trials)):
            self._settle(self._id(trial), self._run_of(trial), "interrupted")
        if closing:
            self._read()

    def _settle(self, trial_id: int, run: RunSpec, reason: str, error: str = "") -> str:
        summary = record.read_ended(self.dir, run)
        noted = {stored.REASON: reason, **({stored.ERROR: error} if error else {})}
        status = summary["status"] if summary else reason
        state, value, attributes = self._result(summary) if summary else (TrialState.FAIL, None, noted)
        if summary:
            (self.dir / run.name / TRACEBACK).unlink(missing_ok=True)  # of an earlier attempt
        try:
            for key, text in attributes.items():
                self.store.rdb.set_trial_user_attr(trial_id, key, text)
            self.store.rdb.set_trial_state_values(trial_id, state, None if value is None else [value])
        except optuna.exceptions.UpdateFinishedTrialError:
            trial = self.store.rdb.get_trial(trial_id)
            ours = stored.has_record(trial) or trial.user_attrs.get(stored.REASON) == reason  # only the answer was lost
            return status if ours else "taken over"
        return status

    def _result(self, summary: Mapping[str, Any]) -> tuple[TrialState, float | None, dict[str, str]]:
        """The state, value and attributes of the trial of a run with this summary."""
        status, value = summary["status"], summary.get(self.metric)
        if status == "finished" and value is not None:
            return TrialState.COMPLETE, value, {}
        if status == "pruned":
            return TrialState.PRUNED, value, {}
        return TrialState.FAIL, None, {stored.STATUS: status}  # a diverged run has no value
