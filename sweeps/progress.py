"""What a sweep shows while it runs: one live display on a terminal, a line for every run that ends elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterable
from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from experiments.runs.spec import RunSpec


class Display:
    """Told what happens, it shows it on stderr. Time left is reckoned in epochs, by the pace since the first."""

    def __init__(self, title: str, runs: Iterable[RunSpec], console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False)
        self.left = {run.name: run.config.train.epochs for run in runs}  # epochs
        self.total = len(self.left)
        self.seen, self.since = 0, 0.0
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[note]}"))
        self.progress = Progress(*columns, console=self.console, disable=not self.console.is_terminal)
        self.whole = self.progress.add_task(f"[bold]{escape(title)}", total=sum(self.left.values()), note="")
        self.bars: dict[str, TaskID] = {}

    def __enter__(self) -> Display:
        self.progress.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.progress.stop()

    def already(self, ended: list[str]) -> None:
        """Runs that need no training here, for all that have ended so far."""
        if found := [name for name in ended if self.left.pop(name, None) is not None]:
            where = ", in another sweep" if self.seen else ""
            self.note(f"{len(found)} of {self.total} runs have ended already{where}")
        self._refresh()

    def row(self, run: RunSpec, row: dict[str, float]) -> None:
        """An epoch of a run is done."""
        epochs, epoch = run.config.train.epochs, int(row["epoch"])
        self.left[run.name] = epochs - epoch
        self.since = self.since or time.monotonic()
        self.seen += 1
        if run.name not in self.bars:
            self.bars[run.name] = self.progress.add_task(escape(run.name), total=epochs, note="")
        note = f"epoch {epoch}/{epochs}, validation {row['val/acc']:.1%}"
        self.progress.update(self.bars[run.name], completed=epoch, note=note)
        self._refresh()

    def ended(self, run: RunSpec, status: str) -> None:
        """A run has ended, one way or another."""
        self._close(run)
        self.left.pop(run.name, None)
        if not self.console.is_terminal:
            print(f"[{self._done()}] {run.name}: {status}; {self._time()}", file=self.console.file, flush=True)
        self._refresh()

    def failed(self, run: RunSpec, why: str) -> None:
        """An attempt at a run has failed."""
        self._close(run)
        self.note(f"{run.name}: {why}")

    def note(self, text: str) -> None:
        """Say something, above the bars where there are any."""
        self.console.print(text, markup=False, soft_wrap=True)

    def _close(self, run: RunSpec) -> None:
        if run.name in self.bars:
            self.progress.remove_task(self.bars.pop(run.name))

    def _refresh(self) -> None:
        done = sum(task.total or 0 for task in self.progress.tasks if task.id == self.whole) - sum(self.left.values())
        self.progress.update(self.whole, completed=done, note=f"{self._done()} runs, {self._time()}")

    def _done(self) -> str:
        return f"{self.total - len(self.left)}/{self.total}"

    def _time(self) -> str:
        left = sum(self.left.values())
        if not left:
            return "nothing left"
        if self.seen < 2:
            return "time left not known yet"
        return f"about {duration(left * (time.monotonic() - self.since) / (self.seen - 1))} left"


def duration(seconds: float) -> str:
    """Seconds as people say them: 40 s, 12 min, 3 h 20 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
