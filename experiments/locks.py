"""Locks between processes: files that the kernel unlocks when the process that holds them ends, however it ends."""

import contextlib
import json
import os
import socket
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from experiments.errors import UserError, writing
from experiments.files import RecordError
from experiments.version import command

LOCKS = "locks"  # beside the folders of runs: for each run the lock of the process that trains it
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

    The file names this process. Raises `RecordError` where the file cannot be used.
    """
    handle = FileLock(path, thread_local=False, fallback_to_soft=False, poll_interval=POLL_SECONDS)
    try:
        handle.acquire(timeout=seconds)
    except Timeout:
        yield False
        return
    except (OSError, NotImplementedError) as error:
        raise RecordError(f"{path}: cannot be locked: {getattr(error, 'strerror', None) or error}") from error
    try:
        with contextlib.suppress(OSError):  # a full disk: the lock is held all the same
            me = Holder(socket.gethostname(), os.getpid(), command(), datetime.now(UTC).isoformat(timespec="seconds"))
            path.write_text(json.dumps(asdict(me)) + "\n", encoding="utf-8")
        yield True
    finally:
        handle.release()


def holder(path: Path) -> Holder | None:
    """The process that holds a lock; None if nobody does. It holds the lock itself for an instant."""
    if not path.exists():
        return None
    handle = FileLock(path, fallback_to_soft=False)
    try:
        handle.acquire(timeout=0)
    except Timeout:
        return _noted(path)
    except OSError:  # a folder that may only be read, or one without locks
        return None
    handle.release()
    return None


def _noted(path: Path) -> Holder:
    """The holder that a lock's file names. It may have begun to hold it an instant ago, and not be named yet."""
    try:
        return Holder(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return Holder("an unknown host", 0, "", "")


@contextlib.contextmanager
def wait_for_lock(path: Path, seconds: float = 600.0) -> Iterator[None]:
    """Hold a lock in the body, and say so where it waits. Raises `UserError` after so many seconds."""
    with contextlib.ExitStack() as stack:
        if not stack.enter_context(lock(path, min(SAID_AFTER, seconds))):
            print(f"{path}: is locked by another process; waiting up to {seconds:.0f} s", file=sys.stderr, flush=True)
            if not stack.enter_context(lock(path, max(0.0, seconds - SAID_AFTER))):
                raise UserError(f"{path}: was locked by {holder(path)} for {seconds:.0f} s; end it, or try again")
        yield


@contextlib.contextmanager
def lock_runs(folder: Path, names: list[str], seconds: float) -> Iterator[set[str]]:
    """Hold the locks of runs in a folder. Yields the names of those that no other process holds within some seconds.

    They are taken in the order of the names, so that two processes do not wait for each other.
    """
    with contextlib.ExitStack() as stack:
        if names:
            with writing(folder):
                (folder / LOCKS).mkdir(parents=True, exist_ok=True)
        yield {name for name in sorted(names) if stack.enter_context(lock(folder / LOCKS / name, seconds))}
