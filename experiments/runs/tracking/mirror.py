"""Start `vit-sweep sync --follow` beside a command that trains runs, and end it in bounded time.

Training never waits for W&B. Only the end of the command waits, for at most `END_SECONDS`.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from types import TracebackType

from experiments.errors import UserError
from experiments.runs import record
from experiments.runs.tracking.server import kill_wandb
from experiments.runs.tracking.settings import LEFT, OF_AGENT, SYNC, Tracking

END_SECONDS = 20.0
MAX_TITLE = 63  # characters of an alert, a limit of W&B


class Mirror:
    """A context manager around the training of runs in a folder. `show` prints a line."""

    def __init__(
        self,
        tracking: Tracking,
        folder: Path,
        runs: Any = (),
        *,
        alert: bool = False,
        show: Callable[[str], None] | None = None,
    ) -> None:
        self.tracking, self.folder = tracking, Path(folder)
        self.show = show or (lambda line: print(line, file=sys.stderr, flush=True))
        self.runs: dict[str, bool | None] = {}  # run -> whether W&B has all of it; None: see `leave`
        self.sender: subprocess.Popen[str] | None = None
        self.thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> Mirror:
        return self

    def follow(self, run: str) -> None:
        """Send a run from now on: its epochs as they are recorded, and all of it when it has ended."""
        if not self.tracking.is_on or self.runs.get(run) is not None:
            return
        self.runs[run] = False
        if self.sender is None:
            self.sender = self._start()
            self.thread.start()
        self._tell(run)

    def leave(self, run: str) -> None:
        """Close the W&B run of a run that is no longer trained here and has no record: others may train it."""
        if self.runs.get(run) is not None and not record.is_finished(self.folder / run):
            self.runs[run] = None
            self._tell(f"{run}\t{LEFT}")

    def alert(self, level: str, title: str, text: str) -> None:
        """Have W&B alert the user, beside the last of the runs that have begun. Without one there is no alert."""
        left_first = sorted(self.runs, key=lambda run: self.runs[run] is not None)
        begun = [run for run in left_first if (self.folder / run / record.CONFIG).exists()]
        if begun:
            self._tell("\t".join([begun[-1], level, title[:MAX_TITLE], text]))

    def _tell(self, line: str) -> None:
        assert self.sender and self.sender.stdin
        with contextlib.suppress(OSError):  # it has died, or reads no more
            os.set_blocking(self.sender.stdin.fileno(), False)
            self.sender.stdin.write(f"{line}\n")
            self.sender.stdin.flush()

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not (self.sender and self.sender.stdin):
            return
        with contextlib.suppress(OSError):
            self.sender.stdin.close()
        try:
            self.thread.join(0 if isinstance(error, UserError) else END_SECONDS)
        finally:  # also after a second Ctrl-C
            if self.sender.poll() is None:
                kill_wandb(self.sender.pid)
                self.sender.kill()
            self.sender.wait()
        missing = [run for run in self.runs if self.runs[run] is False and record.is_finished(self.folder / run)]
        if missing:
            later = f"send them with `{SYNC} {shlex.quote(str(self.folder))}`"
            self.show(f"tracking: W&B lacks {len(missing)} of {len(self.runs)} runs; {later}")

    def _start(self) -> subprocess.Popen[str]:
        """Start the process. It does not get the Ctrl-C of the terminal."""
        hidden = {"VIT_PLUGINS"}  # they import torch, which reading records does not need
        if not self.tracking.agent:
            hidden.update(OF_AGENT)
        path = [str(Path(__file__).resolve().parents[3]), *filter(None, [os.environ.get("PYTHONPATH")])]
        place = {"--tracking": self.tracking.mode, "--project": self.tracking.project, "--entity": self.tracking.entity}
        options = [f"{flag}={value}" for flag, value in place.items() if value is not None]
        words = ["sync", "--follow", "--stdin", *options, "--", str(self.folder)]
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "sweeps.main", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**{k: v for k, v in os.environ.items() if k not in hidden}, "PYTHONPATH": os.pathsep.join(path)},
            start_new_session=True,
        )

    def _listen(self) -> None:
        """Show what the process says."""
        assert self.sender and self.sender.stdout
        for line in map(str.strip, self.sender.stdout):
            if line in self.runs:
                self.runs[line] = True
            else:
                self.show(f"tracking: {line}")
