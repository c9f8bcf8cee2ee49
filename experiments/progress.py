"""The progress of a single run: one line per epoch."""

from __future__ import annotations


class EpochPrinter:
    """Prints the metrics of each epoch. Pass it to `train` as `on_row`."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def __call__(self, run: int, row: dict[str, float]) -> None:
        metrics = (f"{part} loss {row[f'{part}/loss']:.4f}, acc {row[f'{part}/acc']:.2%}" for part in ("train", "val"))
        try:
            print(f"epoch {row['epoch']}/{self.epochs}  {'; '.join(metrics)}", flush=True)
        except BrokenPipeError:
            raise
        except OSError:
            pass  # a full disk does not stop the training: the record is elsewhere, and the command reports it at the end
