"""Locks between processes: files that the kernel unlocks when the process that holds them ends, however it ends."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from experiments.errors import UserError
from experiments.files import RecordError, check_name, check_own, own_folder

DRIVER_LOCK = "driver.lock"  # held by the one process that trains a study, or writes its plan
LOCKS = "locks"  # beside the folders of runs: for each run the lock of the process that trains it


@contextlib.contextmanager
def lock(path: Path, seconds: float = 0.0) -> Iterator[bool]:
    """Hold a lock in the body, if it is free within so many seconds. Yields whether it is held.

    Raises `UserError` where the file is a link or cannot be used.
    """
    file = FileLock(check_own(path), poll_interval=0.02)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file.acquire(timeout=seconds)
    except Timeout:
        yield False
        return
    except OSError as error:
        raise RecordError(f"{path}: cannot be locked: {error.strerror or error}") from error
    try:
        yield True
    finally:
        file.release()


def is_locked(path: Path) -> bool:
    """Whether a process holds a lock. It takes the lock for an instant, if it can. A device is not opened."""
    if not path.is_file() or path.is_symlink():
        return False
    try:
        with lock(path) as is_held:
            return not is_held
    except UserError:  # the folder may only be read
        return False


@contextlib.contextmanager
def lock_runs(folder: Path, names: list[str], seconds: float) -> Iterator[set[str]]:
    """Hold the locks of runs in a folder. Yields the names of those that no other process holds within some seconds.

    They are taken in the order of the names, so that two processes do not wait for each other.
    """
    with contextlib.ExitStack() as stack:
        locks = own_folder(folder / LOCKS) if names else folder
        checked = [check_name(name, f"{folder}: a run's name") for name in sorted(names)]
        yield {name for name in checked if stack.enter_context(lock(locks / name, seconds))}
