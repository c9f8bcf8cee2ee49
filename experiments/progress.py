"""The progress of a single run: one line per epoch, or a bar on a terminal."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class EpochPrinter:
    """Prints the metrics of each epoch. Use it as a context manager and pass it to `train` as `on_row`."""

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
        metrics = (f"{part} loss {row[f'{part}/loss']:.4f}, acc {row[f'{part}/acc']:.2%}" for part in ("train", "val"))
        text = "; ".join(metrics)
        if self.console.is_terminal:
            self.progress.update(self.task, completed=row["epoch"], description=text)
            return
        try:
            print(f"epoch {row['epoch']}/{self.epochs}  {text}", flush=True)
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            # A full disk does not stop the training: the record is elsewhere, and the command reports it at the end.
