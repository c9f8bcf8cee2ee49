"""What a driver expects of an engine and its workers, what a worker tells, and what it does with runs."""

from __future__ import annotations

import errno
import math
import os
import sys
import traceback
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from experiments.compared import RunSpec
from experiments.config import RunConfig, override
from experiments.errors import UserError
from experiments.files import RecordError, check_own, lock_runs, open_own

if TYPE_CHECKING:
    import torch

    from experiments.data.images import Splits

DOWNLOAD = "VIT_DOWNLOAD"  # in the environment: 1 where the user, and not only a study, says `data.download`
MAX_REASON = 500  # characters of an error in one line
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)  # of a disk to which no run can be written


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

    name: str

    @property
    def place(self) -> Hashable: ...

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
    they use GPUs. `where`: the devices, in words.
    """

    on_gpu: bool
    where: str

    @property
    def room(self) -> int: ...

    @property
    def places(self) -> int: ...

    def begin(self, task: Task) -> None:
        """Take a task for the workers that start from now on. Workers of another task are ended."""

    def start(self) -> Worker:
        """Start a worker, where there is room."""

    def events(self, seconds: float) -> Sequence[tuple[Worker, Event]]:
        """What the workers tell, in order for each. Waits up to so many seconds for the first."""

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None: ...


def redirect_output(task: Task) -> None:
    """Send what this process prints to the log. Raises `UserError` where it cannot be written."""
    try:
        log = open_own(task.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    except OSError as error:
        raise UserError(f"out: '{task.log}' cannot be written: {error.strerror}") from error
    for stream in (sys.stdout, sys.stderr):
        os.dup2(log, stream.fileno())


class Training:
    """Trains runs in this process. It keeps the last two datasets, which runs with equal data share."""

    def __init__(self, task: Task, slot: Slot) -> None:
        self.task, self.slot = task, slot
        self._kept: dict[Any, Splits] = {}
        if slot.threads:
            os.environ["OMP_NUM_THREADS"] = str(slot.threads)  # before torch is imported
            import torch

            torch.set_num_threads(slot.threads)

    def train(self, runs: Sequence[RunSpec], send: Callable[[Event], None], answer: Callable[[], bool]) -> bool:
        """Train runs as one cohort, and send what happens. Returns whether this process may train others: not after an
        error.

        `answer`: whether the run of the epoch that was just sent is pruned; called where the task asks.
        """
        from experiments.runs.run import train

        def on_row(index: int, row: dict[str, float]) -> bool:
            send(Epoch(index, row))
            return self.task.asks and answer()

        try:
            runs = list(map(_without_download, runs))
            if self.task.asks:
                self._ask_again(runs[0], on_row)
            summaries = train(
                runs, self.task.folder, device=self.slot.device, on_row=on_row, load=self._load, test=self.task.test
            )
        except BaseException as error:
            send(failure(error))
            return False
        send(Done([run.name for run, summary in zip(runs, summaries, strict=True) if summary is None]))
        return True

    def _load(self, config: RunConfig, device: torch.device) -> Splits:
        """The splits of a run's dataset on the device. Raises `UserError`."""
        from experiments.data import loading

        key = config.data, config.split_seed, config.model.patch_size  # patches may be shuffled
        if key not in self._kept:
            for old in list(self._kept)[:-1]:
                del self._kept[old]
            self._kept[key] = loading.load(config).to(device)
        return self._kept[key]

    def _ask_again(self, run: RunSpec, on_row: Callable[[int, dict[str, float]], bool]) -> None:
        """Ask about the last epoch of an interrupted run, whose answer may be lost. A run to prune is noted as such."""
        from experiments.runs import resume
        from experiments.runs.run import LOCK_SECONDS

        folder = self.task.folder / run.name
        with lock_runs(self.task.folder, [run.name], LOCK_SECONDS) as locked:
            note, state = (resume.read(check_own(folder)) if locked else None) or ({"rows": []}, {})
            if note["rows"] and note["status"] == "running" and on_row(0, note["rows"][-1]):
                resume.write(folder, {**note, "status": "pruned"}, state)


def _without_download(run: RunSpec) -> RunSpec:
    """The run without `data.download`, which its study states, unless the user has said so, too."""
    if os.environ.get(DOWNLOAD) == "1" or not run.config.data.download:
        return run
    return run.configured(override(run.config, {"data.download": False}))


def failure(error: BaseException) -> Failed:
    """What a worker tells of an error. The user can mend bad input and a full disk; a record's error is of one run."""
    is_full = any(isinstance(fault, OSError) and fault.errno in FULL for fault in (error, error.__cause__))
    users = is_full or (isinstance(error, UserError) and not isinstance(error, RecordError))
    line = " ".join(f"{type(error).__name__}: {error}".split())[:MAX_REASON]
    return Failed(str(error) if users else line, "".join(traceback.format_exception(error)), users)
