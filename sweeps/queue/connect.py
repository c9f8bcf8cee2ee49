"""Connect a study folder with its queue: in the folder, or in a database that several machines and studies share.

All processes of a queue need the records of all of them. So they share one folder, which they know by a token in the folder
and in the database. A process with another folder joins only where the user says so; it then accepts the runs that ended in
the other folders, and `vit-sweep collect` fetches their records.
"""

from __future__ import annotations

import getpass
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from experiments.errors import UserError
from experiments.study import StudyPlan
from sweeps.queue import trials as stored
from sweeps.queue.folder_note import NOTE, FolderNote, new_token, read_note, write_note
from sweeps.queue.optuna_study import create_study, read_queue
from sweeps.queue.storage import QueueStorage, open_storage
from sweeps.queue.url import DATABASE, stored_url
from sweeps.study_folder import LOCK

FOLDER = "folder "  # and a token: a user attribute of Optuna's study, with the host, path and user of that folder
FIRST_RUN = "first run"  # a user attribute of Optuna's study: the id of the plan's first run


@dataclass(frozen=True)
class Ended:
    """A run that has ended, the digest of its record (None: not known), and where the record lies."""

    run: str
    digest: str | None
    host: str
    path: str


def connect(plan: StudyPlan, study_dir: Path, url: str | None = None, separate: bool = False) -> QueueStorage:
    """The storage of a study's folder: that of `url`, else the one noted in the folder, else the SQLite file in it.

    `separate`: this folder is another one than that of the other processes. Raises `UserError` where the folder's queue is
    in use in another storage, and where other processes train the same runs in another folder.
    """
    study_dir.mkdir(parents=True, exist_ok=True)
    with FileLock(study_dir / LOCK):  # of processes that start at once, one writes the note
        note = read_note(study_dir)
        noted = note.storage if note else None
        if separate and not (url or noted):
            raise UserError("--separate-folders: needs --storage, the database that the machines share")
        wanted = stored_url(url, study_dir) if url is not None else noted
        if wanted != noted:
            _move(plan, study_dir, note, wanted, separate)
    storage = open_storage(None, study_dir)
    if folder := storage.folder:
        storage.run(lambda: _register(storage, storage.study_name(plan.name), plan, study_dir, folder))
    return storage


def _move(plan: StudyPlan, study_dir: Path, old: FolderNote | None, url: str | None, separate: bool) -> None:
    """Note another storage in the folder, unless a process uses the one before. Runs that ended are known by their records."""
    try:
        queue = read_queue(study_dir, plan.name)
    except UserError as error:
        raise UserError(f"{error}; if no process uses it any more, delete {study_dir / NOTE}") from error
    if any(stored.is_assigned(trial, queue.silence) for trial in queue.trials):
        where = old.storage if old and old.storage else study_dir / DATABASE
        raise UserError(
            f"--storage: a sweep is training the runs of {study_dir} with the storage {where}; use that one, or wait until "
            "it has ended"
        )
    folder, study = old.folder if old else new_token(), None
    if url is not None:
        storage = open_storage(url, study_dir)

        def choose() -> str:
            name = _choose_study(storage, plan, study_dir, folder, separate)
            _register(storage, name, plan, study_dir, folder)
            return name

        study = storage.run(choose)
    write_note(study_dir, FolderNote(folder, url, study))
    if old or queue.attributes:
        print(f"the queue of {study_dir} is now in {url or DATABASE}", file=sys.stderr, flush=True)


def _choose_study(storage: QueueStorage, plan: StudyPlan, study_dir: Path, folder: str, separate: bool) -> str:
    """The name of the folder's study in a shared database: its own, or that of another folder with the same runs."""
    here, ids = _place(study_dir), {run.run_id for run in plan.runs}
    others = {}  # study -> place of its folder
    for study in storage.rdb.get_all_studies():
        places = [value for key, value in study.user_attrs.items() if key.startswith(FOLDER)]
        named = study.study_name.rpartition("-")[0] == plan.name and FOLDER + folder not in study.user_attrs
        mine = here not in places and any(place["user"] == here["user"] for place in places)
        if named and mine and study.user_attrs.get(FIRST_RUN) in ids:
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
    return next(iter(others))


def _register(storage: QueueStorage, name: str, plan: StudyPlan, study_dir: Path, folder: str) -> None:
    """Write the folder's token and place into Optuna's study, which is made if it does not exist."""
    study = create_study(storage, name, plan)
    for key, value in ((FOLDER + folder, _place(study_dir)), (FIRST_RUN, plan.runs[0].run_id)):
        if key not in study.user_attrs:
            study.set_user_attr(key, value)


def _place(study_dir: Path) -> dict[str, str]:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container may have a user without a name
        user = "unknown"
    return {"host": socket.gethostname(), "path": str(study_dir.resolve()), "user": user}


def ended_runs(study_dir: Path) -> dict[str, Ended]:
    """The runs of a study that have ended according to its queue, by run id, and the folders of their records.

    Raises `UserError` where the queue cannot be read.
    """
    queue, ended = read_queue(study_dir, StudyPlan.read(study_dir).name), {}
    for trial in filter(stored.has_record, queue.trials):
        attributes = trial.user_attrs
        host = stored.worker_of(trial).host if stored.PROCESS in attributes else "this machine"
        here = {"host": host, "path": str(study_dir)}
        place = queue.attributes.get(f"{FOLDER}{stored.record_folder(trial)}", here)
        digest = attributes.get(stored.RECORD, {}).get("digest")
        ended[attributes[stored.RUN_ID]] = Ended(attributes[stored.RUN], digest, place["host"], place["path"])
    return ended
