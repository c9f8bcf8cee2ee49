"""The plan of an epoch as tables with one row per training step: order, augmentation and dropout keys.

A step reads its row by the number of the step, so that it can run on the device without the host.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from experiments.config import RunConfig
from experiments.data import augment, randaugment
from experiments.training.trainer import stream

T = TypeVar("T")


@dataclass(frozen=True)
class EpochTables:
    """The tables of an epoch of R runs, on the CPU. The rows of the last step are padded with zeros."""

    epoch: int  # from 0
    order: Tensor  # [steps, R, B] int64: images
    draws: Tensor | None  # [steps, R, B, augment.used_draws]: random numbers of the augmentation, if there is one
    operations: Tensor | None  # [steps, R, B, randaugment.DRAWS]: random numbers of RandAugment; they stay on the CPU
    keys: Tensor  # [steps, R] int32: dropout keys

    def pinned(self) -> EpochTables:
        """The same tables in memory from which a GPU copies while the host goes on."""
        draws = None if self.draws is None else self.draws.pin_memory()
        return replace(self, order=self.order.pin_memory(), draws=draws, keys=self.keys.pin_memory())


def epoch_tables(configs: Sequence[RunConfig], n: int, epoch: int, size: int) -> EpochTables:
    """The tables of an epoch (from 0) with n images in batches of `size`. A run's numbers depend on its seed only."""
    steps = math.ceil(n / size)
    orders, draws, operations, keys = zip(
        *(_random_numbers(config, n, epoch, steps) for config in configs), strict=True
    )

    def augmentation(numbers: Sequence[Tensor | None]) -> Tensor | None:
        wanted = [own for own in numbers if own is not None]  # of all runs or of none
        return _by_step(wanted, steps, size) if wanted else None

    tables = _by_step(orders, steps, size), augmentation(draws), augmentation(operations)
    return EpochTables(epoch, *tables, torch.stack(keys, 1))


def _random_numbers(
    config: RunConfig, n: int, epoch: int, steps: int
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor]:
    """The random numbers of an epoch, from the run's seed: order [n], augmentation [n, used_draws] or None,
    RandAugment [n, randaugment.DRAWS] or None, dropout keys [steps].
    """
    data = config.data
    used = augment.used_draws(data.hflip, data.crop_padding, data.rrc_scale)
    order = torch.randperm(n, generator=stream(config.seed, "order", epoch))
    draws = torch.rand(n, augment.DRAWS, generator=stream(config.seed, "augment", epoch))[:, :used] if used else None
    choice = stream(config.seed, "randaugment", epoch)
    operations = torch.rand(n, randaugment.DRAWS, generator=choice) if data.randaugment else None
    keys = torch.randint(2**31 - 1, (steps,), dtype=torch.int32, generator=stream(config.seed, "dropout", epoch))
    return order, draws, operations, keys


def _by_step(parts: Sequence[Tensor], steps: int, size: int) -> Tensor:
    """R tensors [n, ...] as one [steps, R, size, ...], padded with zeros."""
    whole = torch.stack(list(parts))  # [R, n, ...]
    padding = steps * size - whole.shape[1]
    whole = F.pad(whole, (0, 0) * (whole.ndim - 2) + (0, padding))
    return whole.unflatten(1, (steps, size)).transpose(0, 1).contiguous()


def one_ahead(make: Callable[[int], T], epochs: Iterable[int]) -> Iterator[T]:
    """make(epoch) of each epoch. A thread makes the next one while the caller uses the current one."""
    with ThreadPoolExecutor(1, "tables") as pool:
        waiting = None
        for epoch in epochs:
            future = pool.submit(make, epoch)
            if waiting is not None:
                yield waiting.result()
            waiting = future
        if waiting is not None:
            yield waiting.result()
