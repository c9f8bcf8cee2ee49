"""What lives on a node of a Ray cluster: it proves that the node can train as the driver's does, and trains."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
import queue
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import ray

from experiments.study import RunSpec
from sweeps.engines.contract import Event, Slot, Task
from sweeps.engines.training import Training, failure, redirect_output
from vit.plugins import OWN_PACKAGES, digest


@dataclass(frozen=True)
class Expected:
    """What a node must have as the driver has it. `lock`: the content of `lock_path`; None where it holds no lock."""

    folder: Path
    command: list[str]
    versions: dict[str, str]
    lock_path: Path
    lock: str | None


@dataclass(frozen=True)
class Proof:
    """What an actor says of its node. `problem`: why it cannot train there; "" if it can."""

    problem: str
    hardware: str = ""
    name: str = ""


@functools.cache
def versions() -> dict[str, str]:
    """The versions that must be equal on all nodes; of this package the source, because a checkout changes."""
    root = Path(__file__).parents[2]
    sources = (path for package in OWN_PACKAGES[:3] for path in (root / package).rglob("*.py"))
    source = digest({path.relative_to(root).as_posix(): path.read_bytes() for path in sources})
    torch = importlib.metadata.version("torch")
    return {"Python": platform.python_version(), "PyTorch": torch, "vit-ablation source": source[:8]}


class Actor:
    """Trains what it is given. It does one thing at a time, and takes answers meanwhile."""

    def __init__(self, task: Task, slot: Slot, expected: Expected) -> None:
        self.task, self.slot, self.expected = task, slot, expected
        self.answers: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self.is_sound = True

    @ray.method(concurrency_group="work", num_returns="streaming")
    def prove(self) -> Iterator[Proof]:
        """Yield whether runs can be trained here, in the folder of the driver and with its versions."""
        try:
            yield self._proof()
        except Exception as error:
            yield Proof(failure(error).reason)

    def _proof(self) -> Proof:
        if problem := self._problem():
            return Proof(problem)
        sys.argv = self.expected.command  # for the records
        redirect_output(self.task)
        if self.slot.threads is None:
            os.environ.pop("OMP_NUM_THREADS", None)  # Ray sets it to 1
        self.training = Training(self.task, self.slot)
        from experiments.runs.provenance import hardware
        from experiments.runs.run import pick_device

        name = f"worker {os.getpid()} on {socket.gethostname()}"
        return Proof("", hardware(pick_device(self.slot.device))["name"], name)

    def _problem(self) -> str:
        here = versions()
        for name, version in self.expected.versions.items():
            if here[name] != version:
                return f"it has {name} {here[name]}, the driver {version}"
        try:
            os.chdir(self.expected.folder)  # where a relative `data.root` starts
            path, lock = self.expected.lock_path, self.expected.lock
            if lock and path.read_text(encoding="utf-8") != lock:
                return f"{path.parent} is another folder there; all nodes need a common file system"
        except OSError as error:
            return f"{error.filename}: {error.strerror}; all nodes need a common file system"
        return ""

    @ray.method(concurrency_group="work", num_returns="streaming")
    def train(self, runs: list[RunSpec]) -> Iterator[Event]:
        """Train runs as one cohort. Yields what happens. After a failure it does nothing."""
        if self.is_sound:
            events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
            threading.Thread(target=self._train, args=(runs, events.put), daemon=True).start()
            while event := events.get():
                yield event

    def _train(self, runs: list[RunSpec], send: Callable[[Event | None], None]) -> None:
        self.is_sound = self.training.train(runs, send, self.answers.get)
        send(None)

    @ray.method(concurrency_group="answer")
    def answer(self, prune: bool) -> None:
        """Take the answer to an epoch."""
        self.answers.put(prune)
