"""An engine driven by hand: the runs, and the events of its workers one by one."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tiny

from experiments.compared import RunSpec
from sweeps.engines.contract import Done, Engine, Event, Failed, Task, Worker
from sweeps.study_folder import LOG


@dataclass
class Driving:
    """A driver by hand, of the runs in a folder."""

    engine: Engine
    folder: Path
    told: list[tuple[Worker, Event]] = field(default_factory=list)

    def begin(self, **options: Any) -> None:
        """Give the engine its task, for one worker."""
        self.engine.begin(Task(self.folder, self.folder / LOG, most=1, **options))

    def worker(self) -> Worker:
        """A worker, once there is room for one."""
        end = time.monotonic() + 180
        while not self.engine.room:
            assert time.monotonic() < end, "no worker"
            self.told += self.engine.events(0.5)
        worker = self.engine.start()
        return worker

    def next(self) -> Event:
        """The next event of any worker."""
        end = time.monotonic() + 180
        while not self.told:
            assert time.monotonic() < end, "nothing was told"
            self.told += self.engine.events(0.5)
        return self.told.pop(0)[1]

    def to_end(self) -> list[Event]:
        """The events until a cohort has ended."""
        events = [self.next()]
        while not isinstance(events[-1], Done | Failed):
            events.append(self.next())
        return events


def pid_of(worker: Worker) -> int:
    """The process of a worker, which its name contains."""
    return int(worker.name.split()[1])


def runs(count: int, **changes: Any) -> list[RunSpec]:
    """Runs of a tiny model that differ in the seed."""
    return [RunSpec.of(f"run-{seed}", tiny.config(seed=seed, **changes)) for seed in range(count)]
