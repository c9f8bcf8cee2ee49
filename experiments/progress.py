"""What a single run shows while it trains: one line an epoch."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class EpochPrinter:
    """Called with each epoch's row, it shows it: a live bar on a terminal, plain lines elsewhere."""

    def __init__(self, epochs: int) -> None:
        self.epochs, self.console = epochs, Console(highlight=False)
        columns = (
            TextColumn("epoch"),
            MofNCompleteColumn(),
            BarColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
        )
        self.progress = Progress(*columns, console=self.console, disable=not self.console.is_terminal)
        self.task = self.progress.add_task("", total=epochs)

    def __enter__(self) -> EpochPrinter:
        self.progress.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.progress.stop()

    def __call__(self, job: int, row: dict[str, float]) -> None:
        text = f"train {row['train/loss']:.4f} {row['train/acc']:.2%}  val {row['val/loss']:.4f} {row['val/acc']:.2%}"
        if self.console.is_terminal:
            self.progress.update(self.task, completed=row["epoch"], description=text)
        else:
            print(f"epoch {row['epoch']}/{self.epochs}  {text}", flush=True)
