"""Write the records of an epoch in a thread, while the device trains the next epoch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

import torch

NOTICE_SECONDS = 10.0  # of waiting for the records before that is reported


def uses_thread(device: torch.device) -> bool:
    """Whether a thread writes the records: on a GPU.

    On a CPU it would take time from the training, because a worker has one core: digits was no faster with it.
    """
    return device.type == "cuda"


class EpochWriter:
    """A context in which the records of epochs are written, each by a function without arguments.

    With `in_background` a thread calls the functions in order. After an error it calls no more of them; `wait`, or the end
    of the context, raises that error. Without `in_background`, `submit` calls the function itself.

    The end of the context waits for the thread, after an exception too. A second Ctrl-C ends this wait; Python then waits
    for the thread before it exits.
    """

    def __init__(self, in_background: bool) -> None:
        self._pool = ThreadPoolExecutor(1, "records") if in_background else None
        self._pending: list[Future[None]] = []
        self._error: BaseException | None = None

    def __enter__(self) -> EpochWriter:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.wait()
        finally:
            if self._pool:
                self._pool.shutdown(wait=False)

    def submit(self, write: Callable[[], None]) -> None:
        """Call a function after those before it."""
        if self._pool:
            self._pending.append(self._pool.submit(self._call, write))
        else:
            write()

    def _call(self, write: Callable[[], None]) -> None:
        if self._error is None:
            try:
                write()
            except BaseException as error:
                self._error = error

    def wait(self) -> None:
        """Wait until all functions have been called. Raises the error of the one that failed."""
        if wait(self._pending, NOTICE_SECONDS).not_done:
            print("records: the last epoch is still being written", file=sys.stderr, flush=True)
            wait(self._pending)
        self._pending.clear()
        if self._error is not None:
            error, self._error = self._error, None
            raise error
