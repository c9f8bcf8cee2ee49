"""Which queue a study folder belongs to: STUDY/queue.json. A folder whose queue is its own SQLite file has no such file."""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

from experiments.errors import UserError
from experiments.files import read_json, write_json

NOTE = "queue.json"


@dataclass(frozen=True)
class FolderNote:
    """The token of the folder, the URL of its storage (None: the SQLite file in the folder), and its study there."""

    folder: str
    storage: str | None = None
    study: str | None = None


def new_token() -> str:
    """A token for a new folder."""
    return secrets.token_hex(4)


def read_note(study_dir: Path) -> FolderNote | None:
    """The note in a study folder; None where there is none. Raises `UserError` where it cannot be read."""
    path = study_dir / NOTE
    try:
        return FolderNote(**read_json(path)) if path.exists() else None
    except TypeError as error:
        raise UserError(f"{path}: cannot be read: it is not a note of vit-sweep") from error


def write_note(study_dir: Path, note: FolderNote) -> None:
    """Write the note. Raises `RecordError` where it cannot be written."""
    write_json(study_dir / NOTE, asdict(note))
