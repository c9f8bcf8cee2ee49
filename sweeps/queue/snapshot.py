"""Read a study's queue without its lock, so that no sweep waits. It writes nothing into the queue."""

from __future__ import annotations

import contextlib
import gc
import os
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import optuna
import sqlalchemy
from optuna.trial import FrozenTrial, TrialState

from experiments.errors import UserError
from experiments.study import StudyPlan
from sweeps.queue.folder_note import read_note
from sweeps.queue.optuna_study import IN_TRAINING, is_renamed
from sweeps.queue.storage import DatabaseErrors, open_storage
from sweeps.queue.trials import RunFinder, factor_distributions, is_assigned
from sweeps.queue.url import DATABASE, parse_url
from sweeps.study_folder import LOCK


@dataclass(frozen=True)
class Snapshot:
    """A queue at one moment: its trials, oldest first, the attributes of Optuna's study, and the time by the queue's clock."""

    trials: list[FrozenTrial] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    now: float = field(default_factory=time.time)
    since: float = 0.0  # heartbeats before this time do not count: the database could not be reached
    folder: str | None = None  # the token of the study's folder

    def silence(self, heartbeat: float) -> float:
        """For how many seconds a process has been silent although the database could be reached."""
        return self.now - max(heartbeat, self.since)


def read_snapshot(study_dir: Path, name: str) -> Snapshot:
    """The queue of a study, wherever its folder says that it is; an empty one where there is none yet.

    Raises `UserError` where the database cannot be used.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    note = read_note(study_dir)
    url = parse_url(note.storage) if note and note.storage else None
    if url and url.drivername != "sqlite":
        return _read_server(study_dir, name)
    path = Path(str(url.database)) if url else study_dir / DATABASE
    if not path.exists():
        return Snapshot()
    try:
        with _copy(path) as copy:
            options = {"creator": lambda: copy, "poolclass": sqlalchemy.pool.StaticPool}
            storage = optuna.storages.RDBStorage("sqlite://", engine_kwargs=options, skip_table_creation=True)
            trials, attributes = _read(storage, note.study if note and note.study else name)
            folder = note.folder if note and url else None  # as `QueueStorage.folder`
            return Snapshot(trials, attributes, now=_file_clock(study_dir), folder=folder)
    except (sqlite3.Error, *DatabaseErrors) as error:
        raise UserError(f"{path}: cannot be read ({error})") from error


def check_levels(plan: StudyPlan, study_dir: Path) -> None:
    """Raise `UserError` where another process trains the study in this folder with other levels than the plan's.

    `Queue` raises it too, but a plan must be refused before it is written.
    """
    try:
        queue = read_snapshot(study_dir, plan.name)
    except UserError:  # `connect` says what is wrong with the database
        return
    if not any(trial.state == TrialState.RUNNING and is_assigned(trial, queue.silence) for trial in queue.trials):
        return
    find, distributions = RunFinder({run.name: run for run in plan.runs}), factor_distributions(plan.runs)
    if any(is_renamed(trial, find) or trial.distributions != distributions for trial in queue.trials):
        raise UserError(IN_TRAINING.format(plan.name))


def _read_server(study_dir: Path, name: str) -> Snapshot:
    """The queue in a database server, which lets others write during a query."""
    storage = open_storage(None, study_dir)
    try:
        found = _read(storage.rdb, storage.study_name(name))
    except DatabaseErrors as error:
        raise UserError(f"{storage.url}: cannot be read ({type(error).__name__})") from error
    return Snapshot(*found, storage.now(), storage.since, storage.folder)


def _read(storage: optuna.storages.RDBStorage, name: str) -> tuple[list[FrozenTrial], dict[str, Any]]:
    try:
        study_id = storage.get_study_id_from_name(name)
    except KeyError:  # a sweep has made the database, and not yet the study
        return [], {}
    collecting = gc.isenabled()
    gc.disable()  # it takes half of the time that 10,000 trials need
    try:
        return storage.get_all_trials(study_id, deepcopy=False), storage.get_study_user_attrs(study_id)
    finally:
        if collecting:
            gc.enable()


@contextlib.contextmanager
def _copy(path: Path) -> Iterator[sqlite3.Connection]:
    """A copy of a SQLite database in memory. A sweep cannot write while a query reads; copying takes milliseconds."""
    copy = sqlite3.connect(":memory:", check_same_thread=False)
    source = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=60)  # rw: never makes the file
    try:
        source.backup(copy)
        yield copy
    finally:
        source.close()
        copy.close()


def _file_clock(study_dir: Path) -> float:
    """The clock of the folder's file system, by which heartbeats in SQLite are dated; this machine's if it is read-only."""
    try:
        os.utime(study_dir / LOCK)
        return (study_dir / LOCK).stat().st_mtime
    except OSError:
        return time.time()
