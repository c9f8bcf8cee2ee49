"""The training step of a trainer as a function without arguments: all that it reads and adds up is on the device."""

import math
from collections.abc import Iterator
from functools import partial
from itertools import chain

import torch
from torch import Tensor

from experiments.config import RunConfig
from experiments.data import augment
from experiments.data.images import Splits
from experiments.data.randaugment import rand_augment
from experiments.data.streaming import StreamedPixels
from experiments.training.capture import launcher
from experiments.training.tables import EpochTables
from experiments.training.trainer import DTYPES, IGNORED, Trainer, static_shape

TOGETHER = 2**14  # images that RandAugment changes at once: its 56 operations take hardly longer for many than for few


class DeviceStep:
    """The steps of an epoch: batch, augmentation, forward, backward and update of all runs of a trainer.

    The tables of the epoch, the number of the step and the sums of losses and hits are tensors on the device
    with a fixed address. On a GPU the step becomes a CUDA graph, unless `capture` is False.
    """

    def __init__(self, trainer: Trainer, splits: Splits, capture: bool = True) -> None:
        self.trainer, self.splits, self.device = trainer, splits, trainer.device
        self.config: RunConfig = trainer.configs[0]
        n = len(splits.train)
        self.size = min(self.config.train.batch_size, n)
        self.steps = math.ceil(n / self.size)
        self.last = n - (self.steps - 1) * self.size  # images of the last step, without padding
        runs = len(trainer.configs)
        self.number = torch.zeros(1, dtype=torch.int64, device=self.device)  # of the next step in the epoch
        self.loss, self.hits = (torch.zeros(runs, dtype=torch.float64, device=self.device) for _ in range(2))
        self.counts = torch.full((self.steps,), self.size, device=self.device)
        self.counts[-1] = self.last
        pixels = splits.train.x
        # whether the pixels of a step come from outside of it
        self._prepared = isinstance(pixels, StreamedPixels) or self.config.data.randaugment
        shape = (runs, self.size, *pixels.shape[1:]) if self._prepared else (0,)
        self._pixels = torch.empty(shape, dtype=torch.uint8, device=self.device)  # of the step, if they are prepared
        self._tables: list[Tensor] = []
        self._uploading: EpochTables | None = None
        self._launch = launcher(self.device) if capture else None

    def run_epoch(self, tables: EpochTables) -> tuple[Tensor, Tensor]:
        """Do all steps of an epoch. Returns the sums over its images of losses and of hits, [R] each, float64."""
        self._load(tables)
        batches = self._batches(tables) if self._prepared else None
        whole = self.steps if static_shape(self.config, self.device) else self.steps - 1
        for number in range(self.steps):
            if batches is not None:
                self._pixels.copy_(next(batches), non_blocking=True)
            if number < whole and self._launch:
                self._launch(partial(self._run, self.size))
            else:
                self._run(self.size if number < whole else self.last)
        self.trainer.captured = self._launch.captured if self._launch else None
        return self.loss, self.hits

    def _batches(self, tables: EpochTables) -> Iterator[Tensor]:
        """The pixels [R, B, C, S, S] of each step: streamed, after RandAugment, or both."""
        x = self.splits.train.x
        if isinstance(x, StreamedPixels):
            steps, parts = 1, x.batches(tables.order.split(1))
        else:
            steps = max(1, TOGETHER // tables.order[0].numel())
            parts = (x[index] for index in self._tables[0].split(steps))
        if tables.operations is None:
            return chain.from_iterable(parts)
        return chain.from_iterable(map(rand_augment, parts, tables.operations.split(steps)))

    def _load(self, tables: EpochTables) -> None:
        """Copy the tables of an epoch to the device, without waiting for it, and start from zero."""
        order = tables.order.to(self.device, non_blocking=True)  # [steps, R, B]
        labels = self.splits.train.y[order]
        labels[-1, :, self.last :] = IGNORED
        uploaded = [order, labels, tables.keys]
        if tables.draws is not None:
            uploaded.append(self._boxes(tables.draws.to(self.device, non_blocking=True)))
        if not self._tables:
            self._tables = [torch.empty(t.shape, dtype=t.dtype, device=self.device) for t in uploaded]
        for fixed, table in zip(self._tables, uploaded, strict=True):
            fixed.copy_(table, non_blocking=True)
        self.trainer.optimizer.start_epoch(tables.epoch, self.steps)
        self._uploading = tables  # kept in memory until the copies are done
        for tensor in (self.number, self.loss, self.hits):
            tensor.zero_()

    def _boxes(self, draws: Tensor) -> Tensor:
        """The crops [steps, R, B, 5] of random numbers [steps, R, B, augment.used_draws], run by run to save memory."""
        data, size = self.config.data, self.splits.train.x.shape[-1]
        parts = [augment.boxes(run, size, data.hflip, data.crop_padding, data.rrc_scale) for run in draws.unbind(1)]
        return torch.stack(parts, 1)

    def _run(self, size: int) -> None:
        """One step with `size` images a run. Its only inputs are tensors on the device."""
        order, labels, keys, *boxes = (table.index_select(0, self.number)[0] for table in self._tables)
        pixels = self.splits.train.x[order[:, :size]] if not self._prepared else self._pixels[:, :size]
        x = model_input(self.splits, self.config, pixels, boxes[0][:, :size] if boxes else None)
        loss, hits = self.trainer.train_step(x, labels[:, :size], keys, self.number)
        self.loss += loss * self.counts.index_select(0, self.number)
        self.hits += hits
        self.number += 1


def model_input(splits: Splits, config: RunConfig, pixels: Tensor, boxes: Tensor | None) -> Tensor:
    """These pixels [R, B, C, S, S], uint8, augmented by these boxes [R, B, 5] and normalized."""
    x = splits.scaled(pixels, DTYPES[config.train.precision])
    if boxes is not None:
        x = augment.apply(x, augment.matrices(boxes, x.shape[-1], pad=bool(config.data.crop_padding)))
    return splits.normalized(x)
