"""Write the records of an epoch in a thread, while the device trains the next epoch."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

import torch


def uses_thread(device: torch.device) -> bool:
    """Whether a thread writes the records: on a GPU.

    On a CPU it would take time from the training, because a worker has one core: digits was no faster with it.
    """
    return device.type == "cuda"


class EpochWriter(ExitStack):
    """A context in which the records of epochs are written, each by a function without arguments.

    With `in_background` a thread calls the functions in order; `wait`, or the end of the context, raises their first
    error. Without, `submit` calls the function itself.
    """

    def __init__(self, in_background: bool) -> None:
        super().__init__()
        self._pool = self.enter_context(ThreadPoolExecutor(1, "records")) if in_background else None
        self._pending: list[Future[None]] = []
        self.callback(self.wait)

    def submit(self, write: Callable[[], None]) -> None:
        """Call a function after those before it."""
        if self._pool:
            self._pending.append(self._pool.submit(write))
        else:
            write()

    def wait(self) -> None:
        """Wait until all functions have been called. Raises the error of the first that failed."""
        pending, self._pending = self._pending, []
        for future in pending:
            future.result()
