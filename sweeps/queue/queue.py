"""The queue of a study: an Optuna study with one trial for every attempt at a run.

The records decide which runs have ended; the queue decides which process trains the others. A trial is made when its run is
assigned. Every change is made under the lock of the storage, so that two workers never get the same run, on one machine or
several.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import TrialState

from experiments.errors import UserError
from experiments.metric import Metric
from experiments.runs import record
from experiments.runs.resume_note import read_members
from experiments.study import RunSpec, StudyPlan
from sweeps.queue.index import RunIndex
from sweeps.queue.optuna_study import load_study
from sweeps.queue.process import ProcessInfo
from sweeps.queue.storage import QueueStorage, exclusive, open_storage
from sweeps.queue.trials import (
    CANCELLED,
    ERROR,
    PROCESS,
    REASON,
    RECORD,
    RETRIED,
    RUN,
    RUN_ID,
    STATUS,
    RunFinder,
    TrialRow,
    factor_distributions,
    has_record,
    is_assigned,
    new_trial,
    stored_process,
    worker_of,
)
from sweeps.study_folder import ERROR as TRACEBACK
from vit.registry import nearest


@dataclass(frozen=True)
class Assignment:
    """A run that a process has to train, and the trial of this attempt."""

    run: RunSpec
    trial_id: int
    number: int
    process: ProcessInfo


@dataclass(frozen=True)
class QueueState:
    """The runs of a plan by state, as names. `failed`: name -> error of the last attempt."""

    ended: list[str]
    running: dict[str, ProcessInfo]
    waiting: list[str]
    failed: dict[str, str]


@dataclass(frozen=True)
class Result:
    """What a trial gets when its attempt ends: a state, a value and user attributes."""

    state: TrialState
    value: float | None = None
    notes: dict[str, Any] = field(default_factory=dict)


class Queue:
    """The runs of one study folder. `sweep` is the process that assigns runs to its workers and settles them.

    An assignment is valid while its worker or its sweep is alive: the sweep settles the runs of a worker that died.
    A run that failed `attempts` times, whichever process trained it, is given up until `retry`. `only` are the names of the
    runs that this process trains or waits for; by default, all runs of the plan.
    """

    def __init__(
        self,
        plan: StudyPlan,
        study_dir: Path,
        sweep: ProcessInfo,
        attempts: int = 3,
        storage: QueueStorage | None = None,
        only: Container[str] | None = None,
    ) -> None:
        self.dir, self.sweep = study_dir, sweep
        self.index = RunIndex([run for run in plan.runs if only is None or run.name in only], attempts)
        self.runs = self.index.runs
        self.metric = Metric(plan.metric).on_validation  # choices never use the test set
        self.distributions = factor_distributions(plan.runs)
        self.cancelled = False  # as last read
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.store = storage or open_storage(None, study_dir)
        self.storage = optuna.storages.get_storage(self.store.rdb)  # reads a finished trial only once
        self._load(self.store.study_name(plan.name), RunFinder({run.name: run for run in plan.runs}))

    @exclusive
    def _load(self, name: str, find: RunFinder) -> None:
        self.study = load_study(self.storage, name, self.metric, find, self.distributions, self.store)
        self.study_id = self.storage.get_study_id_from_name(name)

    @exclusive
    def reconcile(self) -> QueueState:
        """Bring the trials into line with the records and the living processes. Idempotent.

        It looks into the folder of every run; `refresh` is the fast way to learn what other processes have done.
        """
        self._read(whole=True)
        self._close_abandoned()
        for name in self.runs:
            if name not in self.index.running:
                self._look_for_record(name)
        return self.state()

    def state(self) -> QueueState:
        """The state of every run, as last read."""
        ended = [name for name in self.runs if name in self.index.ended]
        return QueueState(ended, self.running, self.index.names_left(), dict(self.index.failed))

    @property
    def left(self) -> int:
        """The number of runs to assign, as last read."""
        return 0 if self.cancelled else self.index.left

    @property
    def running(self) -> dict[str, ProcessInfo]:
        """The runs of the plan that are in training, as last read, and their workers."""
        return {name: worker_of(trial) for name, trial in self.index.running.items()}

    def take_ended(self) -> list[str]:
        """The runs that have ended since the last call, as last read."""
        ended, self.index.newly_ended = self.index.newly_ended, []
        return ended

    @exclusive
    def refresh(self) -> None:
        """Learn from the trials what other processes have done. Close the trials of processes that died."""
        self._read(whole=True)
        self._close_abandoned()

    def _read(self, whole: bool = False) -> None:
        """Read the trials that changed, and what users have asked for. `whole`: also the heartbeats of running trials."""
        self.store.verify()
        known = [trial.trial_id for trial in self.index.running_trials.values()]
        attributes, trials = self.store.rdb.read_changes(self.study_id, self.index.last_id, known, whole)
        if not attributes:  # `load_study` sets some
            raise UserError(f"{self.dir}: another command has made its queue again; run the command again")
        self.cancelled = bool(attributes.get(CANCELLED))
        self.index.set_retried(attributes.get(RETRIED, {}))
        self.index.read(trials)

    def _close_abandoned(self) -> None:
        for trial in list(self.index.running_trials.values()):
            if not is_assigned(trial, self.store.silence):
                self._interrupt(trial)

    def _look_for_record(self, name: str) -> bool:
        """Whether a run that is not in training has a record, here or in the folder of another machine. If there is no
        trial for it yet, one is added.
        """
        exists = record.is_finished(self.dir / name) or self.index.lies_elsewhere(name, self.store.folder)
        if exists and not self.index.has_trial_of_record(name):
            run = self.runs[name]
            self._add(run, self._result(run.name, run.run_id)[1], {})
        if exists != (name in self.index.ended):
            self.index.set_record(name, exists)
        return exists

    def assign(self, process: ProcessInfo, max_runs: int = 1) -> list[Assignment]:
        """Assign runs to a worker: the first that is left, and up to `max_runs` in all that can be stacked with it.

        A run that failed before is assigned alone: the stack may have been too large for the memory, and one failure
        ends all runs of a stack. Runs that were interrupted in a stack are assigned together, however many they are.
        """
        first_trial: list[int] = []  # that this call may make

        def assign() -> list[Assignment]:
            self._read()
            if first_trial:  # the connection was lost: a trial may have been made without an answer
                self._close_unanswered(first_trial[0], process)
            first_trial[:] = first_trial or [self.index.read_trials]
            beating = replace(process, heartbeat=self.store.now())
            return [] if self.cancelled else [self._start(run, beating) for run in self._next_cohort(max_runs)]

        return self.store.run(assign)

    def _close_unanswered(self, first: int, process: ProcessInfo) -> None:
        for trial in list(self.index.running_trials.values()):
            worker = worker_of(trial) if trial.number >= first else None
            if worker and replace(worker, heartbeat=process.heartbeat) == process:
                self._interrupt(trial)

    def _next_cohort(self, max_runs: int) -> list[RunSpec]:
        """The runs that `assign` assigns, in the order of the plan."""
        while (first := self.index.first_left()) and self._look_for_record(first.name):
            pass  # something else than this queue has trained it
        if not first or self.index.failures(first.name):
            return [first] if first else []
        if members := read_members(self.dir / first.name):
            return [run for run in self.index.left_like(first) if run.run_id in members]
        if max_runs == 1:
            return [first]
        alike = (run for run in self.index.left_like(first) if not read_members(self.dir / run.name))
        return [run for run in itertools.islice(alike, max_runs) if not record.is_finished(self.dir / run.name)]

    def _start(self, run: RunSpec, process: ProcessInfo) -> Assignment:
        trial = self._add(run, Result(TrialState.RUNNING), {PROCESS: stored_process(process, self.sweep)})
        return Assignment(run, trial.trial_id, trial.number, process)

    def _add(self, run: RunSpec, result: Result, own: dict[str, Any]) -> TrialRow:
        """Add a trial, in one transaction. All others have been read, and the lock is held: so its number is known."""
        trial = new_trial(run, self.distributions, result.state, result.value, {**result.notes, **own})
        self.study.add_trial(trial)
        number = self.index.read_trials
        trial_id = self.storage.get_trial_id_from_study_id_trial_number(self.study_id, number)
        row = TrialRow(trial_id, number, trial.state, trial.user_attrs)
        self.index.read([row])
        return row

    @exclusive
    def heartbeat(self, assignments: Sequence[Assignment]) -> list[Assignment]:
        """Tell other machines that these runs are still in training. Returns the assignments that are no longer ours:
        another machine has taken the run over, because this one missed its heartbeats.
        """
        self.cancelled = bool(self.study.user_attrs.get(CANCELLED))
        beating = [replace(assignment.process, heartbeat=self.store.now()) for assignment in assignments]
        stored = {a.trial_id: stored_process(process, self.sweep) for a, process in zip(assignments, beating)}
        running = self.store.rdb.set_processes(stored)
        return [assignment for assignment in assignments if assignment.trial_id not in running]

    @exclusive
    def report(self, assignment: Assignment, row: Mapping[str, float]) -> None:
        """Store the metric of an epoch as an intermediate value, for dashboards. Nothing depends on it."""
        value = row.get(self.metric)
        if value is not None and math.isfinite(value):
            with contextlib.suppress(optuna.exceptions.UpdateFinishedTrialError):  # `heartbeat` finds that out too
                self.storage.set_trial_intermediate_value(assignment.trial_id, int(row["epoch"]), value)

    @exclusive
    def cancel(self) -> None:
        """Assign no more runs. Sweeps stop their workers at the next heartbeat or poll, until `retry`."""
        self.study.set_user_attr(CANCELLED, True)
        self.cancelled = True

    @exclusive
    def retry(self, names: Iterable[str] | None = None) -> list[str]:
        """Forget the failed attempts of these runs, or of all, and take back `cancel`. Returns the runs that had some.

        Raises `UserError` for a name that is not in the plan.
        """
        self._read()
        chosen = list(self.runs if names is None else names)
        for name in chosen:
            if name not in self.runs:
                raise UserError(f"{name!r} is not a run of this study; {nearest(name, list(self.runs))}")
        if self.cancelled:
            self.study.set_user_attr(CANCELLED, False)
            self.cancelled = False
        if failed := [name for name in chosen if self.index.failures(name)]:
            retried = {**self.index.retried, **dict.fromkeys(failed, self.index.read_trials)}
            self.study.set_user_attr(RETRIED, retried)
            self.index.set_retried(retried)
        return failed

    @exclusive
    def settle(self, assignment: Assignment, reason: str = "failed", error: str = "") -> str:
        """Close an assignment. Returns the status in the run's record; without a record, `reason`, or "taken over" if
        another process has closed it.

        `reason` is "failed", which counts as an attempt, or "interrupted", which does not.
        """
        run = assignment.run
        return self._settle(assignment.trial_id, assignment.number, run.name, run.run_id, reason, error)

    @exclusive
    def release(self) -> None:
        """Close every assignment of this sweep, also one that was interrupted while it was made or settled."""
        self._read()
        for trial in list(self.index.running_trials.values()):
            if PROCESS not in trial.user_attrs:
                continue  # of an earlier version
            worker, own = worker_of(trial), self.sweep
            here = (worker.host, worker.boot, worker.namespace) == (own.host, own.boot, own.namespace)
            if here and stored_process(worker, own) == trial.user_attrs[PROCESS]:
                self._interrupt(trial)

    def _interrupt(self, trial: TrialRow) -> None:
        """Close the trial of a process that has ended."""
        run, run_id = trial.user_attrs[RUN], trial.user_attrs[RUN_ID]
        self._settle(trial.trial_id, trial.number, run, run_id, "interrupted")

    def _settle(self, trial_id: int, number: int, name: str, run_id: str, reason: str, error: str = "") -> str:
        status, result = reason, Result(TrialState.FAIL, None, {REASON: reason, ERROR: error})
        if record.is_finished(self.dir / name):
            status, result = self._result(name, run_id)
            (self.dir / name / TRACEBACK).unlink(missing_ok=True)  # of an earlier attempt
        value = result.value
        if result.state == TrialState.PRUNED:  # as Optuna's `tell` does
            value = self._last_value(trial_id)
        try:
            self.store.rdb.end_trial(trial_id, result.state, value, result.notes)
        except optuna.exceptions.UpdateFinishedTrialError:
            trial = self.storage.get_trial(trial_id)
            own = has_record(trial) or trial.user_attrs.get(REASON) == reason  # the answer was lost with the connection
            return status if own else "taken over"
        self.index.close(number, result.state, result.notes)
        return status

    def _last_value(self, trial_id: int) -> float | None:
        """The last intermediate value of a trial."""
        values = self.storage.get_trial(trial_id).intermediate_values
        return values[max(values)] if values else None

    def _result(self, name: str, run_id: str) -> tuple[str, Result]:
        """The status in a run's record and what its trial gets. Raises `UserError` where the record is of another run."""
        summary = record.read_summary(self.dir / name)
        if summary["run_id"] != run_id:
            raise UserError(f"{self.dir / name}: holds the record of run {summary['run_id']}, not {run_id}")
        status, value = summary["status"], summary.get(self.metric)
        folder = self.store.folder
        notes: dict[str, Any] = {RECORD: {"folder": folder, "digest": summary["digest"]}} if folder else {}
        if status == "finished" and value is not None:
            return status, Result(TrialState.COMPLETE, value, notes)
        if status == "pruned":
            return status, Result(TrialState.PRUNED, None, notes)
        return status, Result(TrialState.FAIL, None, {**notes, STATUS: status})  # a diverged run has no value
