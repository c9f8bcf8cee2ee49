"""Connect a study folder with its queue: in the folder, or in a database that several machines and studies share."""

import socket
from dataclasses import asdict
from pathlib import Path

from sqlalchemy.engine import URL

from experiments.errors import UserError, writing
from experiments.files import locked, write_json
from experiments.study import StudyPlan
from sweeps.queue.optuna_study import create_study
from sweeps.queue.storage import QueueStorage, open_storage
from sweeps.queue.url import DATABASE, NOTE, QueueNote, parse_given_url, read_note
from sweeps.study_folder import LOCK

FOLDER = "folder"  # user attribute of Optuna's study in a shared database: the study's folder


def connect(plan: StudyPlan, study_dir: Path, url: str | None = None) -> QueueStorage:
    """The storage of a study's folder: the one noted there, else that of `url`, else the SQLite file in the folder.

    Raises `UserError` where the folder's queue is in another storage than `url`, and where the queue of these runs in
    that storage belongs to another folder.
    """
    check_storage(study_dir, url)  # before the folder is made
    with writing(study_dir):
        study_dir.mkdir(parents=True, exist_ok=True)
    with writing(study_dir), locked(study_dir / LOCK):  # of processes that start at once, one decides
        wanted, note = check_storage(study_dir, url), read_note(study_dir)
        if wanted is None:
            (study_dir / DATABASE).touch()
        elif note is None:
            note = QueueNote(wanted, plan.runs[0].run_id[:8])
            storage = open_storage(study_dir, note)
            storage.run(lambda: _register(storage, plan, study_dir))
            write_json(study_dir / NOTE, asdict(note))
    return open_storage(study_dir)


def check_storage(study_dir: Path, url: str | None) -> str | None:
    """The URL of the storage of a study's folder; None for the SQLite file in it. It changes nothing.

    Raises `UserError` where the folder's queue is in another storage than `url`.
    """
    note, file = read_note(study_dir), study_dir / DATABASE
    own = URL.create("sqlite", database=str(file.resolve())).render_as_string()
    known = note.storage if note else own if file.exists() else None
    wanted = parse_given_url(url).render_as_string() if url is not None else known or own
    if known not in (wanted, None):
        raise UserError(
            f"--storage: the queue of {study_dir} is in {known}; leave --storage out, or, if no process uses that "
            f"queue, move {study_dir / NOTE if note else file} away: the records stay"
        )
    return None if wanted == own else wanted


def _register(storage: QueueStorage, plan: StudyPlan, study_dir: Path) -> None:
    """Write the folder into Optuna's study, which is made if it does not exist."""
    study, here = create_study(storage, plan), f"{study_dir.resolve()} on {socket.gethostname()}"
    if (folder := study.user_attrs.get(FOLDER, here)) != here:
        raise UserError(
            f"--storage: these runs have a queue there, of the folder {folder}; use that folder, or other --seeds "
            f"here, or, if that folder is gone, delete the Optuna study {study.study_name}"
        )
    study.set_user_attr(FOLDER, here)
