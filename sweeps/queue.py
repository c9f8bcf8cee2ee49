"""The queue: an Optuna study in STUDY/optuna.db with a trial for every attempt at a run. Nothing is trained here.

What has ended is decided by the records; the ledger says who is at work on the rest. Changes are made under the
folder's lock and in immediate transactions, so that no run goes to two workers, whichever process or machine is theirs.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
import sqlalchemy
from filelock import FileLock
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from experiments.config import cohort_key
from experiments.errors import UserError
from experiments.runs import record
from experiments.runs.spec import RunSpec
from sweeps.plan import LOCK, Plan
from sweeps.process import Owner, alive

DATABASE = "optuna.db"


@dataclass(frozen=True)
class Claim:
    """A run that is ours to train, and its trial."""

    run: RunSpec
    trial_id: int
    number: int
    owner: Owner


@dataclass(frozen=True)
class State:
    """Where the runs of a plan stand, by name. `failed`: name -> the reason of the last attempt."""

    ended: list[str]
    running: dict[str, Owner]
    waiting: list[str]
    failed: dict[str, str]


class Ledger:
    """The trials of one study folder, as one sweep sees them: `sweep` is the process that makes and closes its claims.

    A claim holds while the worker or its sweep lives: a sweep will yet say how its dead worker ended.
    """

    def __init__(self, plan: Plan, study_dir: Path, sweep: Owner, attempts: int = 3) -> None:
        self.runs = {run.name: run for run in plan.runs}
        self.sweep = {key: sweep[key] for key in ("pid", "start")}
        self.dir, self.attempts = study_dir, attempts
        self.given_up: set[str] = set()  # by this sweep; another may still try
        self.metric = "val/" + plan.study.metric.partition("/")[2]  # choices are made on validation, never on the test
        self.distributions = _distributions(plan)
        self.lock = FileLock(study_dir / LOCK)
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        with self._database():
            self.storage = _storage(study_dir / DATABASE)
            self.study = self._study(plan.study.name)
            self.study_id = self.storage.get_study_id_from_name(plan.study.name)

    def _study(self, name: str) -> optuna.Study:
        """Optuna's study. One whose direction is another metric's, changed before a run had ended, is begun anew."""
        wanted = StudyDirection.MINIMIZE if self.metric.endswith("loss") else StudyDirection.MAXIMIZE
        pruner = optuna.pruners.NopPruner()  # a variant that is stopped early has not been measured
        begin = functools.partial(
            optuna.create_study,
            storage=self.storage,
            study_name=name,
            direction=wanted,
            pruner=pruner,
            load_if_exists=True,
        )
        study = begin()
        running = study.get_trials(deepcopy=False, states=[TrialState.RUNNING])
        if study.direction != wanted and not any(map(_owner_lives, running)):
            optuna.delete_study(study_name=name, storage=self.storage)
            study = begin()
        return study

    @contextlib.contextmanager
    def _database(self) -> Iterator[None]:
        """The queue to ourselves. Raises `UserError` where it cannot be read or written."""
        try:
            with self.lock:
                yield
        except (sqlalchemy.exc.DatabaseError, optuna.exceptions.StorageInternalError) as error:
            cause = error if isinstance(error, sqlalchemy.exc.DatabaseError) else error.__cause__
            why = f"cannot be used ({getattr(cause, 'orig', error)}); it may be deleted, for the records decide"
            raise UserError(f"{self.dir / DATABASE}: {why}") from error

    def reconcile(self) -> State:
        """Bring the trials into line with the records and the living; queue what is left. Twice is the same as once."""
        with self._database():
            for trial in self.study.get_trials(deepcopy=False, states=[TrialState.RUNNING]):
                if not _owner_lives(trial):
                    self._settle(trial, "interrupted")
            trials = collections.defaultdict(list)
            for trial in self.study.get_trials(deepcopy=False):
                trials[trial.user_attrs["run"]].append(trial)
            state = State([], {}, [], {})
            for name in self.runs:
                self._place(name, trials[name], state)
            return state

    def _place(self, name: str, trials: list[FrozenTrial], state: State) -> None:
        """Put a run where it belongs in `state`, and give it the trial that this place needs."""
        waiting = [trial for trial in trials if trial.state == TrialState.WAITING]
        running = [trial for trial in trials if trial.state == TrialState.RUNNING]
        failures = [trial for trial in trials if trial.state == TrialState.FAIL and self._counts(trial)]
        if running:
            state.running[name] = running[0].user_attrs["owner"]
        elif record.is_finished(self.dir / name):
            state.ended.append(name)
            if not any("status" in trial.user_attrs for trial in trials):
                trial = waiting[0] if waiting else self._add(self.runs[name])
                self.storage.set_trial_state_values(trial._trial_id, TrialState.RUNNING)
                self._settle(trial, "")
        elif len(failures) >= self.attempts:
            state.failed[name] = failures[-1].user_attrs.get("error", "")
            self.given_up.add(name)
        else:
            state.waiting.append(name)
            if not waiting:
                self._add(self.runs[name])

    def _counts(self, trial: FrozenTrial) -> bool:
        """Whether a trial is a failed attempt of this sweep; what was interrupted is nobody's fault."""
        attrs = trial.user_attrs
        return attrs.get("reason") == "failed" and attrs["owner"]["sweep"] == self.sweep

    def claim(self, owner: Owner, most: int = 1) -> list[Claim]:
        """Take up to `most` waiting runs that may be trained together: the first and others of its cohort, or none.

        What has failed before is trained alone: a stack may be too much for the memory, and shares its members' fate.
        """
        claims: list[Claim] = []
        owner = {**owner, "beat": time.time(), "sweep": self.sweep}
        with self._database():
            tried = self.study.get_trials(deepcopy=False, states=[TrialState.FAIL])
            failed = {trial.user_attrs["run"] for trial in tried if self._counts(trial)}
            waiting = self.study.get_trials(deepcopy=False, states=[TrialState.WAITING])
            queued = {trial.user_attrs["run"]: trial for trial in waiting}
            wanted = [run for name, run in self.runs.items() if name in queued and name not in self.given_up]
            for run in wanted:  # in the plan's order, whatever was queued again
                if len(claims) == most or (claims and claims[0].run.name in failed):
                    break
                if claims and (run.name in failed or cohort_key(run.config) != cohort_key(claims[0].run.config)):
                    continue
                trial = queued[run.name]
                self.storage.set_trial_user_attr(trial._trial_id, "owner", owner)
                if self.storage.set_trial_state_values(trial._trial_id, TrialState.RUNNING):
                    claims.append(Claim(run, trial._trial_id, trial.number, owner))
        return claims

    def beat(self, claims: Sequence[Claim]) -> list[Claim]:
        """A sign of life for other machines. Returns the claims that are ours no more."""
        with self._database():
            lost = [claim for claim in claims if not self._holds(claim)]
            for claim in claims:
                if claim not in lost:
                    self.storage.set_trial_user_attr(claim.trial_id, "owner", {**claim.owner, "beat": time.time()})
            return lost

    def _holds(self, claim: Claim) -> bool:
        """Whether a claim is ours still: after a long sleep, another machine may have taken it over."""
        return self.storage.get_trial(claim.trial_id).state == TrialState.RUNNING

    def tell(self, claim: Claim, reason: str = "failed", error: str = "") -> str:
        """Close a claim by what its folder says, and return the run's status; without a record the attempt has failed.

        `reason` is then "failed", which counts, or "interrupted", which does not.
        """
        with self._database():
            if not self._holds(claim):
                return "taken over"
            return self._settle(self.storage.get_trial(claim.trial_id), reason, error)

    def _settle(self, trial: FrozenTrial, reason: str, error: str = "") -> str:
        attrs, value = trial.user_attrs, None
        folder = self.dir / attrs["run"]
        if record.is_finished(folder):
            summary = record.read_summary(folder)
            if summary["run_id"] != attrs["run_id"]:
                raise UserError(f"{folder}: is the record of run {summary['run_id']}, not of {attrs['run_id']}")
            notes, value = {"status": summary["status"]}, summary[self.metric]
        else:
            notes = {"reason": reason, "error": error}
        for key, note in notes.items():
            self.storage.set_trial_user_attr(trial._trial_id, key, note)
        status = notes.get("status", reason)
        if status == "finished" and value is not None:
            self.study.tell(trial.number, value)
        else:  # a diverged run has no value, and Optuna no other word for it
            self.study.tell(trial.number, state=TrialState.PRUNED if status == "pruned" else TrialState.FAIL)
        return status

    def _add(self, run: RunSpec) -> FrozenTrial:
        """A waiting trial for a run."""
        trial = create_trial(
            state=TrialState.WAITING,
            params={**run.levels, "seed": run.seed},
            distributions=self.distributions,
            user_attrs={"run": run.name, "run_id": run.run_id, "variant": run.variant, "seed": run.seed},
        )
        trial_id = self.storage.create_new_trial(self.study_id, template_trial=trial)
        return self.storage.get_trial(trial_id)


def _owner_lives(trial: FrozenTrial) -> bool:
    """Whether a running trial's worker lives, or the sweep that will yet say how it ended."""
    who = trial.user_attrs.get("owner")  # none: killed while it entered what was finished
    return bool(who) and (alive(who) or alive({**who, **who["sweep"]}))


def _distributions(plan: Plan) -> Mapping[str, BaseDistribution]:
    """What dashboards know of the factors. Seeds are a range, since a later command may add some."""
    levels: dict[str, list[Any]] = {}
    for run in plan.runs:
        for path, level in run.levels.items():
            if level not in (known := levels.setdefault(path, [])):
                known.append(level)
    factors = {path: CategoricalDistribution(known) for path, known in levels.items()}
    return {**factors, "seed": IntDistribution(0, 2**31 - 1)}


def _storage(path: Path) -> optuna.storages.RDBStorage:
    """SQLite whose transactions take the write lock when they begin: read, decide and write are then one step.

    (SQLAlchemy's documented recipe for pysqlite.) No write-ahead log: it does not work across machines.
    """
    storage = optuna.storages.RDBStorage(f"sqlite:///{path}", engine_kwargs={"connect_args": {"timeout": 60}})

    @sqlalchemy.event.listens_for(storage.engine, "connect")
    def _no_implicit_begin(connection: Any, _: Any) -> None:
        connection.isolation_level = None

    @sqlalchemy.event.listens_for(storage.engine, "begin")
    def _begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    storage.engine.dispose()  # connections made before the listeners were
    return storage
