"""Locks between processes: files that the kernel unlocks when the process that holds them ends, however it ends."""

import contextlib
import errno
import fcntl
import functools
import json
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from experiments.errors import UserError, say
from experiments.files import RecordError, check_name, open_own, own_folder, read_json
from experiments.version import command, now

DRIVER_LOCK = "driver.lock"  # held by the one process that trains a study, or writes its plan
LOCKS = "locks"  # beside the folders of runs: for each run the lock of the process that trains it
WITHOUT_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK)  # errors of a file system without them
POLL_SECONDS = 0.02
SAID_AFTER = 5.0  # seconds that a lock is waited for in silence


@dataclass(frozen=True)
class Holder:
    """The process that holds a lock. `since`: UTC, ISO 8601. It may belong to another host."""

    host: str
    pid: int
    command: str
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


@contextlib.contextmanager
def lock(path: Path, seconds: float = 0.0) -> Iterator[bool]:
    """Hold a lock in the body, if it is free within so many seconds. Yields whether it is held.

    The file names this process. Raises `UserError` where the file cannot be used.
    """
    end = time.monotonic() + seconds
    try:
        while (file := _take(path)) is None and time.monotonic() < end:
            time.sleep(POLL_SECONDS)
    except OSError as error:
        raise RecordError(f"{path}: cannot be locked: {error.strerror}") from error
    if file is None:
        yield False
        return
    try:
        me = Holder(socket.gethostname(), os.getpid(), command(), now())
        with contextlib.suppress(OSError):  # a full disk: the lock is held all the same
            os.pwrite(file, json.dumps(asdict(me)).encode() + b"\n", 0)
        yield True
    finally:
        with contextlib.suppress(OSError):
            os.ftruncate(file, 0)
        os.close(file)  # the kernel unlocks it


def _take(path: Path) -> int | None:
    """The descriptor of the locked file, which is empty; None where another process holds it. Raises `OSError`.

    Where there are no locks, a line says so, and only a holder of another host that the file names counts.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = open_own(path)
    try:
        if not _lock_file(file):
            _say_without_locks(path.parent)
            if (other := _noted(path)).pid and other.host != socket.gethostname():
                raise BlockingIOError
        os.ftruncate(file, 0)
        return file
    except OSError as error:
        os.close(file)
        if isinstance(error, BlockingIOError):
            return None
        raise


def _lock_file(file: int, kind: int = fcntl.LOCK_EX) -> bool:
    """Lock an open file. Returns whether its file system has locks. Raises `BlockingIOError` where it is locked."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in WITHOUT_LOCKS:
            raise
        return False
    return True


@functools.cache
def _say_without_locks(folder: Path) -> None:
    line = "its file system has no locks, so two commands on the same runs go unnoticed; start one at a time"
    say(f"{folder}: {line}", error=True)


def holder(path: Path) -> Holder | None:
    """The process that holds a lock, as far as it can be told; None if nobody does.

    It shares the lock for an instant, so two that look at once do not see each other.
    """
    try:
        file = open_own(path, os.O_RDWR)
    except (OSError, UserError):  # there is none, it is no lock, or the folder may only be read
        return None
    try:
        return None if _lock_file(file, fcntl.LOCK_SH) or not (other := _noted(path)).pid else other
    except BlockingIOError:
        return _noted(path)
    finally:
        os.close(file)


def is_locked(path: Path) -> bool:
    """Whether a process holds a lock."""
    return holder(path) is not None


def has_locks(path: Path) -> bool:
    """Whether a file, which is made if it does not exist, can be locked."""
    with contextlib.suppress(BlockingIOError), os.fdopen(open_own(path), "ab") as file:
        return _lock_file(file.fileno())
    return True


def _noted(path: Path) -> Holder:
    """The holder that a lock's file names. It may have begun to hold it an instant ago, and not be named yet."""
    try:
        return Holder(**read_json(path))
    except (OSError, ValueError, TypeError):
        return Holder("an unknown host", 0, "", "")


@contextlib.contextmanager
def wait_for_lock(path: Path, seconds: float = 600.0) -> Iterator[None]:
    """Hold a lock in the body, and say so where it waits. Raises `UserError` after so many seconds."""
    with contextlib.ExitStack() as stack:
        if not stack.enter_context(lock(path, min(SAID_AFTER, seconds))):
            say(f"{path}: is locked by another process; waiting up to {seconds:.0f} s", error=True)
            if not stack.enter_context(lock(path, max(0.0, seconds - SAID_AFTER))):
                raise UserError(f"{path}: was locked by {holder(path)} for {seconds:.0f} s; end it, or try again")
        yield


@contextlib.contextmanager
def lock_runs(folder: Path, names: list[str], seconds: float) -> Iterator[set[str]]:
    """Hold the locks of runs in a folder. Yields the names of those that no other process holds within some seconds.

    They are taken in the order of the names, so that two processes do not wait for each other.
    """
    with contextlib.ExitStack() as stack:
        locks = own_folder(folder / LOCKS) if names else folder
        checked = [check_name(name, f"{folder}: a run's name") for name in sorted(names)]
        yield {name for name in checked if stack.enter_context(lock(locks / name, seconds))}
