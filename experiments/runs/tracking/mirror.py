"""Start the process that sends runs to W&B, and end it in bounded time.

Training never waits for W&B. Only the end of the command waits, for at most `END_SECONDS`.
"""

from __future__ import annotations

import shlex
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from experiments.errors import UserError
from experiments.runs import record
from experiments.runs.tracking.process import WandbProcess
from experiments.runs.tracking.sender import follow
from experiments.runs.tracking.settings import Tracking
from experiments.runs.tracking.wandb_run import wandb_folder

END_SECONDS = 20.0
RETRY_SECONDS = 30.0  # between two processes
SWITCH = "switch off with --tracking off"


class Mirror:
    """A context manager around the training of runs in a folder. `show` prints a line. `hint`: how to do without."""

    def __init__(
        self, tracking: Tracking, folder: Path, show: Callable[[str], None] | None = None, hint: str = SWITCH
    ) -> None:
        self.tracking, self.folder, self.hint = tracking, Path(folder), hint
        self.show = show or (lambda line: print(line, file=sys.stderr, flush=True))
        self.runs: dict[str, bool] = {}  # run -> whether W&B has all of it
        self.sender: WandbProcess | None = None
        self.thread = threading.Thread(target=self._supervise, daemon=True)
        self.lock, self.ending = threading.Lock(), threading.Event()
        self.later = f"send them with `vit-sweep sync {shlex.quote(str(folder))}`"

    def __enter__(self) -> Mirror:
        return self

    def follow(self, run: str) -> None:
        """Send a run from now on: its epochs as they are recorded, and all of it when it has ended."""
        if not self.tracking.is_on or run in self.runs:
            return
        with self.lock:
            self.runs[run] = False
            if self.sender:
                self.sender.send(run)
            else:
                self._start()
                self.thread.start()

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.sender is None:
            return
        with self.lock:
            self.ending.set()
            self.sender.send(None)
        try:
            self.thread.join(0 if isinstance(error, UserError) else END_SECONDS)
        finally:  # also after a second Ctrl-C
            self.sender.kill()
        missing = [run for run, is_sent in self.runs.items() if not is_sent and record.is_finished(self.folder / run)]
        if missing:
            self.show(f"tracking: W&B lacks {len(missing)} of {len(self.runs)} runs; {self.later}")

    def _start(self) -> None:
        self.sender = WandbProcess(follow, self.folder, self.tracking, [run for run in self.runs if not self.runs[run]])

    def _supervise(self) -> None:
        """Show what the process says, one line of each kind. Where it ends before the command does, start another one."""
        told = set[str]()
        while self.sender:
            for kind, content, *_ in self.sender.messages():
                if kind == "run":
                    self.runs[content] = True
                elif kind not in told:
                    told.add(kind)
                    self.show(f"tracking: {self._text(kind, content)}")
            self.sender.kill()
            self.ending.wait(RETRY_SECONDS)
            with self.lock:
                if self.ending.is_set():
                    return
                self._start()

    def _text(self, kind: str, content: str) -> str:
        if kind == "error":
            return f"W&B cannot be used ({content}); training goes on"
        offline = f"offline, in {wandb_folder(self.folder)}; {self.later}"
        return (
            f"runs are mirrored to Weights & Biases {offline if content == 'offline' else f'at {content}'}; {self.hint}"
        )
