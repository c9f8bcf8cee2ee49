"""An engine whose events the test gives: its workers train nothing, and leave the records of runs at once."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from stubbed import finish

from experiments.compared import RunSpec
from experiments.data.folder import files_digest
from sweeps.engines.contract import Done, Epoch, Event, Failed, Task, failure

KILLED = "the worker ended with status -9 (killed by SIGKILL: possibly out of memory)"
Events = list[tuple["Worker | None", Event | None]]
PAUSE: Events = [(None, None)]  # of a worker that the driver does not know: time passes


class Worker:
    """A worker that notes what it is given, and whose events the test asks for."""

    def __init__(self, engine: "Scripted", place: int) -> None:
        self.engine, self.place, self.name = engine, place, f"worker {place}"
        self.given: list[list[str]] = []
        self.cohorts: list[list[RunSpec]] = []
        self.answers: list[bool] = []
        self.stopped = False

    def train(self, runs: list[RunSpec]) -> None:
        self.given.append([run.name for run in runs])
        self.cohorts.append(runs)

    def epoch(self, number: int) -> Events:
        """Each of its runs has finished this epoch."""
        row = {"epoch": number, "val/acc": 0.5, "val/loss": 1.0}
        return [(self, Epoch(index, row)) for index in range(len(self.cohorts[0]))]

    def end(self) -> Events:
        """Its first runs have records, or meet their fate."""
        for run in self.cohorts[0]:
            self.engine.tried[run.name] += 1
            fate = self.engine.fate(run)
            if isinstance(fate, Failed | BaseException):
                return [(self, fate if isinstance(fate, Failed) else failure(fate))]
            if not (self.engine.folder / run.name / "summary.json").exists():
                of_folder = run.config.data.name == "imagefolder"
                data = {"data": {"files": files_digest(run.config.data.root)}} if of_folder else {}
                summary = {"status": "finished", "epochs": run.config.train.epochs, **data, **fate}
                finish(self.engine.folder / run.name, run, **summary)
                self.engine.ended[run.name] += 1
        self.cohorts.pop(0)
        return [(self, Done([]))]

    def fail(self, reason: str = KILLED, users: bool = False) -> Events:
        return [(self, Failed(reason, users=users))]

    def answer(self, prune: bool) -> None:
        self.answers.append(prune)

    def stop(self, seconds: float = 0.0, replace: bool = True) -> None:
        self.stopped = True
        self.engine.room += replace
        self.engine.places -= not replace


class Scripted:
    """An engine with so many places: first the events of a script, then each worker trains what it is given.

    `fate`: of a run when it is trained, what its summary says, or how it fails. `tried`, `ended`: how often each run
    was trained, and to its end.
    """

    on_gpu, where = False, "the CPU"

    def __init__(
        self,
        places: int = 1,
        script: Callable[["Scripted"], Iterator[Events]] = lambda engine: iter(()),
        fate: Callable[[RunSpec], dict[str, Any] | Failed | BaseException] = lambda run: {},
    ) -> None:
        self.room = self.places = places
        self.fate, self.script = fate, script(self)
        self.started: list[Worker] = []
        self.tried, self.ended = Counter[str](), Counter[str]()

    def begin(self, task: Task) -> None:
        self.folder, self.started, self.room = task.folder, [], self.places

    def start(self) -> Worker:
        self.room -= 1
        self.started.append(Worker(self, self.places - self.room - 1))
        return self.started[-1]

    def events(self, seconds: float) -> Events:
        working = (worker for worker in self.started if worker.cohorts and not worker.stopped)
        return next(self.script, None) or next(working).end()

    def __enter__(self) -> "Scripted":
        return self

    def __exit__(self, *_: Any) -> None: ...
