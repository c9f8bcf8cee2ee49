"""What a driver expects of an engine and its workers, and what a worker tells."""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from experiments.compared import RunSpec


@dataclass(frozen=True)
class Task:
    """What all workers of a sweep have in common.

    `folder`: of the runs. `log`: gets what libraries print, which would disturb the progress display. `test`: whether
    finished runs are evaluated on test images. `asks`: after each epoch a worker waits for the answer whether to prune.
    `most`: more workers than that are of no use.
    """

    folder: Path
    log: Path
    test: bool = True
    asks: bool = False
    most: float = math.inf


@dataclass(frozen=True)
class Slot:
    """A place for a worker: its device, and the number of CPU threads (None: PyTorch's choice)."""

    device: str
    threads: int | None = None


@dataclass(frozen=True)
class Epoch:
    """A run has finished an epoch. `index`: of the run among those that train together."""

    index: int
    row: dict[str, float]


@dataclass(frozen=True)
class Done:
    """The runs have been trained, but for those of `locked`, which other processes train."""

    locked: list[str]


@dataclass(frozen=True)
class Failed:
    """The runs have failed, and the worker with them. `users`: no other attempt can mend it, but the user can."""

    reason: str
    trace: str = ""
    users: bool = False


Event = Epoch | Done | Failed


class Worker(Hashable, Protocol):
    """A process that trains the runs that it is given, one cohort after another.

    `place`: where it lives; the worker that replaces it has the same. `name`: for messages.
    """

    @property
    def place(self) -> Hashable: ...

    @property
    def name(self) -> str: ...

    def train(self, runs: Sequence[RunSpec]) -> None:
        """Train runs as one cohort, after those that it was given before."""

    def answer(self, prune: bool) -> None:
        """Answer an epoch, where the task asks."""

    def stop(self, seconds: float = 0.0, replace: bool = True) -> None:
        """End the worker: kill it if it has not ended after so many seconds. On this machine, it trains nothing when
        this returns.

        `replace`: whether another worker may start in its place.
        """


class Engine(Protocol):
    """Places for workers. As a context manager it ends them all; after an error it kills them.

    `room`: the number of workers that could start now. `places`: of all that could ever live there. `on_gpu`: whether
    they use GPUs. `where`: the devices, in words. `say` prints a line; the driver sets it.
    """

    on_gpu: bool
    where: str
    say: Callable[[str], None]

    @property
    def room(self) -> int: ...

    @property
    def places(self) -> int: ...

    def begin(self, task: Task) -> None:
        """Take a task for the workers that start from now on. Workers of another task are ended."""

    def start(self) -> Worker | None:
        """Start a worker; None where there is no room."""

    def events(self, seconds: float) -> Sequence[tuple[Worker, Event]]:
        """What the workers tell, in order for each. Waits up to so many seconds for the first."""

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None: ...
