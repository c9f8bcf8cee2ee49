"""Mirror the runs that a command trains: starts the process that sends them, ends it in bounded time.

Training never waits for W&B. Only the end of the command waits, for at most `END_SECONDS`.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from experiments.errors import UserError
from experiments.runs import record
from experiments.runs.tracking import child, send
from experiments.runs.tracking.settings import Tracking

END_SECONDS = 20.0
RETRY_SECONDS = 30.0  # between two processes


class Mirror:
    """A context manager around the training of runs in a folder. `show` prints a line."""

    def __init__(self, tracking: Tracking, folder: Path, show: Callable[[str], None] | None = None) -> None:
        self.tracking, self.folder = tracking, Path(folder)
        self.show = show or (lambda line: print(line, file=sys.stderr, flush=True))
        self.runs: dict[str, bool] = {}  # run -> whether W&B has all of it
        self.process: subprocess.Popen[str] | None = None
        self.thread = threading.Thread(target=self._supervise, daemon=True)
        self.lock, self.ending = threading.Lock(), threading.Event()
        self.told: set[str] = set()  # kinds of messages
        self.later = f"send them with `vit-sweep sync {shlex.quote(str(folder))}`"

    def __enter__(self) -> Mirror:
        return self

    def follow(self, run: str) -> None:
        """Send a run from now on: its epochs as they are recorded, and all of it when it has ended."""
        with self.lock:
            if not self.tracking.is_on or run in self.runs:
                return
            self.runs[run] = False
            if self.process is None:
                self._start()
                self.thread.start()
            else:
                child.write_line(self.process, run)

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.process is None:
            return
        with self.lock:
            self.ending.set()
            child.close(self.process)
        try:
            self.thread.join(0 if isinstance(error, UserError) else END_SECONDS)
        finally:  # also after a second Ctrl-C
            child.kill(self.process)
        missing = [run for run, is_sent in self.runs.items() if not is_sent and record.is_finished(self.folder / run)]
        if missing:
            self.show(f"tracking: W&B lacks {len(missing)} of {len(self.runs)} runs; {self.later}")

    def _start(self) -> None:
        self.process = send.start(self.folder, self.tracking)
        for run, is_sent in self.runs.items():
            if not is_sent:
                child.write_line(self.process, run)

    def _supervise(self) -> None:
        """Show what the process says. Where it ends before the command does, start another one after a pause."""
        while self.process is not None and self.process.stdout is not None:
            for line in self.process.stdout:
                self._receive(json.loads(line))
            if not self.ending.is_set():
                self._say("error", "W&B cannot be used (its process died); training goes on")
            child.kill(self.process)
            if self.ending.wait(RETRY_SECONDS):
                return
            with self.lock:
                if not self.ending.is_set():
                    self._start()

    def _receive(self, message: dict[str, Any]) -> None:
        if "error" in message:
            self._say("error", f"W&B cannot be used ({message['error']}); training goes on")
        elif "run" in message:
            self.runs[message["run"]] = True
        else:
            offline = f"offline, in {message['folder']}; {self.later}"
            where = offline if message["where"] == send.OFFLINE else f"at {message['where']}"
            self._say("where", f"runs are mirrored to Weights & Biases {where}; switch off with --tracking off")

    def _say(self, kind: str, text: str) -> None:
        """Show a line, one of each kind."""
        if kind not in self.told:
            self.told.add(kind)
            self.show(f"tracking: {text}")
