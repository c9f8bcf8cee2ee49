"""What lives on a node of a Ray cluster, and trains."""

from __future__ import annotations

import functools
import os
import platform
import queue
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import ray

from experiments.compared import RunSpec
from experiments.errors import UserError
from sweeps.engines.contract import Event, Failed, Slot, Task
from sweeps.engines.training import Training, failure, redirect_output
from vit.plugins import OWN_PACKAGES, digest


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
