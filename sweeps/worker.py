"""The process that trains: it takes jobs from a pipe, one by one, and dies with the sweep at the pipe's other end."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import sys
import threading
import traceback
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.errors import TakenOver, UserError
from sweeps.process import owner

if TYPE_CHECKING:
    from experiments.runs.spec import RunSpec
    from sweeps.queue import Claim  # a worker needs no Optuna

GO_HOME = b""  # the message after which a worker ends by itself
PATIENCE = 10.0  # seconds that it may take for that: W&B may have something left to send


@dataclass(frozen=True)
class Duty:
    """What every job of a sweep has in common."""

    study: str
    device: str
    tracking: str
    threads: int | None  # torch's, or None to leave them
    log: Path  # gets what libraries print, which would spoil the display


class Worker:
    """The sweep's end: a spawned process, and the claims it is at work on."""

    def __init__(self, duty: Duty) -> None:
        spawn = get_context("spawn")
        self.pipe, theirs = spawn.Pipe()
        self.process = spawn.Process(target=work, args=(theirs, duty), daemon=True)
        self.process.start()
        theirs.close()  # so that a worker's death ends our reading
        self.owner = owner(self.process.pid)
        self.claims: list[Claim] = []

    def give(self, claims: list[Claim], study_dir: Path) -> None:
        """Have the claims trained as one cohort."""
        self.claims = claims
        parts = [claim.run for claim in claims], study_dir
        with contextlib.suppress(OSError):  # it has died: its silence will be heard
            self.pipe.send_bytes(pickle.dumps(parts))

    def hear(self) -> tuple[Any, ...]:
        """The next message; `("died", why)` where there will be none."""
        try:
            return self.pipe.recv()
        except (EOFError, OSError):
            self.process.join(PATIENCE)
            return "died", _fate(self.process.exitcode)

    def send_home(self) -> None:
        """Ask it to end; `stop` waits for it."""
        with contextlib.suppress(OSError):
            self.pipe.send_bytes(GO_HOME)

    def stop(self, patience: float = 0.0) -> None:
        """End it, at the latest after `patience` seconds."""
        if patience:
            self.process.join(patience)
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _fate(exitcode: int | None) -> str:
    if exitcode is not None and exitcode < 0:
        name = signal.Signals(-exitcode).name
        return f"the worker was killed by {name}" + (", perhaps for want of memory" if name == "SIGKILL" else "")
    return f"the worker ended with status {exitcode}"


def work(pipe: Connection, duty: Duty) -> None:
    """A worker's whole life. It says ("row", i, row), ("done",), ("failed", the user's to mend?, line, traceback)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the sweep decides what it means
    inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(pipe, inbox), daemon=True).start()
    log = os.open(duty.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(log, stream.fileno())
    if duty.threads:
        os.environ["OMP_NUM_THREADS"] = str(duty.threads)
    import torch

    if duty.threads:
        torch.set_num_threads(duty.threads)
    while (message := inbox.get()) != GO_HOME:
        _train(pipe, duty, *pickle.loads(message))


def _listen(pipe: Connection, inbox: queue.SimpleQueue[bytes]) -> None:
    """Hand on messages; when the sweep is gone, be gone at once, in the middle of whatever it is."""
    while True:
        try:
            inbox.put(pipe.recv_bytes())
        except (EOFError, OSError):
            os._exit(1)


def _train(pipe: Connection, duty: Duty, runs: list[RunSpec], study_dir: Path) -> None:
    from experiments.runs.run import train
    from experiments.runs.tracking import Tracking

    tracking = Tracking(duty.tracking, duty.study)
    try:
        train(runs, study_dir, device=duty.device, tracking=tracking, on_row=lambda i, row: pipe.send(("row", i, row)))
    except BaseException as error:
        line = " ".join(f"{type(error).__name__}: {error}".split())[:500]
        mine = isinstance(error, UserError) and not isinstance(error, TakenOver)  # which is no fault of the user's
        pipe.send(("failed", mine, str(error) if mine else line, traceback.format_exc()))
        raise  # and so the process ends: what follows gets a fresh one
    pipe.send(("done",))
