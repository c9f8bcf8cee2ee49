"""The plan of an epoch as tables with one row per training step: order, augmentation and dropout keys.

A step reads its row by the number of the step, so that it can run on the device without the host.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from experiments.config import RunConfig
from experiments.data import augment, policies
from experiments.training.trainer import stream

T = TypeVar("T")


STEPWISE = ("keys", "mixes")  # tables with one row for each step; the others have one for each of its images


@dataclass(frozen=True)
class EpochTables:
    """The tables of an epoch (from 0) of R runs, on the CPU. The rows of the last step are padded with zeros.

    numbers: those of `_random_numbers` by name, as [steps, R, B, ...], or [steps, R, ...] for those in `STEPWISE`.
    """

    epoch: int
    numbers: Mapping[str, Tensor]

    def pinned(self) -> EpochTables:
        """The same tables in memory from which a GPU copies while the host goes on."""
        pinned = {name: t.pin_memory() for name, t in self.numbers.items() if name != "operations"}
        return replace(self, numbers={**self.numbers, **pinned})


def epoch_tables(configs: Sequence[RunConfig], n: int, epoch: int, size: int) -> EpochTables:
    """The tables of an epoch (from 0) with n images in batches of `size`. A run's numbers depend on its seed only."""
    steps = math.ceil(n / size)
    runs = [_random_numbers(config, n, epoch, steps) for config in configs]
    tables = {}
    for name in runs[0]:
        whole = torch.stack([run[name] for run in runs])  # [R, n or steps, ...]
        if name not in STEPWISE:
            whole = F.pad(whole, (0, 0) * (whole.ndim - 2) + (0, steps * size - n)).unflatten(1, (steps, size))
        tables[name] = whole.transpose(0, 1).contiguous()
    return EpochTables(epoch, tables)


def _random_numbers(config: RunConfig, n: int, epoch: int, steps: int) -> dict[str, Tensor]:
    """The random numbers of an epoch, from the run's seed; those of an augmentation only where it is on.

    order [n], images; draws [n, used_draws], of flips and crops; operations [n, policies.DRAWS], which stay on the
    CPU; erasing [n, augment.DRAWS]; mixes [steps, 5]; keys [steps], int32, of dropout.
    """
    data, generator = config.data, lambda purpose: stream(config.seed, purpose, epoch)
    numbers = {"order": torch.randperm(n, generator=generator("order"))}
    if used := augment.used_draws(data.hflip, data.crop_padding, data.rrc_scale):
        numbers["draws"] = torch.rand(n, augment.DRAWS, generator=generator("augment"))[:, :used]
    if policy := policies.policy_of(data):
        numbers["operations"] = torch.rand(n, policies.DRAWS[policy], generator=generator(policy))
    if data.random_erasing:
        numbers["erasing"] = torch.rand(n, augment.DRAWS, generator=generator("erasing"))
    if data.mixup or data.cutmix:
        seed, side = generator("mixing").initial_seed(), data.image_shape[1]
        numbers["mixes"] = augment.mixes(seed, steps, side, data.mixup, data.cutmix)
    keys = torch.randint(2**31 - 1, (steps,), dtype=torch.int32, generator=generator("dropout"))
    return {**numbers, "keys": keys}


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
