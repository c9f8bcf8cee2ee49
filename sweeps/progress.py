"""The progress of a sweep on stderr: a line for every finished run; on a terminal, also a bar for each busy worker."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from experiments.compared import RunSpec
from experiments.errors import printable
from experiments.metric import Metric
from experiments.study import Study

SPEED_SECONDS = 3600.0  # from which the time left is estimated: long enough for several runs; rich takes 30 s


class ProgressDisplay:
    """Shows how many of `number` runs have ended, and the epochs of those in training."""

    def __init__(self, title: str, number: int) -> None:
        self.console = Console(stderr=True, highlight=False)
        text = TextColumn("{task.description}"), BarColumn(12), MofNCompleteColumn(), TextColumn("{task.fields[note]}")
        is_hidden = not self.console.is_terminal
        columns = *text, TimeRemainingColumn(compact=True)
        self.progress = Progress(*columns, console=self.console, disable=is_hidden, speed_estimate_period=SPEED_SECONDS)
        self.number, self.done = number, 0
        self.whole = self.progress.add_task(f"[bold]{escape(printable(title))}", total=number, note="")
        self.tasks: dict[Hashable, TaskID] = {}

    def __enter__(self) -> ProgressDisplay:
        self.progress.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.progress.stop()

    def skip(self, runs: Sequence[RunSpec], said: bool = True) -> None:
        """Take note of runs that need no training: they have ended before, or nobody will train them."""
        self._add(len(runs))
        if runs and said:
            self.note(f"{len(runs)} of {self.number} runs are already done")

    def begin(self, worker: Hashable, runs: Sequence[RunSpec], epoch: int = 0) -> None:
        """Show what a worker trains from now on: a run or a cohort, from this epoch on. Without runs it has no bar."""
        if worker in self.tasks:
            self.progress.remove_task(self.tasks.pop(worker))
        if runs:
            epochs = runs[0].config.train.epochs
            seeds = f"seed {runs[0].seed}" if len(runs) == 1 else f"{len(runs)} seeds"
            title = escape(printable(f"{runs[0].variant}, {seeds}"))
            self.tasks[worker] = self.progress.add_task(title, total=epochs, completed=epoch, note="")

    def row(self, worker: Hashable, row: dict[str, float]) -> None:
        """Show that a worker has finished an epoch of a run."""
        note = f"val/acc {100 * row['val/acc']:.1f} %"
        self.progress.update(self.tasks[worker], completed=int(row["epoch"]), note=note)

    def ended(self, run: RunSpec, result: str) -> None:
        """Show that a run has ended. `result`: its status and score in words."""
        self._add(1)
        self.note(f"[{self.done}/{self.number}] {run.name}: {result}")

    def failed(self, run: RunSpec, reason: str, given_up: bool = False) -> None:
        """Show that an attempt at a run has failed. `given_up`: it was the last one."""
        self._add(int(given_up))
        self.note(f"{run.name}: {reason}")

    def note(self, text: str) -> None:
        """Print a line, above the bars if there are any."""
        try:
            self.console.print(printable(text), markup=False, soft_wrap=True)
        except BrokenPipeError:
            raise
        except OSError:
            pass  # a full disk of the log does not stop the training: the records are elsewhere

    def _add(self, ended: int) -> None:
        self.done += ended
        self.progress.update(self.whole, completed=self.done)


def shown_metric(study: Study) -> Metric:
    """The metric that is shown for each run that has ended: with planned looks at a test metric, `val/acc`."""
    return Metric("val/acc" if study.looks and study.metric.startswith("test/") else study.metric)


def result_text(summary: Mapping[str, Any], metric: Metric) -> str:
    """The status of an ended run and its score, if it has one: "finished, test/acc 97.2 %"."""
    status, value = summary["status"], summary.get(metric)
    if value is None or status == "diverged":
        return str(status)
    return f"{status}, {metric} {value * metric.scale:.{1 if metric.is_share else 4}f}{' %' * metric.is_share}"
