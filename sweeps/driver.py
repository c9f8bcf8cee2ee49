"""The driver: the one process of a study that hands its runs to the workers of an engine, and settles them by their
records.

    source.next -> worker.train -> the run's record -> source.ended
"""

from __future__ import annotations

import contextlib
from collections import Counter, deque
from collections.abc import Hashable, Sequence
from typing import Any, Protocol, assert_never

from experiments.compared import RunSpec
from experiments.errors import UserError
from experiments.files import RecordError, own_folder, write_text
from experiments.metric import Metric
from experiments.runs import record
from experiments.runs.resume import epochs_done
from experiments.tracker import Tracker
from sweeps.engines.contract import Done, Engine, Epoch, Event, Failed, Task, Worker
from sweeps.progress import ProgressDisplay, result_text

ATTEMPTS = 3  # at a run in one command; then it has failed
FAILURES = 3  # of different runs, without a success in between, after which a worker stops: the machine may be at fault
POLL_SECONDS = 1.0


class Source(Protocol):
    """Proposes the runs of a sweep, those of a plan or of a sampler, and takes their results."""

    @property
    def left(self) -> int:
        """The number of runs that no worker has, as far as they are known."""

    def next(self) -> list[RunSpec]:
        """The runs to train next, as one cohort; none where all are handed out. They belong to the caller."""

    def give_back(self, runs: Sequence[RunSpec], last: bool = False, alone: bool = False) -> None:
        """Take runs back that have not ended. `last`: others go first. `alone`: they are in no stack any more."""

    def epoch(self, run: RunSpec, row: dict[str, float]) -> bool:
        """A run has finished an epoch. Returns whether it is pruned."""
        return False

    def ended(self, run: RunSpec, summary: dict[str, Any] | None) -> None:
        """A run has ended, with a record; None: the last attempt of this command has left none."""


class Driver:
    """Trains the runs of a source. `failed`: run -> the error of its last attempt, of those that were given up."""

    def __init__(
        self, source: Source, engine: Engine, task: Task, display: ProgressDisplay, metric: str, tracker: Tracker
    ) -> None:
        self.source, self.engine, self.task, self.display = source, engine, task, display
        self.tracker = tracker
        self.metric = Metric(metric)  # whose value the progress shows for each run that has ended
        self.assigned: dict[Worker, deque[list[RunSpec]]] = {}  # its cohorts, of which it trains the first
        self.attempts, self.failed = Counter[str](), dict[str, str]()
        self.failing: dict[Hashable, set[str]] = {}  # place -> the runs that failed there one after another
        self.again: set[str] = set()  # runs that have failed and wait for another attempt
        self.told: set[str] = set()  # runs of other processes that are waited for
        engine.begin(task)

    def run(self) -> None:
        """Train until every run has ended or was given up.

        Raises `UserError` where no other attempt could help, or where no worker is left. An interrupt writes nothing,
        because it may have come in the middle of a write: the next driver ends what is open.
        """
        while True:
            self._assign()
            if not any(self.assigned.values()) and not self.source.left:
                return
            for worker, event in self.engine.events(POLL_SECONDS):
                if worker in self.assigned:
                    self._take(worker, event)

    def _assign(self) -> None:
        """Give runs to idle workers. Start workers while more runs are left than workers are idle."""
        idle = [worker for worker, cohorts in self.assigned.items() if not cohorts]
        while self.engine.room and self.source.left > len(idle):
            idle.append(self.engine.start())
            self.assigned[idle[-1]] = deque()
        for worker in idle:
            self._give_next(worker)

    def _give_next(self, worker: Worker) -> None:
        """Give the next cohort, if there is one, to a worker, which trains it after the one that it has."""
        if runs := self.source.next():
            cohorts = self.assigned[worker]
            cohorts.append(runs)
            worker.train(runs)
            if len(cohorts) == 1:
                self._begin(worker)

    def _begin(self, worker: Worker) -> None:
        """Take note of the cohort that a worker trains now; none if it is idle."""
        cohorts = self.assigned[worker]
        runs = cohorts[0] if cohorts else []
        self.display.begin(worker, runs, epochs_done(self.task.folder / runs[0].name) if runs else 0)
        self.again.difference_update(run.name for run in runs)

    def _take(self, worker: Worker, event: Event) -> None:
        """Handle what a worker tells."""
        cohorts = self.assigned[worker]
        if isinstance(event, Epoch):
            self._take_epoch(worker, event)
        elif isinstance(event, Done):
            runs = cohorts.popleft()
            self.failing.pop(worker.place, None)
            self._begin(worker)
            for run in runs:
                self._settle(run, "the worker left neither a record nor an error", "", run.name in event.locked)
        elif isinstance(event, Failed) and event.users:  # another attempt would fail the same way
            raise UserError(event.reason + (f" (in {cohorts[0][0].name})" if cohorts else ""))
        elif isinstance(event, Failed) and cohorts:
            runs = cohorts.popleft()
            for run in runs:
                self._settle(run, event.reason, event.trace)
            self._replace(worker, runs[0], event.reason)
        elif isinstance(event, Failed):  # it was idle: another one starts when there are runs for it
            self.display.note(f"{worker.name} had no run: {event.reason}")
            self._remove(worker)
        else:
            assert_never(event)

    def _take_epoch(self, worker: Worker, event: Epoch) -> None:
        """Take in an epoch. A worker in its last one gets its next runs, unless a sampler learns from each result."""
        cohorts = self.assigned[worker]
        run = cohorts[0][event.index]
        self.display.row(worker, event.row)
        self.tracker.epoch(run, event.row)
        prune = self.source.epoch(run, event.row)
        if self.task.asks:
            worker.answer(prune)
        elif event.row["epoch"] >= run.config.train.epochs - 1 and len(cohorts) == 1:
            self._give_next(worker)

    def _settle(self, run: RunSpec, reason: str, trace: str, is_locked: bool = False) -> None:
        """Settle a run that a worker has left, by its record. `reason`, `trace`: why it has none, where it has none."""
        try:
            summary = record.read_ended(self.task.folder, run)
        except RecordError as error:
            summary, reason = None, str(error)
        if summary:
            self.source.ended(run, summary)
            self.tracker.ended(run)
            self.display.ended(run, result_text(summary, self.metric))
        elif is_locked:
            self.source.give_back([run], last=True)
            if run.name not in self.told:
                self.told.add(run.name)
                self.display.note(f"waiting for {run.name}: another process trains it")
        else:
            self._fail(run, reason, trace)

    def _replace(self, worker: Worker, run: RunSpec, reason: str) -> None:
        """Stop a worker that has failed with a run. Another one starts in its place, if not all fail there."""
        failing = self.failing.setdefault(worker.place, set())
        failing.add(run.name)
        is_sick = len(failing) >= FAILURES and self.source.left > len(self.again)  # runs are left that never failed
        self._remove(worker, replace=not is_sick)
        if is_sick:
            line = f"{FAILURES} runs failed one after another in {worker.name}, the last with {reason}"
            if not self.engine.places:
                raise UserError(f"{line}; it leaves the others, so run the same command again once it works there")
            self.display.note(f"{line}; it trains no more")

    def _fail(self, run: RunSpec, reason: str, trace: str) -> None:
        """Count an attempt that failed, and keep its traceback. A run without attempts left is given up."""
        self.attempts[run.name] += 1
        given_up = self.attempts[run.name] >= ATTEMPTS
        folder = self.task.folder / run.name
        with contextlib.suppress(OSError, UserError):  # the display shows the reason
            write_text(own_folder(folder) / record.ERROR, trace or reason + "\n")
        self.display.failed(run, reason, given_up)
        if given_up:
            self.source.ended(run, None)
            self.failed[run.name] = reason
        else:
            self.again.add(run.name)
            self.source.give_back([run], last=True, alone=True)

    def _remove(self, worker: Worker, replace: bool = True) -> None:
        """Stop a worker, and take back the runs that it has not begun."""
        cohorts = self.assigned.pop(worker)
        worker.stop(replace=replace)
        self.display.begin(worker, [])
        for runs in reversed(cohorts):
            self.source.give_back(runs)
