"""A process that uses wandb. Nothing that W&B does, or fails to do, reaches the command that starts it."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from experiments.cli import INTERRUPTS
from experiments.runs.tracking import server
from experiments.runs.tracking.settings import OF_AGENT

NOT_FOR_SEVERAL_RUNS = (*OF_AGENT, "WANDB_RESUME", "WANDB_SERVICE")
DIED = "its process died"


class WandbProcess:
    """The command's end of the pipe. `work(pipe, *arguments)`: what the process does."""

    def __init__(self, work: Callable[..., None], *arguments: Any) -> None:
        spawn = get_context("spawn")
        self.pipe, theirs = spawn.Pipe()
        self.process = spawn.Process(target=_serve, args=(work, theirs, arguments), daemon=True)
        self.process.start()
        theirs.close()  # so that reading ends when the process dies

    def send(self, message: str | None) -> None:
        """Send a message. If the process has died, its reader notices."""
        with contextlib.suppress(OSError):
            self.pipe.send(message)

    def messages(self) -> Iterator[tuple[Any, ...]]:
        """What the process says, until it ends. The last message of one that fails is ("error", reason)."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                yield self.pipe.recv()

    def kill(self) -> None:
        """End the process and wandb's own, if they have not ended."""
        if self.process.is_alive():
            _kill_children(self.process.pid)
            self.process.kill()
        self.process.join()


def tell(pipe: Connection, *message: object) -> None:
    """Send a message to the command."""
    with contextlib.suppress(OSError):  # it has died
        pipe.send(message)


def ask(seconds: float, function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function that uses wandb returns. Raises `Unreachable`, after `seconds` at the latest."""
    asked = WandbProcess(_answer, function, *arguments)
    try:
        if not asked.pipe.poll(seconds):
            raise server.Unreachable(f"{server.base_url()} did not answer")
        kind, content = next(asked.messages(), ("error", DIED))
    finally:
        asked.kill()
    if kind == "error":
        raise server.Unreachable(content)
    return content


def _answer(pipe: Connection, function: Callable[..., Any], *arguments: Any) -> None:
    tell(pipe, "answer", function(*arguments))


def _serve(work: Callable[..., None], pipe: Connection, arguments: tuple[Any, ...]) -> None:
    """The main function of the process. What libraries print is left out."""
    for name in ("SIGINT", *INTERRUPTS):  # they reach every process of the group; the command handles them
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(null, stream)
    for name in NOT_FOR_SEVERAL_RUNS:
        os.environ.pop(name, None)
    if os.environ.get("WANDB_DIR") == os.getcwd():  # set by an agent, not by the user
        del os.environ["WANDB_DIR"]
    os.environ["WANDB_SILENT"] = "true"
    try:
        work(pipe, *arguments)
    except Exception as error:  # of any family: wandb raises many
        tell(pipe, "error", server.brief(error))
    finally:
        _kill_children(os.getpid())


@contextlib.contextmanager
def limit(seconds: float) -> Iterator[None]:
    """Let the body take this many seconds; then raise `Unreachable` in it. For the process that uses wandb."""

    def give_up(*_: Any) -> None:
        raise server.Unreachable(f"W&B did not answer for {seconds:.0f} s")

    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)  # again every second, if wandb catches it
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def _kill_children(pid: int | None) -> None:
    """Kill the children of a process, where /proc lists them: wandb's own, in a session of its own, would go on for a minute."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if path.read_text().rpartition(")")[2].split()[1] == str(pid):
                os.kill(int(path.parent.name), signal.SIGKILL)
