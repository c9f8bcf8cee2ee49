"""Connect a study folder with its queue: in the folder, or in a database that several machines and studies share.

All processes of a queue need the records of all of them. So they share one folder, which they know by a token in the folder
and in the database. A process with another folder joins only where the user says so; it then accepts the runs that ended in
the other folders, and `vit-sweep collect` fetches their records.
"""

from __future__ import annotations

import contextlib
import getpass
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
from filelock import FileLock
from optuna.study import StudyDirection
from optuna.trial import TrialState

from experiments.errors import UserError
from experiments.metric import Metric
from experiments.study import StudyPlan
from sweeps.queue.folder_note import NOTE, FolderNote, new_token, read_note, write_note
from sweeps.queue.storage import QueueStorage, open_storage
from sweeps.queue.trials import is_assigned
from sweeps.queue.url import DATABASE, stored_url
from sweeps.study_folder import LOCK

FOLDER = "folder "  # and a token: a user attribute of Optuna's study, with the host, path and user of that folder
FIRST_RUN = "first run"  # a user attribute of Optuna's study: the id of the plan's first run


def connect(plan: StudyPlan, study_dir: Path, url: str | None = None, separate: bool = False) -> QueueStorage:
    """The storage of a study's folder: that of `url`, else the one noted in the folder, else the SQLite file in it.

    `separate`: this folder is another one than that of the other processes. Raises `UserError` where the folder's queue is
    in use in another storage, and where other processes train the same runs in another folder.
    """
    note = read_note(study_dir)
    noted = note.storage if note else None
    if separate and not (url or noted):
        raise UserError("--separate-folders: needs --storage, the database that the machines share")
    wanted = stored_url(url, study_dir) if url is not None else noted
    if wanted != noted:
        _move(plan, study_dir, note, wanted, separate)
    storage = open_storage(None, study_dir)
    if storage.folder:
        with storage.lock():
            _register(storage, storage.study_name(plan.name), plan, study_dir, storage.folder)
    return storage


def _move(plan: StudyPlan, study_dir: Path, old: FolderNote | None, url: str | None, separate: bool) -> None:
    """Note another storage in the folder, unless a process uses the one before. Runs that ended are known by their records."""
    folder = old.folder if old else new_token()
    with _unused(plan, study_dir, old):
        if (now := read_note(study_dir)) != old:
            if now and now.storage == url:
                return  # another process that starts with this one has done it
            raise UserError(f"{study_dir}: another command has just changed its storage; run the command again")
        study = None
        if url is not None:
            storage = open_storage(url, study_dir, noted=False)
            with storage.lock():
                study = _choose_study(storage, plan, study_dir, folder, separate)
                _register(storage, study, plan, study_dir, folder)
        write_note(study_dir, FolderNote(folder, url, study))
    if old or (study_dir / DATABASE).exists():
        print(f"the queue of {study_dir} is now in {url or DATABASE}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _unused(plan: StudyPlan, study_dir: Path, old: FolderNote | None) -> Iterator[None]:
    """Keep the folder's present queue locked. Raises `UserError` where a process uses it."""
    study_dir.mkdir(parents=True, exist_ok=True)
    if old is None and not (study_dir / DATABASE).exists():
        with FileLock(study_dir / LOCK):
            yield
        return
    try:
        storage = open_storage(None, study_dir)
    except UserError as error:
        raise UserError(f"{error}; if no process uses it any more, delete {study_dir / NOTE}") from error
    with storage.lock():
        name = storage.study_name(plan.name)
        if name in optuna.get_all_study_names(storage.rdb):
            study_id = storage.rdb.get_study_id_from_name(name)
            running = storage.rdb.get_all_trials(study_id, deepcopy=False, states=(TrialState.RUNNING,))
            if any(is_assigned(trial, storage.silence) for trial in running):
                raise UserError(
                    f"--storage: a sweep is training the runs of {study_dir} with the storage {storage.url}; use that one, or "
                    "wait until it has ended"
                )
        yield


def _choose_study(storage: QueueStorage, plan: StudyPlan, study_dir: Path, folder: str, separate: bool) -> str:
    """The name of the folder's study in a shared database: its own, or that of another folder with the same runs."""
    here = _place(study_dir)
    others = {}  # study -> place of its folder
    for study in storage.rdb.get_all_studies():
        places = [value for key, value in study.user_attrs.items() if key.startswith(FOLDER)]
        named = study.study_name.rpartition("-")[0] == plan.name and FOLDER + folder not in study.user_attrs
        mine = places and here not in places and any(place["user"] == here["user"] for place in places)
        if named and mine and _has_same_runs(storage, study, plan):
            others[study.study_name] = places[0]
    if not others:
        return f"{plan.name}-{folder}"
    if not separate:
        name, place = next(iter(others.items()))
        raise UserError(
            f"{study_dir}: is not the folder in which these runs are trained with this storage, which is {place['path']} on "
            f"{place['host']}; use that folder, or --separate-folders and at the end vit-sweep collect, or, if that folder is "
            f"gone, delete the Optuna study {name}"
        )
    if len(others) > 1:
        raise UserError(
            f"--separate-folders: the storage has several queues of these runs: {', '.join(others)}; delete all but one"
        )
    return next(iter(others))


def _has_same_runs(storage: QueueStorage, study: Any, plan: StudyPlan) -> bool:
    """Whether a study has a run of the plan. One of an earlier version may have, where it has no trial yet."""
    ids = {run.run_id for run in plan.runs}
    trials = storage.rdb.get_all_trials(study._study_id, deepcopy=False)
    known = {trial.user_attrs.get("run_id") for trial in trials}
    if FIRST_RUN in study.user_attrs:
        known.add(study.user_attrs[FIRST_RUN])
    return not known or not known.isdisjoint(ids)


def _register(storage: QueueStorage, name: str, plan: StudyPlan, study_dir: Path, folder: str) -> None:
    """Write the folder's token and place into Optuna's study, which is made if it does not exist."""
    lower = Metric(plan.metric).lower_is_better
    direction = StudyDirection.MINIMIZE if lower else StudyDirection.MAXIMIZE
    if name not in optuna.get_all_study_names(storage.rdb):
        optuna.create_study(storage=storage.rdb, study_name=name, direction=direction)
    study_id = storage.rdb.get_study_id_from_name(name)
    attributes = storage.rdb.get_study_user_attrs(study_id)
    for key, value in ((FOLDER + folder, _place(study_dir)), (FIRST_RUN, plan.runs[0].run_id)):
        if key not in attributes:
            storage.rdb.set_study_user_attr(study_id, key, value)


def _place(study_dir: Path) -> dict[str, str]:
    return {"host": socket.gethostname(), "path": str(study_dir.resolve()), "user": _user()}


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may have a user without a name
        return "unknown"
