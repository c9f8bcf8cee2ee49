"""Mirror the runs of a command: starts the process that sends them to W&B, prints what it says, ends it in bounded time.

Training never waits for W&B. Only the end of the command waits, for at most `END_SECONDS`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from experiments.errors import UserError
from experiments.runs.tracking import server
from experiments.runs.tracking.agent import RUN_ID, SWEEP_ID
from experiments.runs.tracking.protocol import HUNG, Options, command_for_sync, kill_children
from experiments.runs.tracking.settings import Tracking

END_SECONDS = 20.0
NOT_FOR_SEVERAL_RUNS = (RUN_ID, SWEEP_ID, "WANDB_RESUME", "WANDB_SERVICE")  # of a run that starts us


class Mirror:
    """A context manager around the training of the runs in a folder. `show` prints a line."""

    def __init__(self, tracking: Tracking, folder: Path, show: Callable[[str], None] | None = None) -> None:
        self.options = Options(Path(folder), tracking)
        self.show = show or (lambda line: print(line, file=sys.stderr, flush=True))
        self.child: subprocess.Popen[str] | None = None
        self.reader: threading.Thread | None = None
        self.ending, self.in_trouble = False, False

    def __enter__(self) -> Mirror:
        if self.options.tracking.is_on:
            self.child = start(self.options)
            self.reader = threading.Thread(target=self._read, daemon=True)
            self.reader.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.reader is None:
            return
        self.ending = True
        try:
            with contextlib.suppress(OSError):
                assert self.child is not None and self.child.stdin is not None
                self.child.stdin.close()
            self.reader.join(0 if isinstance(error, UserError) else END_SECONDS)
            if self.reader.is_alive() and not isinstance(error, UserError) and not self.in_trouble:
                self.in_trouble = True  # and `_receive` shows nothing more
                later = f"send the rest with {command_for_sync(self.options.folder)}"
                self.show(f"tracking: W&B did not take everything within {END_SECONDS:.0f} s; {later}")
        finally:  # also after a second Ctrl-C
            kill(self.child)

    def _read(self) -> None:
        """Show what the process says. If W&B hangs, or the process dies, start another one, which works offline."""
        while self.child is not None and self.child.stdout is not None:
            for line in self.child.stdout:
                self._receive(json.loads(line))
            status = self.child.wait()
            if status == 0 or self.ending or self.options.quiet:
                return
            if status != HUNG:
                self.in_trouble = True
                self.show(f"tracking: the process for W&B died (status {status}); runs are mirrored offline")
            tracking = replace(self.options.tracking, mode="offline")
            self.options = replace(self.options, tracking=tracking, quiet=True)
            kill(self.child)
            self.child = start(self.options)

    def _receive(self, message: dict[str, Any]) -> None:
        if not self.in_trouble:
            self.in_trouble = message["trouble"]
            self.show(message["say"])


def start(options: Options) -> subprocess.Popen[str]:
    """Start the process. It does not get the Ctrl-C of the terminal, and ends soon after this process does."""
    agent_set = options.tracking.agent and os.environ.get("WANDB_DIR") == os.getcwd()  # if the user did not set it
    child = _start_module("experiments.runs.tracking.process", without=("WANDB_DIR",) if agent_set else ())
    assert child.stdin is not None
    with contextlib.suppress(OSError):  # it died already; `_read` finds its status
        child.stdin.write(options.to_json() + "\n")
        child.stdin.flush()
    return child


def ask(module: str, task: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Let a module of this project do a task with W&B in a process of its own, and return its answer.

    What libraries print is left out. Raises `server.Unreachable` where the process fails or takes longer than `seconds`. The
    module calls `protocol.answer`.
    """
    child = _start_module(module)
    try:
        out, _ = child.communicate(json.dumps(task) + "\n", timeout=seconds)
    except subprocess.TimeoutExpired:
        raise server.Unreachable(f"{server.base_url()} did not answer") from None
    finally:
        kill(child)
    if not out:
        raise server.Unreachable(f"the process for W&B died (status {child.returncode})")
    answer: dict[str, Any] = json.loads(out.splitlines()[-1])
    if "error" in answer:
        raise server.Unreachable(answer["error"])
    return answer


def _start_module(name: str, without: Collection[str] = ()) -> subprocess.Popen[str]:
    """Start a module of this project as a process in a session of its own, with pipes. `without`: variables it lacks."""
    hidden = {*NOT_FOR_SEVERAL_RUNS, *without}
    environment = {key: value for key, value in os.environ.items() if key not in hidden}
    root = str(Path(__file__).resolve().parents[3])
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, "-m", name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**environment, "PYTHONPATH": path},
        start_new_session=True,
    )


def kill(child: subprocess.Popen[str] | None) -> None:
    """End the process, if it has not ended."""
    if child is None:
        return
    if child.poll() is None:
        kill_children(child.pid)
        with contextlib.suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(child.pid, signal.SIGKILL)
            else:
                child.kill()
    child.wait()
