"""The database of a queue: SQLite in the study's folder, or PostgreSQL for many machines.

It gives the lock and the clock too.
"""

import contextlib
import functools
import math
import os
import re
import sqlite3
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import optuna
import sqlalchemy
from optuna.storages import RDBStorage
from sqlalchemy.engine import URL

from experiments.errors import UserError
from experiments.files import locked
from sweeps.queue.url import DATABASE, QueueNote, parse_url, read_note
from sweeps.study_folder import LOCK

RETRY_TIMEOUT = 600.0  # seconds for which an operation is tried again after a lost connection
RETRY_INTERVAL = 2.0  # seconds between two tries
ADVISORY_KEY = 0x56695421  # of the locks in PostgreSQL; any constant that no other program uses
IDLE_TIMEOUT = "60s"  # then PostgreSQL ends the connection of a process that was suspended, or whose host is gone
TIMEOUTS = ("idle_session_timeout", "idle_in_transaction_session_timeout", "lock_timeout")  # `IDLE_TIMEOUT` each
KEEPALIVES = ("tcp_keepalives_idle=30", "tcp_keepalives_interval=10", "tcp_keepalives_count=3")
# PostgreSQL refuses a connection: its user, password or database; or it is `BUSY`. Or its host has no address.
REFUSED = re.compile("FATAL|failed to resolve host")
BUSY = re.compile("too many|slots are reserved|starting up|shutting down|recovery|not (yet )?accepting|terminating")

P = ParamSpec("P")
T = TypeVar("T")
DatabaseErrors = (sqlalchemy.exc.SQLAlchemyError, sqlite3.Error, optuna.exceptions.StorageInternalError)


class LockLost(sqlalchemy.exc.SQLAlchemyError):
    """The connection that held the lock has ended. What follows must not be written."""


class QueueStorage(ABC):
    """An Optuna storage with a lock and a clock that all processes of the queue share. For one thread."""

    rdb: RDBStorage
    advice = "run the same command again when it can be used"
    temporary: tuple[type[BaseException], ...] = ()  # errors after which an operation is tried again

    def __init__(self, url: str) -> None:
        self.url = url  # for messages; it never holds a password
        self.token = ""  # ends the names of a folder's studies in a database that several folders share
        self.notify: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True)
        self.since = -math.inf  # heartbeats before this time do not count: the database could not be reached
        self._is_locked = False

    def run(self, operation: Callable[[], T]) -> T:
        """Run an operation with exclusive access. It must be idempotent: it runs again after a lost connection.

        Raises `UserError` where the database cannot be used, or not again within `RETRY_TIMEOUT`.
        """

        def attempt() -> T:
            with self._locked():
                self._is_locked = True
                try:
                    return operation()
                finally:
                    self._is_locked = False

        if self._is_locked:  # the operation is a part of another one, which is repeated as a whole
            return operation()
        with self.errors():
            return self._repeat(attempt)

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Turn errors of the database into a `UserError`. Statements and their values are left out."""
        try:
            yield
        except DatabaseErrors as error:
            raise UserError(f"{self.url}: cannot be used ({_reason(error)}); {self.advice}") from None

    def study_name(self, name: str) -> str:
        """The name of a study in Optuna."""
        return f"{name}-{self.token}" if self.token else name

    def now(self) -> float:
        """The shared clock: seconds since the epoch. Clocks of different hosts may differ by hours."""
        if self._is_locked:
            return self._read_clock()
        with self.errors():
            return self._repeat(self._read_clock)

    def silence(self, heartbeat: float) -> float:
        """For how many seconds a process has been silent although the database could be reached."""
        return self.now() - max(heartbeat, self.since)

    @abstractmethod
    def _locked(self) -> contextlib.AbstractContextManager[None]:
        """Hold the lock in the body."""

    @abstractmethod
    def _read_clock(self) -> float: ...

    def _repeat(self, operation: Callable[[], T], first: bool = False) -> T:
        """Run an operation until it does not fail for a lost connection. The first repetition follows at once.

        `first`: nothing is in training yet, so what the server refuses for good (see `REFUSED`) is not tried again.
        """
        end, failures = time.monotonic() + RETRY_TIMEOUT, 0
        while True:
            try:
                result = operation()
                if failures > 1:
                    self.since = self._read_clock()
                return result
            except DatabaseErrors as error:
                is_refused = first and REFUSED.search(_reason(error)) and not BUSY.search(_reason(error))
                if not isinstance(_cause(error), self.temporary) or is_refused or time.monotonic() > end:
                    raise
                failures += 1
                if failures == 2:
                    minutes = f"{RETRY_TIMEOUT / 60:.0f} min"
                    training = "" if first else ", training continues"
                    self.notify(f"{self.url}: {_reason(error)}; trying again for {minutes}{training}")
                if failures > 1:
                    time.sleep(RETRY_INTERVAL)


class SQLiteStorage(QueueStorage):
    """A file, by default in the study's folder, with a lock file. Its clock is that of the folder's file system.

    `reading`: the file exists, and is read without the lock. It has no write-ahead log, which does not work across
    machines.
    """

    advice = (
        "run the same command again when it can be used, or give another --storage; a damaged queue is rebuilt from "
        "the records once it is moved away, but the trials of `vit-sweep tune` are lost"
    )

    def __init__(self, path: Path, lock: Path, reading: bool = False) -> None:
        super().__init__(str(path))
        self._file = lock
        mode = "rw" if reading else "rwc"  # rw never makes the file, and undoes what a killed process has half written
        place = f"{path.absolute().as_uri()}?mode={mode}"
        seconds = 5.0 if reading else RETRY_TIMEOUT  # for which another process may have the file locked
        options = {"creator": lambda: sqlite3.connect(place, uri=True, timeout=seconds)}

        def make() -> RDBStorage:
            return RDBStorage("sqlite://", engine_kwargs=options, skip_table_creation=reading)

        with self.errors():
            self.rdb = make() if reading else self.run(make)

    def _locked(self) -> contextlib.AbstractContextManager[None]:
        try:
            self._file.touch()  # where it cannot be made, filelock makes its folder, or waits
        except OSError as error:
            raise UserError(f"{self._file}: cannot be used ({error.strerror})") from error
        return locked(self._file)

    def _read_clock(self) -> float:
        with contextlib.suppress(OSError):  # a folder that can only be read
            os.utime(self._file)  # a file server uses its own clock
            return self._file.stat().st_mtime
        return time.time()


class PostgresStorage(QueueStorage):
    """A PostgreSQL database with an advisory lock, and the server's clock.

    The lock belongs to the one connection on which everything is written. If that connection ends, the lock is free for
    others, and nothing more is written without it: no second connection is made while the lock is held.
    """

    temporary = (
        sqlalchemy.exc.OperationalError,
        sqlalchemy.exc.InterfaceError,
        sqlalchemy.exc.InternalError,
        sqlalchemy.exc.PendingRollbackError,  # the connection was lost within a transaction
        LockLost,
    )

    def __init__(self, url: URL, reading: bool = False) -> None:
        super().__init__(url.render_as_string())
        arguments = {
            "connect_timeout": 10,
            "keepalives_idle": 30,
            "keepalives_interval": 10,
            "keepalives_count": 3,
            "tcp_user_timeout": 60_000,
            "application_name": "vit-sweep",
            "options": " ".join(f"-c {s}" for s in (*(f"{name}={IDLE_TIMEOUT}" for name in TIMEOUTS), *KEEPALIVES)),
        }
        text = self.url.replace("{", "{{").replace("}", "}}")  # Optuna replaces names in braces
        engine = sqlalchemy.create_engine(url, connect_args=arguments, poolclass=sqlalchemy.pool.NullPool)
        options = {"connect_args": arguments, "pool_size": 1}

        def make() -> None:
            with engine.connect() as connection:
                if not reading:  # two processes that start at once would both make the tables
                    connection.exec_driver_sql(f"select pg_advisory_xact_lock({ADVISORY_KEY})")
                self.rdb = RDBStorage(text, engine_kwargs=options, skip_table_creation=reading)

        with self.errors():
            make() if reading else self._repeat(make, first=True)
        sqlalchemy.event.listen(self.rdb.engine, "connect", self._on_connect)
        self.rdb.engine.dispose()  # closes the connections that were made before the listener

    def _on_connect(self, *_: Any) -> None:
        if self._is_locked:
            raise LockLost("the connection was lost")

    def _select(self, columns: str) -> Any:
        with self.rdb.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            return connection.exec_driver_sql(f"select {columns}").one()

    @property
    def _key(self) -> str:
        """The numbers of the lock, one lock for each folder."""
        return f"{ADVISORY_KEY}, {int(self.token or '0', 16) - 2**31}"

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self._select(f"pg_advisory_lock({self._key})")
        try:
            yield
        finally:
            with contextlib.suppress(*self.temporary):  # it ended with its connection; a write that failed has said so
                self._select(f"pg_advisory_unlock({self._key})")

    def _read_clock(self) -> float:
        times = "clock_timestamp()", "pg_postmaster_start_time()"
        now, started = self._select(", ".join(f"extract(epoch from {moment})::float8" for moment in times))
        self.since = max(self.since, started)
        return float(now)


def open_storage(study_dir: Path, note: QueueNote | None = None, reading: bool = False) -> QueueStorage:
    """The storage that a note names, by default the study's; without a note, the SQLite file in the folder.

    `reading`: see `SQLiteStorage`. Raises `UserError` where the URL is not allowed, its driver is not installed, or the
    database cannot be used.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    if (note := note or read_note(study_dir)) is None:
        return SQLiteStorage(study_dir / DATABASE, study_dir / LOCK, reading)
    url = parse_url(note.storage)
    path = Path(str(url.database))
    is_file = url.drivername == "sqlite"
    storage = (
        SQLiteStorage(path, path.with_name(path.name + LOCK), reading) if is_file else PostgresStorage(url, reading)
    )
    storage.token = note.token
    return storage


def _cause(error: BaseException) -> BaseException:
    """The error below Optuna's, which only says that there was one."""
    wrapped = isinstance(error, optuna.exceptions.StorageInternalError) and error.__cause__
    return wrapped or error


def _reason(error: BaseException) -> str:
    """What the database said, in one line, without the statement."""
    cause = _cause(error)
    text = str(getattr(cause, "orig", None) or cause).partition("(Background on this error")[0]  # a link to a manual
    return " ".join(text.split())


def exclusive(method: Callable[P, T]) -> Callable[P, T]:
    """Decorate a method of an object with a `store`: it runs by `QueueStorage.run`, alone on the queue."""

    @functools.wraps(method)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        store: QueueStorage = cast(Any, args[0]).store
        return store.run(lambda: method(*args, **kwargs))

    return run
