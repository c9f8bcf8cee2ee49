"""The training loop, as a generator of metrics: one row per run and epoch. It writes no files and does no tracking."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from experiments.config import RunConfig
from experiments.data import augment
from experiments.data.images import Images, Splits
from experiments.training.engine import DTYPES, IGNORED, Solo, batches, eval_batch, static_shape, stream
from experiments.training.stacked import Stacked

Row = dict[str, float]


def fit(engine: Solo | Stacked, splits: Splits, start: int = 0) -> Iterator[list[Row]]:
    """Train all runs of the engine and yield their rows, in order, after each epoch from `start` on.

    A row has epoch (from 1), lr (of the last step), and loss and accuracy (a fraction) for training and validation. The
    training metrics are means over the epoch while the weights change, with augmentation and dropout. Where batches must
    have one shape, the last one is padded with images that do not count.
    """
    configs = engine.configs
    first, n = configs[0], len(splits.train)
    size = min(first.train.batch_size, n)
    steps = math.ceil(n / size)
    padding = steps * size - n if static_shape(first, engine.device) else 0
    for epoch in range(start, first.train.epochs):
        plan = [_epoch_plan(config, n, epoch, steps, padding) for config in configs]
        orders, augmentations, dropout_keys = zip(*plan, strict=True)
        order, keys = _stacked(orders, engine.device), _stacked(dropout_keys, engine.device)
        wanted = [draws for draws in augmentations if draws is not None]  # of all runs or of none
        draws = _stacked(wanted, engine.device) if wanted else None
        loss, hits = _zeros(engine), _zeros(engine)
        for step, part in enumerate(batches(n + padding, size)):
            count = min(part.stop, n) - part.start  # images of the step, without padding
            lrs = [learning_rate(config, epoch * steps + step, steps) for config in configs]
            x, y = _train_batch(splits, first, order[:, part], None if draws is None else draws[:, part])
            y[:, count:] = IGNORED
            batch_loss, batch_hits = engine.train_step(x, y, keys[:, step], lrs)
            loss += batch_loss * count
            hits += batch_hits
        val = evaluate(engine, splits, splits.val)
        train_loss, train_acc = (
            (total / n).tolist() for total in (loss, hits)
        )  # the only synchronisation with the device in an epoch
        yield [
            {
                "epoch": epoch + 1,
                "lr": lrs[r],
                "train/loss": train_loss[r],
                "train/acc": train_acc[r],
                "val/loss": val[r][0],
                "val/acc": val[r][1],
            }
            for r in range(len(configs))
        ]


@dataclass(frozen=True)
class Evaluation:
    """A run on N images: mean loss, accuracy (a fraction), and for each image whether it is classified correctly [N], bool,
    and the probability of its true class [N]."""

    loss: float
    accuracy: float
    hits: Tensor
    probabilities: Tensor


def evaluate(engine: Solo | Stacked, splits: Splits, images: Images) -> list[tuple[float, float]]:
    """Mean loss and accuracy (a fraction) of each run on all given images."""
    loss, hits, _ = _predict(engine, splits, images)
    return _means(loss, hits)


def evaluate_images(engine: Solo | Stacked, splits: Splits, images: Images) -> list[Evaluation]:
    """`evaluate`, with the predictions for each image. They are on the CPU."""
    loss, hits, probabilities = _predict(engine, splits, images)
    rows = zip(_means(loss, hits), hits.cpu(), probabilities.cpu(), strict=True)
    return [Evaluation(*means, hit, probability) for means, hit, probability in rows]


def _predict(engine: Solo | Stacked, splits: Splits, images: Images) -> tuple[Tensor, Tensor, Tensor]:
    """Sums of the losses [R]; correct predictions [R, N], bool; probabilities of the true classes [R, N]"""
    loss, parts = _zeros(engine), []
    dtype = DTYPES[engine.configs[0].train.precision]
    for part in batches(len(images), eval_batch(engine.configs, engine.device)):
        x = splits.normalized(splits.scaled(images.x[part], dtype))
        batch_loss, *predictions = engine.eval_step(x, images.y[part])
        loss += batch_loss * (part.stop - part.start)
        parts.append(predictions)
    hits, probabilities = (torch.cat(column, 1) for column in zip(*parts, strict=True))
    return loss, hits, probabilities


def _means(loss: Tensor, hits: Tensor) -> list[tuple[float, float]]:
    """(mean loss, accuracy) of each run, from the sums of the losses [R] and hits [R, N]."""
    n = hits.shape[1]
    return list(zip((loss / n).tolist(), (hits.sum(1, dtype=torch.float64) / n).tolist(), strict=True))


def learning_rate(config: RunConfig, step: int, steps_per_epoch: int) -> float:
    """Learning rate of a step (from 0): constant, or linear warm-up, then half a cosine (Loshchilov & Hutter, 2017)."""
    optim, total = config.optim, config.train.epochs * steps_per_epoch
    if optim.schedule == "constant":
        return optim.lr
    warmup = round(optim.warmup_epochs * steps_per_epoch)
    if step < warmup:
        return optim.lr * (step + 1) / warmup
    return optim.lr * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(total - warmup, 1)))


def _epoch_plan(
    config: RunConfig, n: int, epoch: int, steps: int, padding: int = 0
) -> tuple[Tensor, Tensor | None, Tensor]:
    """The random numbers of an epoch, from the run's seed: order [n], augmentation [n, DRAWS] or None, dropout keys [steps].

    `padding` zeros are appended to the first two.
    """
    data = config.data
    augmented = augment.wanted(data.hflip, data.crop_padding, data.rrc_scale)
    order = torch.randperm(n, generator=stream(config.seed, "order", epoch))
    draws = torch.rand(n, augment.DRAWS, generator=stream(config.seed, "augment", epoch)) if augmented else None
    keys = torch.randint(2**31 - 1, (steps,), dtype=torch.int32, generator=stream(config.seed, "dropout", epoch))
    return F.pad(order, (0, padding)), None if draws is None else F.pad(draws, (0, 0, 0, padding)), keys


def _stacked(parts: Sequence[Tensor], device: torch.device) -> Tensor:
    return torch.stack(list(parts)).to(device)


def _train_batch(splits: Splits, config: RunConfig, index: Tensor, draws: Tensor | None) -> tuple[Tensor, Tensor]:
    """Images and labels of a step: index [R, B] -> [R, B, C, S, S], [R, B]"""
    x = splits.scaled(splits.train.x[index], DTYPES[config.train.precision])
    if draws is not None:
        data = config.data
        x = augment.apply(x, augment.windows(draws, x.shape[-1], data.hflip, data.crop_padding, data.rrc_scale))
    return splits.normalized(x), splits.train.y[index]


def _zeros(engine: Solo | Stacked) -> Tensor:
    return torch.zeros(len(engine.configs), dtype=torch.float64, device=engine.device)
