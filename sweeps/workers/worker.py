"""A worker: a process that trains the runs it receives through a pipe, and ends with the sweep at its other end."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.cli import INTERRUPTS
from experiments.errors import TakenOver, UserError
from experiments.files import FolderDeletedError
from experiments.study import RunSpec
from sweeps.queue.process import process_info

if TYPE_CHECKING:
    import torch

    from experiments.config import RunConfig
    from experiments.data.images import Splits
    from sweeps.queue.queue import Assignment  # a worker does not import Optuna

# To a worker: runs and the study's folder; whether to prune the run of a row, with `WorkerConfig.tuning`; None: end.
Message = tuple[list[RunSpec], Path] | bool | None
SHUTDOWN_TIMEOUT = 10.0  # seconds that it has for that


@dataclass(frozen=True)
class WorkerConfig:
    """What a worker needs beside its runs. Workers of one sweep differ only in device and memory share."""

    device: str
    log: Path  # gets what libraries print, which would disturb the progress display
    threads: int | None = None  # of torch; None: torch's default
    memory_share: float = 1.0  # of the GPU's free memory, for stacked runs
    test: bool = True  # whether finished runs are evaluated on test images
    tuning: bool = False  # after each epoch wait for the answer whether to prune the run


def worker_configs(log: Path, *, device: str = "auto", workers: int | None = None) -> list[WorkerConfig]:
    """The configuration of each worker: on a CPU one per core, with one thread each; else one per visible GPU.

    `workers` is another number of workers in all. Workers on one GPU divide its free memory. Raises `UserError` for a
    device that is not available.
    """
    from experiments.runs.run import pick_device

    picked = pick_device(device)
    if picked.type != "cuda":
        on_cpu = picked.type == "cpu"
        count = workers or (_cores() if on_cpu else 1)
        return [WorkerConfig(device, log, 1 if on_cpu else None)] * count
    import torch

    gpus = [device] if picked.index is not None else [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    count = workers or len(gpus)
    devices = [gpus[i % len(gpus)] for i in range(count)]
    return [WorkerConfig(gpu, log, memory_share=1 / devices.count(gpu)) for gpu in devices]


def _cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Worker:
    """The sweep's end of the pipe: a spawned process, and the assignments it is working on."""

    def __init__(self, config: WorkerConfig) -> None:
        self.config = config
        spawn = get_context("spawn")
        self.pipe, theirs = spawn.Pipe()
        self.process = spawn.Process(target=work, args=(theirs, config), daemon=True)
        self.process.start()
        theirs.close()  # so that reading ends when the worker dies
        assert self.process.pid is not None  # it has been started
        self.info = process_info(self.process.pid)
        self.assignments: list[Assignment] = []  # in training
        self.upcoming: list[Assignment] = []  # trained next
        self.since, self.longest = 0.0, 0.0  # time of its last epoch, and the seconds of its longest one; 0: none yet
        self.failed: set[str] = set()  # runs that failed here one after another, also in workers that this one replaces

    def send(self, message: Message) -> None:
        """Send runs, which are trained as one cohort after those in training, or another message."""
        with contextlib.suppress(OSError):  # the worker is dead; `receive` reports it
            self.pipe.send(message)

    def receive(self) -> tuple[Any, ...]:
        """The next message, as `work` describes it; `("died", reason)` if the worker is dead."""
        try:
            return self.pipe.recv()
        except (EOFError, OSError):
            self.process.join(SHUTDOWN_TIMEOUT)
            return "died", _exit_reason(self.process.exitcode)

    def stop(self, timeout: float = 0.0) -> None:
        """Wait up to `timeout` seconds for the worker to end, then kill it."""
        if timeout:
            self.process.join(timeout)
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _exit_reason(exitcode: int | None) -> str:
    if exitcode is not None and exitcode < 0:
        name = signal.Signals(-exitcode).name
        return f"the worker was killed by {name}" + (" (possibly out of memory)" if name == "SIGKILL" else "")
    return f"the worker exited with status {exitcode}"


def work(pipe: Connection, config: WorkerConfig) -> None:
    """The main function of a worker: train what arrives, until None.

    It sends ("row", index of the run, row) after each epoch, then ("done",) or ("failed", whether the user has to fix
    it, error in one line, traceback). With `config.tuning` each row gets an answer.
    """
    for name in ("SIGINT", *INTERRUPTS):  # they reach every process of the group; the sweep handles them
        if hasattr(signal, name):  # Windows has fewer
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(pipe, inbox), daemon=True).start()
    log = os.open(config.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(log, stream.fileno())
    if config.threads:
        os.environ["OMP_NUM_THREADS"] = str(config.threads)
    import torch

    from experiments.runs.run import train

    if config.threads:
        torch.set_num_threads(config.threads)
    datasets = Datasets()

    def on_row(index: int, row: dict[str, float]) -> bool:
        pipe.send(("row", index, row))
        return config.tuning and inbox.get() is True

    while isinstance(message := inbox.get(), tuple):
        runs, study_dir = message
        try:
            if config.tuning:
                _ask_again(study_dir / runs[0].name, on_row)
            train(
                runs,
                study_dir,
                device=config.device,
                memory_share=config.memory_share,
                on_row=on_row,
                load=datasets.load,
                test=config.test,
            )
        except BaseException as error:
            line = " ".join(f"{type(error).__name__}: {error}".split())[:500]
            users = isinstance(error, UserError) and not isinstance(error, TakenOver | FolderDeletedError)
            # others are no bad input: another attempt may succeed
            pipe.send(("failed", users, str(error) if users else line, traceback.format_exc()))
            raise  # the process ends; the next runs get a fresh one
        pipe.send(("done",))


def _listen(pipe: Connection, inbox: queue.SimpleQueue[Message]) -> None:
    """Pass messages on. If the sweep dies, or a message cannot be read, exit at once, even during training."""
    while True:
        try:
            inbox.put(pipe.recv())
        except Exception:
            os._exit(1)


class Datasets:
    """The last two datasets of a worker. Runs with equal data share them."""

    def __init__(self) -> None:
        self._kept: dict[Any, Splits] = {}

    def load(self, config: RunConfig, device: torch.device) -> Splits:
        """The splits of a run's dataset on the device. Raises `UserError`."""
        from experiments.data import loading

        key = config.data, config.split_seed, config.model.patch_size  # patches may be shuffled
        if key not in self._kept:
            for old in list(self._kept)[:-1]:
                del self._kept[old]
            self._kept[key] = loading.load(config).to(device)
        return self._kept[key]


def _ask_again(run_dir: Path, on_row: Callable[[int, dict[str, float]], bool]) -> None:
    """Ask about the last epoch of an interrupted run, whose answer may be lost. A run to prune is noted as pruned."""
    from experiments.runs import resume

    note, state = resume.read(run_dir) or ({"rows": []}, {})
    if note["rows"] and note["status"] == "running" and on_row(0, note["rows"][-1]):
        resume.write(run_dir, {**note, "status": "pruned"}, state)
