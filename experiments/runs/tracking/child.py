"""A process that uses wandb. Nothing that W&B does, or fails to do, reaches the command that starts it.

The command writes a task to its standard input, one JSON object in a line; the process writes messages to its standard
output in the same way.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from experiments.runs.tracking import server
from experiments.runs.tracking.settings import OF_AGENT

Tell = Callable[..., None]  # sends a message: its fields as keywords
NOT_FOR_SEVERAL_RUNS = {*OF_AGENT, "WANDB_RESUME", "WANDB_SERVICE"}


def start(module: str, task: Mapping[str, Any]) -> subprocess.Popen[str]:
    """Start a module of this project, which calls `serve`, with a task.

    The process does not get the Ctrl-C of the terminal. What libraries print is left out.
    """
    of_user = os.environ.get("WANDB_DIR") != os.getcwd()  # an agent sets it, too
    hidden = NOT_FOR_SEVERAL_RUNS if of_user else {*NOT_FOR_SEVERAL_RUNS, "WANDB_DIR"}
    path = [str(Path(__file__).resolve().parents[3]), *filter(None, [os.environ.get("PYTHONPATH")])]
    child = subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**{k: v for k, v in os.environ.items() if k not in hidden}, "PYTHONPATH": os.pathsep.join(path)},
        start_new_session=True,
    )
    write_line(child, json.dumps(task))
    return child


def write_line(child: subprocess.Popen[str], line: str) -> None:
    """Write a line to the process. If it has died, its reader notices."""
    assert child.stdin is not None
    with contextlib.suppress(OSError):
        child.stdin.write(line + "\n")
        child.stdin.flush()


def close(child: subprocess.Popen[str]) -> None:
    """Close the input of the process, which ends it."""
    assert child.stdin is not None
    with contextlib.suppress(OSError):
        child.stdin.close()


def ask(module: str, task: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """The answer of a module to a task: its last message. Raises `Unreachable`, after `seconds` at the latest."""
    child = start(module, task)
    try:
        out, _ = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise server.Unreachable(f"{server.base_url()} did not answer") from None
    finally:
        kill(child)
    answer: dict[str, Any] = json.loads((out.splitlines() or ['{"error": "the process for W&B died"}'])[-1])
    if "error" in answer:
        raise server.Unreachable(answer["error"])
    return answer


def kill(child: subprocess.Popen[str]) -> None:
    """End the process and wandb's own, if they have not ended."""
    if child.poll() is None:
        _kill_children(child.pid)
        with contextlib.suppress(OSError):
            child.kill()
    child.wait()


def serve(work: Callable[[dict[str, Any], Tell], None]) -> NoReturn:
    """Be the process: do the work for the task. An error becomes the message `error`."""
    out, null = os.dup(sys.stdout.fileno()), os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(null, stream.fileno())
    os.environ["WANDB_SILENT"] = "true"

    def tell(**message: Any) -> None:
        with contextlib.suppress(OSError):  # the command has died
            os.write(out, (json.dumps(message) + "\n").encode())

    try:
        work(json.loads(sys.stdin.readline()), tell)
    except Exception as error:  # of any family: wandb raises many
        tell(error=server.brief(error))
        _end(1)
    _end(0)


@contextlib.contextmanager
def limit(seconds: float, tell: Tell) -> Iterator[None]:
    """Let the body take this many seconds; then end the process with an error."""

    def give_up() -> None:
        tell(error=f"W&B did not answer for {seconds:.0f} s")
        _end(1)

    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _end(status: int) -> NoReturn:
    """End this process without wandb's own exit, which waits for a server that does not answer."""
    _kill_children(os.getpid())
    os._exit(status)


def _kill_children(pid: int) -> None:
    """Kill the child processes of a process, where /proc lists them: wandb's own would go on for a minute."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = path.read_text().rpartition(")")[2].split()[1]
            if parent == str(pid):
                os.kill(int(path.parent.name), signal.SIGKILL)
