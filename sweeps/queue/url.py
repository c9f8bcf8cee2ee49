"""Where the queue of a study folder is: in its own SQLite file, or in the database that STUDY/queue.json names.

No Optuna.
"""

from dataclasses import dataclass
from pathlib import Path

import sqlalchemy
from sqlalchemy.engine import URL, make_url

from experiments.errors import UserError
from experiments.files import read_json

ALLOWED = "postgresql+psycopg://HOST/DATABASE or sqlite:///FILE"
DATABASE = "optuna.db"  # in the study's folder, unless there is a note
NOTE = "queue.json"
HEADER = b"SQLite format 3\0"  # of a file, https://www.sqlite.org/fileformat.html


@dataclass(frozen=True)
class QueueNote:
    """The URL of the database, and `token`, 8 hexadecimal digits that end the names of the folder's Optuna studies."""

    storage: str
    token: str


def read_note(study_dir: Path) -> QueueNote | None:
    """The note in a study folder; None where there is none. Raises `UserError` where it cannot be read."""
    path = study_dir / NOTE
    try:
        return QueueNote(**read_json(path)) if path.exists() else None
    except TypeError as error:
        raise UserError(f"{path}: cannot be read: it is not a note of vit-sweep") from error


def parse_url(text: str) -> URL:
    """Check a storage URL. Raises `UserError`, which never repeats a password."""
    try:
        url = make_url(text)
    except (sqlalchemy.exc.ArgumentError, ValueError):
        raise UserError(f"storage: the URL cannot be read; expected {ALLOWED}") from None
    if url.password is not None or any(_is_secret(name) for name in url.query):
        raise UserError(
            "storage: a password in the URL is not allowed, because it would reach logs; put it in ~/.pgpass, or in "
            "the file that PGPASSFILE names"
        )
    if url.drivername == "sqlite" and url.database and url.database != ":memory:" and not (url.host or url.query):
        return url.set(database=str(Path(url.database).resolve()))
    if url.drivername not in ("postgresql", "postgresql+psycopg"):
        refused = text if url.drivername == "sqlite" else url.drivername
        raise UserError(f"storage: {refused!r} is not allowed: expected {ALLOWED}")
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise UserError('storage: PostgreSQL needs a driver; pip install "vit-ablation[postgres]"') from None
    return url.set(drivername="postgresql+psycopg")


def parse_given_url(text: str) -> URL:
    """Check a storage URL that a user gives. Its file is a database, or empty, or new in a folder that exists: no other
    file is changed. Raises `UserError`.
    """
    url = parse_url(text)
    if url.drivername == "sqlite":
        path = Path(str(url.database))
        try:
            if not (_is_database(path) if path.exists() else path.parent.is_dir()):
                expected = "an SQLite database, or a new file in a folder that exists"
                raise UserError(f"storage: {str(path)!r} is not allowed: expected {expected}")
        except OSError as error:
            raise UserError(f"storage: {path} cannot be read: {error.strerror}") from error
    return url


def _is_database(path: Path) -> bool:
    """Whether a file is an SQLite database, or empty."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(HEADER)) in (b"", HEADER)


def _is_secret(name: str) -> bool:
    """Whether a parameter of a connection is a secret. `passfile` is the path of a file."""
    return ("pass" in name.lower() and name != "passfile") or "secret" in name.lower()
