"""What the process for W&B and the command that starts it have in common: options, messages, time limits."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from experiments.runs.tracking import server
from experiments.runs.tracking.agent import AgentRun
from experiments.runs.tracking.settings import Tracking

HUNG = 3  # the exit status of this process where W&B did not return
EXTRA_SECONDS = 5.0  # beyond wandb's own time limits
OTHER_SECONDS = 20.0  # for calls without a time limit of their own


@dataclass(frozen=True)
class Options:
    """What the process is to do. `sync`: the runs to send from their records; None: follow the runs in training."""

    folder: Path
    tracking: Tracking
    quiet: bool = False  # the user has been told already where runs are mirrored
    sync: list[dict[str, Any]] | None = None

    def to_json(self) -> str:
        """One line of text, for `from_json`."""
        return json.dumps({**asdict(self), "folder": str(self.folder)})

    @classmethod
    def from_json(cls, text: str) -> Options:
        """The options in a line of text."""
        values = json.loads(text)
        agent = values["tracking"].pop("agent")
        tracking = Tracking(**values["tracking"], agent=AgentRun(**agent) if agent else None)
        return cls(Path(values["folder"]), tracking, quiet=values["quiet"], sync=values["sync"])


class Messages:
    """Messages to the command."""

    def __init__(self) -> None:
        self.handle = os.dup(sys.stdout.fileno())
        null = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):  # what libraries print
            os.dup2(null, stream.fileno())

    def send(self, **message: Any) -> None:
        """Send a message. If the command has died, nobody needs it."""
        with suppress(OSError):
            os.write(self.handle, (json.dumps(message) + "\n").encode())

    def say(self, text: str, trouble: bool = True) -> None:
        """Send a line that the user sees. After one about trouble, the user sees no other."""
        self.send(say=text, trouble=trouble)


def answer(handle: Callable[[dict[str, Any]], dict[str, Any]]) -> NoReturn:
    """Be the process that `mirror.ask` starts: read its task, send what `handle` returns, or the reason of a failure."""
    messages = Messages()
    task = json.loads(sys.stdin.readline())
    os.environ["WANDB_SILENT"] = "true"
    try:
        messages.send(**handle(task))
    except server.Unreachable as error:
        messages.send(error=str(error))
    except Exception as error:  # of any family: wandb raises many
        messages.send(error=server.brief(error))
    end(0)


class Watchdog:
    """Ends the process where a call does not return in time."""

    def __init__(self, messages: Messages, hint: str) -> None:
        self.messages, self.hint = messages, hint
        self.deadline, self.seconds = float("inf"), 0.0
        threading.Thread(target=self._watch, daemon=True).start()

    @contextmanager
    def limit(self, seconds: float) -> Iterator[None]:
        """Let the body take this many seconds."""
        self.seconds, self.deadline = seconds, time.monotonic() + seconds
        try:
            yield
        finally:
            self.deadline = float("inf")

    def _watch(self) -> None:
        while True:
            time.sleep(0.25)
            if time.monotonic() > self.deadline:
                self.messages.say(f"tracking: W&B did not answer for {self.seconds:.0f} s; {self.hint}")
                end(HUNG)


def end(status: int) -> NoReturn:
    """End this process without wandb's own exit, which waits for a server that does not answer."""
    kill_children(os.getpid())
    os._exit(status)


def kill_children(pid: int) -> None:
    """Kill the child processes of a process, where /proc lists them: wandb's own would go on for a minute."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = path.read_text().rpartition(")")[2].split()[1]
            if parent == str(pid):
                os.kill(int(path.parent.name), signal.SIGKILL)


def command_for_sync(folder: Path) -> str:
    """The command that sends the runs of a folder."""
    return f"`vit-sweep sync {shlex.quote(str(folder))}`"
