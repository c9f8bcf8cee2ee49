"""The URL of a queue's database: which are allowed, and what is kept of them. It imports no Optuna."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy
from sqlalchemy.engine import URL, make_url

from experiments.errors import UserError

ALLOWED = "postgresql+psycopg://HOST/DATABASE or sqlite:///FILE"
DATABASE = "optuna.db"  # in the study's folder, unless a URL names another database


def parse_url(text: str) -> URL:
    """Check a storage URL. Raises `UserError`, which never repeats a password."""
    try:
        url = make_url(text)
    except (sqlalchemy.exc.ArgumentError, ValueError):
        raise UserError(f"storage: the URL cannot be read; expected {ALLOWED}") from None
    if url.password is not None or any(_is_secret(name) for name in url.query):
        raise UserError(
            "storage: a password in the URL is not allowed, because it would reach logs; put it in ~/.pgpass, or in the file "
            "that PGPASSFILE names"
        )
    if url.drivername == "sqlite" and url.database and url.database != ":memory:" and not (url.host or url.query):
        return url
    if url.drivername not in ("postgresql", "postgresql+psycopg"):
        raise UserError(f"storage: {url.drivername!r} is not allowed: expected {ALLOWED}")
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise UserError('storage: PostgreSQL needs a driver; pip install "vit-ablation[postgres]"') from None
    return url.set(drivername="postgresql+psycopg")


def _is_secret(name: str) -> bool:
    """Whether a parameter of a connection is a secret. `passfile` is the path of a file."""
    return ("pass" in name.lower() and name != "passfile") or "secret" in name.lower()


def is_own_database(url: URL, study_dir: Path) -> bool:
    """Whether a URL is that of the SQLite file in the study's folder."""
    return url.drivername == "sqlite" and Path(str(url.database)).resolve() == (study_dir / DATABASE).resolve()


def stored_url(text: str, study_dir: Path) -> str | None:
    """A URL as the folder's note keeps it; None for the SQLite file in the folder. Raises `UserError`."""
    url = parse_url(text)
    if is_own_database(url, study_dir):
        return None
    if url.drivername == "sqlite":
        url = url.set(database=str(Path(str(url.database)).resolve()))
    return url.render_as_string()
