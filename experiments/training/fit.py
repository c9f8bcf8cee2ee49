"""The training loop, as a generator of metrics: one row per run and epoch. It writes no files and does no tracking."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from experiments.data.images import Images, Splits
from experiments.training.step import DeviceStep
from experiments.training.tables import EpochTables, epoch_tables, one_ahead
from experiments.training.trainer import DTYPES, Trainer, eval_batch

Row = dict[str, float]


def fit(trainer: Trainer, splits: Splits, start: int = 0, capture: bool = True) -> Iterator[list[Row]]:
    """Train all runs of the trainer and yield their rows, in order, after each epoch from `start` on.

    A row has epoch (from 1), lr (of the last step), loss and accuracy (a fraction) for training and validation, and the
    norm of the gradient of the last step, before clipping. The training metrics are means over the epoch while the
    weights change, with augmentation and dropout. Where batches must have one shape, the last one is padded with images
    that do not count. `capture`: as in `DeviceStep`.
    """
    configs, n = trainer.configs, len(splits.train)
    step = DeviceStep(trainer, splits, capture)
    epochs = range(start, configs[0].train.epochs)
    for epoch, tables in zip(epochs, _tables(trainer, n, step.size, epochs), strict=True):
        loss, hits = step.run_epoch(tables)
        grad_norm = trainer.gradient_norms()
        val_loss, val_classes, *_ = _predict(trainer, splits, splits.val)
        metrics = {  # name -> [R]; each is a line of `experiments.metric.TABLE`
            "train/loss": loss / n,
            "train/acc": hits / n,
            "val/loss": val_loss / len(splits.val),
            "val/acc": (val_classes == splits.val.y).sum(1, dtype=torch.float64) / len(splits.val),
            "train/grad_norm": grad_norm,
        }
        values = torch.stack([*metrics.values()], 1).tolist()  # the host waits once in an epoch
        shared = {"epoch": epoch + 1, "lr": trainer.optimizer.last_rate}
        yield [{**shared, **dict(zip(metrics, row, strict=True))} for row in values]


def _tables(trainer: Trainer, n: int, size: int, epochs: range) -> Iterator[EpochTables]:
    """The tables of each epoch. For a GPU, a thread prepares them one epoch ahead; a CPU would lose its time."""
    if trainer.device.type != "cuda":
        return (epoch_tables(trainer.configs, n, epoch, size) for epoch in epochs)
    return one_ahead(lambda epoch: epoch_tables(trainer.configs, n, epoch, size).pinned(), epochs)


@dataclass(frozen=True)
class Evaluation:
    """A run on N images: the mean loss and the accuracy (a fraction).

    For each image: whether it is classified correctly [N], bool, the predicted class [N], the probability of its true
    class [N] and, on request, its features, which are the pre-logits [N, D], float32.
    """

    loss: float
    accuracy: float
    hits: Tensor
    classes: Tensor
    probabilities: Tensor
    features: Tensor | None = None


def evaluate(trainer: Trainer, splits: Splits, images: Images, features: bool = False) -> list[Evaluation]:
    """Each run on the given images, with features on request. The tensors are on the CPU."""
    loss, classes, *columns = _predict(trainer, splits, images, features)
    hits = classes == images.y
    means = (loss / len(images)).tolist(), (hits.sum(1, dtype=torch.float64) / len(images)).tolist()
    rows = zip(*means, *(column.cpu() for column in (hits, classes, *columns)), strict=True)
    return [Evaluation(*row) for row in rows]


def _predict(trainer: Trainer, splits: Splits, images: Images, features: bool = False) -> list[Tensor]:
    """Sums of the losses [R]; predicted classes [R, N]; probabilities of the true classes [R, N]

    With `features`, also the pre-logits [R, N, D], float32.
    """
    dtype = DTYPES[trainer.configs[0].train.precision]
    loss, parts = torch.zeros(len(trainer.configs), dtype=torch.float64, device=trainer.device), []
    for pixels, y in images.batches(eval_batch(trainer.configs, trainer.device)):
        x = splits.normalized(splits.scaled(pixels, dtype))
        batch_loss, *columns = trainer.eval_step(x, y, features)
        loss += batch_loss * len(y)
        parts.append([column.float() if column.ndim == 3 else column for column in columns])
    return [loss, *(torch.cat(column, 1) for column in zip(*parts, strict=True))]
