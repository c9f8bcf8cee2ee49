"""Say that an operation takes long."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator


class SlowNotice:
    """Says once that an operation is slow. One thread serves many operations: to start one for each takes milliseconds."""

    def __init__(self, notify: Callable[[str], None]) -> None:
        self._notify, self._guard = notify, threading.Lock()
        self._operation: tuple[float, float, str] | None = None  # start, seconds after which it is slow, line to say
        self._thread_runs = False

    @contextlib.contextmanager
    def watch(self, seconds: float, line: str) -> Iterator[None]:
        """Say the line if what is done within takes longer than `seconds`."""
        with self._guard:
            self._operation = time.monotonic(), seconds, line
            start, self._thread_runs = not self._thread_runs, True
        if start:
            threading.Thread(target=self._run, args=(seconds / 8,), daemon=True).start()
        try:
            yield
        finally:
            with self._guard:
                self._operation = None

    def _run(self, pause: float) -> None:
        """Look now and then. The thread ends when nothing is being done."""
        said = None
        while True:
            time.sleep(pause)
            with self._guard:
                operation = self._operation
                if operation is None:
                    self._thread_runs = False
                    return
            start, seconds, line = operation
            if operation is not said and time.monotonic() - start > seconds:
                said = operation
                self._notify(line)
