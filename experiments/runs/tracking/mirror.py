"""Start the process that sends runs to W&B beside a command that trains them, and end it in bounded time.

Training never waits for W&B. Only the end of the command waits, for at most `END_SECONDS`.
"""

import contextlib
import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired
from typing import Self

from experiments.errors import UserError, say
from experiments.runs import record
from experiments.runs.tracking.notes import FOLDER, changed_runs, lacking
from experiments.runs.tracking.settings import OF_AGENT, Tracking, check_settings

END_SECONDS = 20.0


@dataclass
class Mirror:
    """A context manager around the training of runs in a folder: sends them to W&B.

    `runs`: their names; without names, the runs that begin, go on or end while it is open. `alert`: have W&B alert the
    user at the end. `show` prints a line; None: to standard error. That W&B is off is said before a folder's first run.
    """

    tracking: Tracking
    folder: Path
    runs: Sequence[str] = ()
    _: KW_ONLY
    alert: bool = False
    show: Callable[[str], None] | None = None

    def __enter__(self) -> Self:
        self.since = time.time() - 1.0  # times of files are rounded
        self.sync = f"vit-sweep sync {shlex.quote(str(self.folder))}"
        if self.tracking.is_on:
            check_settings()  # the process that sends would say it, and training would go on
        self.sender = self._start() if self.tracking.is_on else None
        if self.sender:
            self.listener = threading.Thread(target=self._listen, args=[self.sender], daemon=True)
            self.listener.start()
        elif self.tracking.mode == "auto" and not os.environ.get("WANDB_MODE") and not changed_runs(self.folder):
            now = f"`--tracking offline` and `wandb leet {shlex.quote(str(self.folder / FOLDER))}` show curves now"
            self._show(f"off, no W&B API key is configured; `{self.sync}` sends runs later; {now}")
        return self

    def __exit__(self, *_: object) -> None:
        if not self.sender:
            return
        names = self.runs or changed_runs(self.folder, self.since)
        begun = [run for run in names if (self.folder / run / record.CONFIG).exists()]
        try:
            if begun:
                self.sender.terminate()
                self.sender.wait(END_SECONDS)
        except TimeoutExpired:
            pass
        finally:  # also after a second Ctrl-C
            self.sender.kill()  # wandb's own process then ends by itself
            self.sender.wait()
        self.listener.join(1.0)
        with contextlib.suppress(UserError):  # of a record that cannot be read, the command says it
            if missing := lacking(self.folder, begun, self.tracking.agent):
                self._show(f"W&B lacks {len(missing)} of {len(begun)} runs; send them with `{self.sync}`")

    def _start(self) -> Popen[str]:
        """Start the process. It does not get the Ctrl-C of the terminal."""
        hidden = {"VIT_PLUGINS", *(() if self.tracking.agent else OF_AGENT)}  # plug-ins import torch
        kept = {name: value for name, value in os.environ.items() if name not in hidden}
        environment = {**kept, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        place = {"tracking": self.tracking.wandb_mode, "project": self.tracking.project, "entity": self.tracking.entity}
        options = [f"--{flag}={value}" for flag, value in place.items() if value is not None] + ["--alert"] * self.alert
        words = [f"--beside={os.getpid()}:{self.since}", *options, "--", str(self.folder)]
        words += [f"run={run}" for run in self.runs]
        command = [sys.executable, "-P", "-m", "experiments.runs.tracking", "--follow", *words]
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # inherited: see `sync`
        try:
            return Popen(
                command, env=environment, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, text=True, start_new_session=True
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)

    def _listen(self, sender: Popen[str]) -> None:
        for line in sender.stdout or ():
            self._show(line.strip())

    def _show(self, line: str) -> None:
        (self.show or partial(say, error=True))(f"tracking: {line}")
