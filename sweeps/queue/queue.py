"""The queue of a study: an Optuna study in STUDY/optuna.db with one trial for every attempt at a run.

The records decide which runs have ended; the queue decides which process trains the others. Every change is made under the
lock of the folder and in an immediate transaction, so that two workers never get the same run, on one machine or several.
"""

from __future__ import annotations

import collections
import functools
import itertools
import time
import warnings
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from experiments.config import cohort_key
from experiments.errors import UserError
from experiments.metric import Metric
from experiments.runs import record
from experiments.runs.resume_note import read_members
from experiments.runs.spec import RunSpec
from sweeps.plan import Plan
from sweeps.queue.process import ProcessInfo, is_alive
from sweeps.queue.storage import QueueStorage, open_storage

PROCESS_KEY = "owner"  # user attribute of a trial: its process. The stored names are kept so that old databases load.


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


class Queue:
    """The runs of one study folder. `sweep` is the process that assigns runs to its workers and settles them.

    An assignment is valid while its worker or its sweep is alive: the sweep settles the runs of a worker that died.
    """

    def __init__(
        self, plan: Plan, study_dir: Path, sweep: ProcessInfo, attempts: int = 3, storage: QueueStorage | None = None
    ) -> None:
        self.runs = {run.name: run for run in plan.runs}
        self.sweep = {"pid": sweep.pid, "start": sweep.start}
        self.dir, self.attempts = study_dir, attempts
        self.given_up: set[str] = set()  # by this sweep; another may still try
        self.metric = Metric(
            "val/" + plan.study.metric.partition("/")[2]
        )  # choices use the validation set, never the test set
        self.distributions = _distributions(plan)
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.store = storage or open_storage(None, study_dir)
        with self.store.lock():
            self.storage = self.store.rdb
            self.study = self._load_study(self.store.study_name(plan.study.name))
            self.study_id = self.storage.get_study_id_from_name(self.study.study_name)

    def _load_study(self, name: str) -> optuna.Study:
        """Optuna's study. It is rebuilt from the records where the study has gained a level or a factor, for Optuna
        allows no other choices of a parameter, and where the metric was changed to one of another direction.
        """
        direction = StudyDirection.MINIMIZE if self.metric.lower_is_better else StudyDirection.MAXIMIZE
        load = functools.partial(
            optuna.create_study,
            storage=self.storage,
            study_name=name,
            direction=direction,
            pruner=optuna.pruners.NopPruner(),  # a variant that is stopped early has no final accuracy
            load_if_exists=True,
        )
        study = load()
        trials = study.get_trials(deepcopy=False)
        outdated = any(map(self._is_outdated, trials))
        running = any(trial.state == TrialState.RUNNING and _is_assigned(trial) for trial in trials)
        if outdated and running:
            raise UserError(
                f"{self.dir}: another sweep is training this study with other levels; wait until it has ended"
            )
        if outdated or (study.direction != direction and not running):
            optuna.delete_study(study_name=name, storage=self.storage)
            study = load()
        if study.direction == direction and study.metric_names != [self.metric]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                study.set_metric_names([self.metric])  # a reader must not take the values for the study's own metric
        return study

    def _is_outdated(self, trial: FrozenTrial) -> bool:
        """Whether a trial was made before the study gained a level or a factor, or names."""
        run = self.runs.get(trial.user_attrs["run"])
        return trial.distributions != self.distributions or (
            run is not None and run.variant != trial.user_attrs["variant"]
        )

    def reconcile(self) -> QueueState:
        """Bring the trials into line with the records and the living processes. Enqueue what is left. Idempotent."""
        with self.store.lock():
            for trial in self.study.get_trials(deepcopy=False, states=[TrialState.RUNNING]):
                if not _is_assigned(trial):
                    self._settle(trial, "interrupted")
            trials = collections.defaultdict(list)
            for trial in self.study.get_trials(deepcopy=False):
                trials[trial.user_attrs["run"]].append(trial)
            state = QueueState([], {}, [], {})
            for name in self.runs:
                self._classify(name, trials[name], state)
            return state

    def _classify(self, name: str, trials: list[FrozenTrial], state: QueueState) -> None:
        """Add a run to `state`, and make the trial that it needs."""
        waiting = [trial for trial in trials if trial.state == TrialState.WAITING]
        running = [trial for trial in trials if trial.state == TrialState.RUNNING]
        failures = [trial for trial in trials if trial.state == TrialState.FAIL and self._is_failure(trial)]
        if running:
            state.running[name] = _worker(running[0].user_attrs[PROCESS_KEY])
        elif record.is_finished(self.dir / name):
            state.ended.append(name)
            if not any("status" in trial.user_attrs for trial in trials):
                trial = waiting[0] if waiting else self._enqueue(self.runs[name])
                self.storage.set_trial_state_values(trial._trial_id, TrialState.RUNNING)
                self._settle(trial, "")
        elif len(failures) >= self.attempts:
            state.failed[name] = failures[-1].user_attrs.get("error", "")
            self.given_up.add(name)
        else:
            state.waiting.append(name)
            if not waiting:
                self._enqueue(self.runs[name])

    def _is_failure(self, trial: FrozenTrial) -> bool:
        """Whether a trial failed in this sweep. An interrupted trial is not a failure."""
        attrs = trial.user_attrs
        return attrs.get("reason") == "failed" and attrs[PROCESS_KEY]["sweep"] == self.sweep

    def assign(self, process: ProcessInfo, max_runs: int = 1) -> list[Assignment]:
        """Assign waiting runs to a worker: the first, and up to `max_runs` in all that can be stacked with it.

        A run that failed before is assigned alone: the stack may have been too large for the memory, and one failure
        ends all runs of a stack. Runs that were interrupted in a stack are assigned together, however many they are.
        """
        assignments: list[Assignment] = []
        process = replace(process, heartbeat=time.time())
        with self.store.lock():
            failed = {trial.user_attrs["run"] for trial in self._trials(TrialState.FAIL) if self._is_failure(trial)}
            queued = {trial.user_attrs["run"]: trial for trial in self._trials(TrialState.WAITING)}
            for run in self._next_cohort(queued, failed, max_runs):
                trial = queued[run.name]
                assignment = Assignment(run, trial._trial_id, trial.number, process)
                self._store_process(assignment)
                if self.storage.set_trial_state_values(trial._trial_id, TrialState.RUNNING):
                    assignments.append(assignment)
        return assignments

    def _next_cohort(self, queued: Container[str], failed: Container[str], max_runs: int) -> list[RunSpec]:
        """The runs that `assign` assigns, in the order of the plan, whatever was enqueued again."""
        waiting = [run for run in self.runs.values() if run.name in queued and run.name not in self.given_up]
        if not waiting or waiting[0].name in failed:
            return waiting[:1]
        members, key = read_members(self.dir / waiting[0].name), cohort_key(waiting[0].config)
        alike = (run for run in waiting if run.name not in failed and cohort_key(run.config) == key)
        if members:
            return [run for run in alike if run.run_id in members]
        return list(itertools.islice((run for run in alike if not read_members(self.dir / run.name)), max_runs))

    def _trials(self, state: TrialState) -> list[FrozenTrial]:
        return self.study.get_trials(deepcopy=False, states=[state])

    def _store_process(self, assignment: Assignment) -> None:
        process = assignment.process
        stored = {"host": process.host, "pid": process.pid, "start": process.start, "beat": process.heartbeat}
        self.storage.set_trial_user_attr(assignment.trial_id, PROCESS_KEY, {**stored, "sweep": self.sweep})

    def heartbeat(self, assignments: Sequence[Assignment]) -> list[Assignment]:
        """Tell other machines that these runs are still in training. Returns the assignments that are no longer ours."""
        with self.store.lock():
            lost = [assignment for assignment in assignments if not self._is_ours(assignment)]
            for assignment in assignments:
                if assignment not in lost:
                    self._store_process(replace(assignment, process=replace(assignment.process, heartbeat=time.time())))
            return lost

    def _is_ours(self, assignment: Assignment) -> bool:
        """False if another machine has taken the run over, because this one missed its heartbeats."""
        return self.storage.get_trial(assignment.trial_id).state == TrialState.RUNNING

    def settle(self, assignment: Assignment, reason: str = "failed", error: str = "") -> str:
        """Close an assignment. Returns the status in the run's record; without a record, `reason`.

        `reason` is "failed", which counts as an attempt, or "interrupted", which does not.
        """
        with self.store.lock():
            if not self._is_ours(assignment):
                return "taken over"
            return self._settle(self.storage.get_trial(assignment.trial_id), reason, error)

    def _settle(self, trial: FrozenTrial, reason: str, error: str = "") -> str:
        attrs, value = trial.user_attrs, None
        folder = self.dir / attrs["run"]
        if record.is_finished(folder):
            summary = record.read_summary(folder)
            if summary["run_id"] != attrs["run_id"]:
                raise UserError(f"{folder}: holds the record of run {summary['run_id']}, not {attrs['run_id']}")
            notes, value = {"status": summary["status"]}, summary[self.metric]
        else:
            notes = {"reason": reason, "error": error}
        for key, note in notes.items():
            self.storage.set_trial_user_attr(trial._trial_id, key, note)
        status = notes.get("status", reason)
        if status == "finished" and value is not None:
            self.study.tell(trial.number, value)
        else:  # a diverged run has no value; Optuna's state for that is FAIL
            self.study.tell(trial.number, state=TrialState.PRUNED if status == "pruned" else TrialState.FAIL)
        return status

    def _enqueue(self, run: RunSpec) -> FrozenTrial:
        """Add a waiting trial for a run."""
        trial = create_trial(
            state=TrialState.WAITING,
            params={**run.levels, "seed": run.seed},
            distributions=self.distributions,
            user_attrs={"run": run.name, "run_id": run.run_id, "variant": run.variant, "seed": run.seed},
        )
        trial_id = self.storage.create_new_trial(self.study_id, template_trial=trial)
        return self.storage.get_trial(trial_id)


def _worker(stored: Mapping[str, Any]) -> ProcessInfo:
    """The worker in a trial's user attribute."""
    return ProcessInfo(stored["host"], stored["pid"], stored["start"], stored["beat"])


def _is_assigned(trial: FrozenTrial) -> bool:
    """Whether the worker of a running trial is alive, or the sweep that will settle it."""
    stored = trial.user_attrs.get(PROCESS_KEY)
    if not stored:  # the sweep was killed while it added a finished run to the queue
        return False
    return is_alive(_worker(stored)) or is_alive(_worker({**stored, **stored["sweep"]}))


def _distributions(plan: Plan) -> dict[str, BaseDistribution]:
    """The levels of each factor, for dashboards. Seeds are a range, because a later command may add some."""
    levels: dict[str, list[Any]] = {}
    for run in plan.runs:
        for path, level in run.levels.items():
            if level not in (known := levels.setdefault(path, [])):
                known.append(level)
    factors = {path: CategoricalDistribution(known) for path, known in levels.items()}
    return {**factors, "seed": IntDistribution(0, 2**31 - 1)}
