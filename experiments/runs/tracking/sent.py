"""What was sent of a run: to which W&B run, and whether it is complete. A note in the folder, STUDY/wandb/sent/RUN.json."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from experiments.files import RecordError, read_json, write_json
from experiments.runs.tracking.settings import FOLDER, token

MAX_ID = 48  # characters of a run's name in the id of its W&B run: the end, which tells the runs of a folder apart


@dataclass(frozen=True)
class Sent:
    """A W&B run. `where`: the address of its project. `sweep`: if an agent has asked for it.

    `digest`: of the record that W&B has completely; None before.
    """

    id: str
    where: str
    sweep: str | None = None
    digest: str | None = None


def read(folder: Path, run: str, where: str) -> Sent:
    """The W&B run of a run in this project: the one that was noted, else a new one."""
    try:
        noted = Sent(**read_json(_path(folder, run)))
    except (RecordError, TypeError):
        noted = None
    return noted if noted and noted.where == where else Sent(f"{run[-MAX_ID:]}-{token(folder)}", where)


def write(folder: Path, run: str, note: Sent) -> None:
    """Note where a run goes, or that all of it has arrived."""
    path = _path(folder, run)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, asdict(note))


def _path(folder: Path, run: str) -> Path:
    return folder / FOLDER / "sent" / f"{run}.json"
