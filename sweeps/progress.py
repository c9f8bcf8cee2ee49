"""The progress of a sweep on stderr: a line for every finished run; on a terminal, also one for each busy worker."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from experiments.errors import duration_text, printable
from experiments.metric import Metric
from experiments.study import RunSpec, StudyPlan


@dataclass
class Line:
    """The line of a worker that trains some runs: the epoch from which its pace is measured, and when that was."""

    task: TaskID
    runs: int
    epoch: int
    since: float = 0.0


class ProgressDisplay:
    """Shows the runs in training. The remaining time is the number of epochs left at the pace since the first epoch.

    `unnamed`: the epochs of runs that get their names later, as the trials of a tuning do.
    """

    def __init__(self, title: str, runs: Iterable[RunSpec], unnamed: Iterable[int] = ()) -> None:
        self.console = Console(stderr=True, highlight=False)
        self.left = {run.name: run.config.train.epochs for run in runs}  # epochs
        self.unnamed, self.done = list(unnamed), set[str]()
        self.total = len(self.left) + len(self.unnamed)
        self.all_epochs = self._epochs_left()
        self.seen, self.since = 0, 0.0
        columns = (TextColumn("{task.description}"), BarColumn(12), TextColumn("{task.fields[note]}"))
        self.progress = Progress(*columns, console=self.console, disable=not self.console.is_terminal)
        self.whole = self.progress.add_task(f"[bold]{escape(printable(title))}", total=self.all_epochs, note="")
        self.lines: dict[Hashable, Line] = {}

    def __enter__(self) -> ProgressDisplay:
        self.progress.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.progress.stop()

    def skip(self, names: Sequence[str]) -> None:
        """Take note of runs that have ended before."""
        if names:
            self.drop(names)
            self.note(f"{len(names)} of {self.total} runs are already done")

    def drop(self, names: Sequence[str]) -> None:
        """Take note of runs that need no training."""
        for name in names:
            self._set_left(name, None)
        self._refresh()

    def begin(self, worker: Hashable, runs: Sequence[RunSpec], epoch: int = 0) -> None:
        """Show what a worker trains from now on: a run or a cohort, from this epoch on. Without runs it has no line."""
        if line := self.lines.pop(worker, None):
            self.progress.remove_task(line.task)
        if runs:
            epochs = runs[0].config.train.epochs
            seeds = f"seed {runs[0].seed}" if len(runs) == 1 else f"{len(runs)} seeds"
            title = escape(printable(f"{runs[0].variant}, {seeds}"))
            task = self.progress.add_task(title, total=epochs, completed=epoch, note=f"epoch {epoch}/{epochs}")
            self.lines[worker] = Line(task, len(runs), epochs)
            for run in runs if epoch else ():
                self._set_left(run.name, epochs - epoch)
            self._refresh()

    def row(self, worker: Hashable, run: RunSpec, row: dict[str, float]) -> None:
        """Show that a worker has finished an epoch of a run."""
        epochs, epoch = run.config.train.epochs, int(row["epoch"])
        self._set_left(run.name, epochs - epoch)
        self.since = self.since or time.monotonic()
        self.seen += 1
        line = self.lines[worker]
        if epoch <= line.epoch:  # the first one, or one of another run of the cohort
            line.epoch, line.since = epoch, time.monotonic()
        left = _time_left(epochs - epoch, epoch - line.epoch, line.since)
        seed = f" (seed {run.seed})" if line.runs > 1 else ""
        note = f"epoch {epoch}/{epochs}, val/acc {100 * row['val/acc']:.1f} %{seed}{left}"
        self.progress.update(line.task, completed=epoch, note=note)
        self._refresh()

    def ended(self, run: RunSpec, result: str) -> None:
        """Show that a run has ended. `result`: its status and score in words."""
        self._set_left(run.name, None)
        self.note(f"[{len(self.done)}/{self.total}] {run.name}: {result}{self._all_left()}")
        self._refresh()

    def failed(self, run: RunSpec, reason: str, given_up: bool = False) -> None:
        """Show that an attempt at a run has failed. `given_up`: it was the last one."""
        if given_up:
            self._set_left(run.name, None)
        self.note(f"{run.name}: {reason}")

    def note(self, text: str) -> None:
        """Print a line, above the bars if there are any."""
        try:
            self.console.print(printable(text), markup=False, soft_wrap=True)
        except BrokenPipeError:
            raise
        except OSError:
            pass  # a full disk of the log does not stop the training: the records are elsewhere

    def _set_left(self, name: str, epochs: int | None) -> None:
        """Set the number of epochs left of a run; None: it has ended."""
        if name not in self.left and name not in self.done and self.unnamed:
            self.unnamed.pop()
        self.left.pop(name, None)
        self.done.discard(name)
        if epochs is None:
            self.done.add(name)
        else:
            self.left[name] = epochs

    def _refresh(self) -> None:
        note = f"{len(self.done)}/{self.total} runs{self._all_left()}"
        self.progress.update(self.whole, completed=self.all_epochs - self._epochs_left(), note=note)

    def _epochs_left(self) -> int:
        return sum(self.left.values()) + sum(self.unnamed)

    def _all_left(self) -> str:
        return _time_left(self._epochs_left(), self.seen - 1, self.since)


def _time_left(epochs: int, seen: int, since: float) -> str:
    """The time that these epochs take at the pace of those seen, as the end of a line."""
    if epochs <= 0 or seen <= 0:
        return ""
    return f", about {duration_text(round(epochs * (time.monotonic() - since) / seen))} left"


def shown_metric(plan: StudyPlan) -> Metric:
    """The metric that is shown for each run that has ended: with planned looks at a test metric, `val/acc`."""
    return Metric("val/acc" if plan.looks and plan.metric.startswith("test/") else plan.metric)


def result_text(summary: Mapping[str, Any], metric: Metric) -> str:
    """The status of an ended run and its score, if it has one: "finished, test/acc 97.2 %"."""
    status, value = summary["status"], summary.get(metric)
    if value is None or status == "diverged":
        return str(status)
    return f"{status}, {metric} {value * metric.scale:.{1 if metric.is_share else 4}f}{' %' * metric.is_share}"
