"""The engine of one machine: a worker is a spawned process with a pipe. It ends with the process that started it."""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import signal
import sys
import threading
from collections.abc import Sequence
from multiprocessing import active_children, get_context
from multiprocessing.connection import Connection, wait
from typing import cast

from experiments.cli import INTERRUPTS
from experiments.compared import RunSpec
from experiments.devices import CORES
from experiments.errors import UserError, writing
from experiments.files import open_own
from sweeps.engines.contract import Event, Failed, Slot, Task, Training, failure, redirect_output

# To a worker: runs to train; whether to prune the run of an epoch; None: end.
Message = list[RunSpec] | bool | None
END_SECONDS = 10.0  # that an idle worker has to end
OUT_OF_MEMORY = " (killed by SIGKILL: possibly out of memory)"


@atexit.register  # after `multiprocessing`, so it is called before that waits for workers that an interrupt has left
def _kill_workers() -> None:
    for worker in active_children():
        worker.kill()


def local_slots(device: str = "auto", workers: int | None = None) -> list[Slot]:
    """The slots of this machine: on a CPU one per core, with one thread each; else one per GPU.

    `workers` is another number of workers in all. Workers on one GPU divide its free memory. Raises `UserError` for a
    device that is not available.
    """
    from experiments.runs.run import pick_device

    picked = pick_device(device)
    if picked.type != "cuda":
        on_cpu = picked.type == "cpu"
        count = workers or (CORES if on_cpu else 1)
        return [Slot(device, 1 if on_cpu else None)] * count
    import torch

    gpus = [device] if ":" in device else [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    count = workers or len(gpus)
    return [Slot(gpus[i % len(gpus)]) for i in range(count)]


class LocalEngine:
    """Workers on this machine, at most one for each slot. See `contract.Engine`."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self.slots = list(slots)
        self.free = list(range(len(slots)))  # numbers of slots without a worker
        self.on_gpu = slots[0].threads is None
        devices = dict.fromkeys("the CPU" if slot.threads else slot.device for slot in slots)
        self.where = " and ".join(devices)
        self.workers: list[LocalWorker] = []

    @property
    def room(self) -> int:
        return len(self.free)

    @property
    def places(self) -> int:
        return len(self.free) + len(self.workers)

    def begin(self, task: Task) -> None:
        self._end_all(END_SECONDS)
        with writing(task.log):
            os.close(open_own(task.log))  # here, because a worker could not say it
        self.task = task

    def start(self) -> LocalWorker:
        place = self.free.pop(0)
        worker = LocalWorker(self, place, self.task, self.slots[place])
        self.workers.append(worker)
        return worker

    def events(self, seconds: float) -> list[tuple[LocalWorker, Event]]:
        pipes = {worker.pipe: worker for worker in self.workers}
        ready = wait(list(pipes), seconds) if pipes else []
        return [(worker, worker.receive()) for pipe, worker in pipes.items() if pipe in ready]

    def _end_all(self, seconds: float) -> None:
        for worker in self.workers if seconds else ():
            worker.send(None)  # it ends when it is idle
        for worker in list(self.workers):
            worker.stop(seconds)

    def __enter__(self) -> LocalEngine:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._end_all(0.0 if kind else END_SECONDS)


class LocalWorker:
    """This process's end of a worker. See `contract.Worker`."""

    def __init__(self, engine: LocalEngine, place: int, task: Task, slot: Slot) -> None:
        self.engine, self.place = engine, place
        spawn = get_context("spawn")
        self.pipe, theirs = spawn.Pipe()
        self.process = spawn.Process(target=worker_main, args=(theirs, task, slot), daemon=True)
        self.process.start()
        theirs.close()  # so that reading ends when the worker dies
        self.name = f"worker {self.process.pid}"

    def train(self, runs: Sequence[RunSpec]) -> None:
        self.send(list(runs))

    def answer(self, prune: bool) -> None:
        self.send(prune)

    def send(self, message: Message) -> None:
        """Send a message through the pipe."""
        with contextlib.suppress(OSError):  # the worker is dead; `receive` reports it
            self.pipe.send(message)

    def receive(self) -> Event:
        """The next event; `Failed` where the worker is dead."""
        try:
            event: Event = self.pipe.recv()
            return event
        except (EOFError, OSError):
            self.process.join(END_SECONDS)
            code = self.process.exitcode
            return Failed(f"the worker ended with status {code}{OUT_OF_MEMORY * (code == -signal.SIGKILL)}")

    def stop(self, seconds: float = 0.0, replace: bool = True) -> None:
        if seconds:
            self.process.join(seconds)
        self.process.kill()
        self.process.join()
        self.pipe.close()
        self.engine.workers.remove(self)
        if replace:
            self.engine.free.append(self.place)


def worker_main(pipe: Connection, task: Task, slot: Slot) -> None:
    """The main function of a worker: train what arrives, until None or a failure."""
    for name in ("SIGINT", *INTERRUPTS):  # they reach every process of the group; the driver handles them
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(pipe, inbox), daemon=True).start()
    try:
        redirect_output(task)
    except UserError as error:
        pipe.send(failure(error))
        sys.exit(1)
    training = Training(task, slot)
    while (message := inbox.get()) is not None:
        if not training.train(cast("list[RunSpec]", message), pipe.send, lambda: inbox.get() is True):
            sys.exit(1)  # the next runs get a fresh process


def _listen(pipe: Connection, inbox: queue.SimpleQueue[Message]) -> None:
    """Pass messages on. If the driver dies, or a message cannot be read, exit at once, even during training."""
    while True:
        try:
            inbox.put(pipe.recv())
        except Exception:
            os._exit(1)
