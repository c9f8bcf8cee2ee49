"""Notes beside the records: what W&B has of each run. Senders write them; commands read them, without wandb."""

import contextlib
import json
import os
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from experiments.files import NAME, RecordError, check_name, read_json
from experiments.runs import record
from experiments.runs.tracking.settings import AgentRun

FOLDER = "wandb"  # in the study's folder: what wandb writes, notes of what it was sent, and locks
TOKEN = "wandb.json"  # in the study's folder: the random part of the ids of its W&B runs, and the URLs of its pages


@dataclass(frozen=True)
class Sent:
    """What W&B has of a run: the id of the W&B run, and the address of its project.

    `sweep`: if an agent has asked for it. `digest`: of the record that W&B has completely; None before.
    """

    id: str
    where: str
    sweep: str | None = None
    digest: str | None = None


def note_path(folder: Path, run: str) -> Path:
    """The file that says what W&B has of a run."""
    return folder / FOLDER / "sent" / f"{run}.json"


def read_note(folder: Path, run: str) -> Sent | None:
    """What W&B has of a run; None where there is no note that can be read."""
    try:
        note = Sent(**read_json(note_path(folder, run)))
        end = note.id.lstrip("._=,+-")  # the end of a long name may begin so
        return note if NAME.fullmatch(end) and NAME.fullmatch(note.sweep or end) else None
    except (RecordError, TypeError, AttributeError):
        return None


def lacking(folder: Path, runs: Iterable[str], agent: AgentRun | None) -> list[str]:
    """The ended runs whose record W&B lacks, or has as another W&B run than the agent's."""

    def is_sent(run: str) -> bool:
        note = read_note(folder, run)
        if note is None or (agent and agent.id != note.id):
            return False
        with contextlib.suppress(RecordError):  # the sender says what is wrong
            return note.digest == read_json(folder / run / record.SUMMARY).get("digest")
        return False

    return [run for run in runs if record.is_finished(folder / run) and not is_sent(run)]


def changed_runs(folder: Path, since: float = 0.0) -> list[str]:
    """The runs that have begun, in whose folders a file was written after a time of the Unix clock."""
    if not folder.is_dir():
        return []
    with os.scandir(folder) as entries:  # records are written by rename, which changes the time of their folder
        changed = sorted(entry.name for entry in entries if entry.is_dir() and entry.stat().st_mtime >= since)
    return [run for run in changed if (folder / run / record.CONFIG).exists()]


def token(folder: Path) -> str:
    """The random part of the W&B ids of the runs in a folder. It is made once and moves with the folder."""
    path = folder / TOKEN
    with contextlib.suppress(FileExistsError), path.open("x", encoding="utf-8") as file:
        json.dump({"token": secrets.token_hex(4)}, file)
    for _ in range(50):  # another process may be writing it
        with contextlib.suppress(RecordError):
            return _token(path)
        time.sleep(0.02)
    return _token(path)


def _token(path: Path) -> str:
    return check_name(str(read_json(path).get("token", "")), f"{path}: token")


def study_key(name: str, folder: Path) -> str:
    """What tells a study in W&B from every other one: its name, and the token of its folder."""
    return f"{name}-{token(folder)}"
