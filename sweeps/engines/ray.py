"""The engine of a Ray cluster: a worker is an actor, with a GPU or a CPU slot of a node. It ends with the driver."""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import os
import platform
import queue
import re
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError

from experiments.cli import INTERRUPTS
from experiments.compared import RunSpec
from experiments.errors import UserError
from sweeps.engines.contract import DOWNLOAD, Event, Failed, Slot, Task, Training, failure, redirect_output
from vit.plugins import OWN_PACKAGES, VARIABLE, digest

ANSWER_SECONDS = 10.0  # that a port has to take a connection: at one where nothing listens, Ray waits without end


class RayEngine:
    """Workers on the nodes of a Ray cluster, which may join and leave. See `contract.Engine`.

    Ray places the actors. One that has started, or has died at its start, is ready: the driver gives it runs, and hears
    of its death.
    """

    def __init__(self, address: str, device: str, workers: int | None) -> None:
        if device not in ("auto", "cpu", "cuda"):
            raise UserError(f"--device: {device!r} is not allowed with --ray; allowed: auto, cpu, cuda")
        self.address = _connect(address)
        gpus = int(ray.cluster_resources().get("GPU", 0))
        self.on_gpu = device == "cuda" or (device == "auto" and gpus > 0)
        self.limit: float = workers or math.inf
        self.on_each = math.ceil(workers / gpus) if self.on_gpu and workers and gpus else 1  # workers on a GPU
        self.slot = Slot("cuda:0") if self.on_gpu else Slot("cpu", 1)
        self.where = f"the {'GPUs' if self.on_gpu else 'CPUs'} of the Ray cluster {self.address}"
        self.starting: dict[Any, RayWorker] = {}  # by the reference of what they tell first, their name
        self.ready: list[RayWorker] = []
        self.workers: list[RayWorker] = []
        self.given_up: set[int] = set()  # places that get no other worker

    @property
    def room(self) -> int:
        return len(self.ready)

    @property
    def places(self) -> int:
        return len(self._places())

    def _places(self) -> list[int]:
        size = int(ray.cluster_resources().get("GPU" if self.on_gpu else "CPU", 0)) * self.on_each
        return [place for place in range(int(min(self.limit, size))) if place not in self.given_up]

    def begin(self, task: Task) -> None:
        for worker in self._all():
            ray.kill(worker.actor)
        self.starting, self.ready, self.workers = {}, [], []
        self.given_up.clear()
        self.task = replace(task, folder=task.folder.absolute(), log=task.log.absolute())
        self._launch()

    def _all(self) -> list[RayWorker]:
        return [*self.starting.values(), *self.ready, *self.workers]

    def _launch(self) -> None:
        """Start an actor in each free place, as far as there is work."""
        taken = {worker.place for worker in self._all()}
        free = [place for place in self._places() if place not in taken]
        for place in free[: max(0, int(min(len(free), self.task.most - len(taken))))]:
            worker = RayWorker(self, place)
            self.starting[worker.actor.name.remote()] = worker

    def start(self) -> RayWorker:
        self.workers.append(self.ready.pop(0))
        return self.workers[-1]

    def events(self, seconds: float) -> list[tuple[RayWorker, Event]]:
        self._launch()
        streams: dict[Any, RayWorker] = {worker.streams[0]: worker for worker in self.workers if worker.streams}
        references = [*self.starting, *streams]
        if not references:
            time.sleep(seconds)
            return []
        ray.wait(references, timeout=seconds)
        told, _ = ray.wait(references, num_returns=len(references), timeout=0)
        for reference in told:
            if worker := self.starting.pop(reference, None):
                with contextlib.suppress(RayError):  # it has died, which its first runs tell
                    worker.name = ray.get(reference)
                self.ready.append(worker)
        received = [(worker, worker.receive()) for stream, worker in streams.items() if stream in told]
        return [(worker, event) for worker, event in received if event]

    def __enter__(self) -> RayEngine:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:  # else this process ends, and its actors with it: `shutdown` drops the handler of SIGTERM
            ray.shutdown()


class RayWorker:
    """This process's end of an actor. See `contract.Worker`. `streams`: what it does, and then has to do."""

    def __init__(self, engine: RayEngine, place: int) -> None:
        self.engine, self.place, self.name = engine, place, "worker"
        share: dict[str, Any] = {"num_cpus": 0, "num_gpus": 1 / engine.on_each} if engine.on_gpu else {"num_cpus": 1}
        make: Any = ray.remote  # its types do not know concurrency groups
        groups = {"work": 1, "answer": 1}  # of one thread each
        actor = make(max_restarts=0, concurrency_groups=groups, **share)(Actor)
        self.actor: Any = actor.remote(engine.task, engine.slot, Path.cwd(), sys.argv, versions())
        self.streams: deque[Any] = deque()

    def train(self, runs: Sequence[RunSpec]) -> None:
        self.streams.append(self.actor.train.remote(list(runs)))

    def answer(self, prune: bool) -> None:
        self.actor.answer.remote(prune)

    def receive(self) -> Event | None:
        """The next event; `Failed` where the actor is dead or out of reach; None at the end of its runs."""
        try:
            event: Event = ray.get(next(self.streams[0]))
            return event
        except StopIteration:
            self.streams.popleft()
            return None
        except RayError as error:
            return Failed(failure(error).reason)

    def stop(self, seconds: float = 0.0, replace: bool = True) -> None:
        """See `Worker`. What it has told is written, so it is killed at once. A node that is lost may train on for
        seconds; the lock of its run keeps others out.
        """
        ray.kill(self.actor)
        self.engine.workers.remove(self)
        if not replace:
            self.engine.given_up.add(self.place)


def _connect(flag: str) -> str:
    """Connect this process to the cluster of `--ray`; `auto`: to that of RAY_ADDRESS, else to a new one here. Returns
    its address. Raises `UserError` where a cluster cannot be used.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    source = "RAY_ADDRESS" if flag == "auto" else "--ray"
    address = os.environ.get("RAY_ADDRESS", "") if flag == "auto" else flag
    if flag != "auto" or address:
        _check(address, source)
    numbers = [getattr(signal, name) for name in INTERRUPTS]
    handlers = {number: signal.getsignal(number) for number in numbers}
    variables = {name: os.environ.get(name, "") for name in (VARIABLE, DOWNLOAD)}
    if "PYTHONPATH" in os.environ:
        variables["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, os.environ["PYTHONPATH"].split(os.pathsep)))
    # Only rows pass through the store, whose size is in bytes.
    options: dict[str, Any] = {} if address else {"include_dashboard": False, "object_store_memory": 100 * 2**20}
    try:
        with contextlib.chdir(os.sep):  # Ray puts the current folder first in the search path of its workers
            ray.init(
                address or "local",
                runtime_env={"env_vars": {"PYTHONSAFEPATH": "1", **variables}},
                log_to_driver=False,
                logging_level=logging.CRITICAL,
                **options,
            )
    except Exception as error:  # of many kinds: a busy machine does not start or answer in time
        raise UserError(f"{source if address else '--ray'}: {failure(error).reason}") from error
    for number, handler in handlers.items():  # Ray replaces that of SIGTERM
        signal.signal(number, handler)
    return str(ray.get_runtime_context().gcs_address)


def _check(address: str, source: str) -> None:
    """Raise `UserError` where an address is none, or nothing listens there."""
    if not re.fullmatch(r"[^\s:/]+:\d+|\[[^\s/]+\]:\d+", address):
        raise UserError(f"{source}: {address!r} is not allowed: expected {'auto or ' * (source == '--ray')}HOST:PORT")
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), ANSWER_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise UserError(f"{source}: no Ray cluster can be used at {address}: {error}") from error


@functools.cache
def versions() -> dict[str, str]:
    """The versions that must be equal on all nodes; of this package the source, because a checkout changes."""
    root = Path(__file__).parents[2]
    sources = (path for package in OWN_PACKAGES[:3] for path in (root / package).rglob("*.py"))
    source = digest({path.relative_to(root).as_posix(): path.read_bytes() for path in sources})
    return {"Python": platform.python_version(), "vit-ablation source": source[:8]}


class Actor:
    """Trains what it is given. It does one thing at a time, and takes answers meanwhile.

    `folder`: of the driver, in which a relative `data.root` starts. `command`: the driver's, for the records.
    `expected`: the versions of the driver. `failed`: why it trains nothing.
    """

    def __init__(self, task: Task, slot: Slot, folder: Path, command: list[str], expected: dict[str, str]) -> None:
        self.answers: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self.failed: Failed | None = None
        try:
            for name, version in versions().items():
                if version != expected[name]:
                    where = f"node {socket.gethostname()}"
                    raise UserError(f"--ray: {where} has {name} {version}, the driver {expected[name]}")
            os.chdir(folder)
            sys.argv = command
            redirect_output(task)
            if slot.threads is None:
                os.environ.pop("OMP_NUM_THREADS", None)  # Ray sets it to 1
            self.training = Training(task, slot)
        except Exception as error:  # such as no common file system
            self.failed = failure(error)

    def name(self) -> str:
        """The name of this worker."""
        return f"worker {os.getpid()} on {socket.gethostname()}"

    @ray.method(concurrency_group="work", num_returns="streaming")
    def train(self, runs: list[RunSpec]) -> Iterator[Event]:
        """Train runs as one cohort. Yields what happens. After a failure it trains nothing."""
        if self.failed:
            yield self.failed
            return
        events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        threading.Thread(target=self._train, args=(runs, events.put), daemon=True).start()
        while event := events.get():
            if isinstance(event, Failed):
                self.failed = event
            yield event

    def _train(self, runs: list[RunSpec], send: Callable[[Event | None], None]) -> None:
        self.training.train(runs, send, self.answers.get)
        send(None)

    @ray.method(concurrency_group="answer")
    def answer(self, prune: bool) -> None:
        """Take the answer to an epoch."""
        self.answers.put(prune)
