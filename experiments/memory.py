"""Checks that a run can fit in memory, before anything is allocated; and the error of one that does not.

The estimates are lower bounds.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator

from experiments.config import RunConfig
from experiments.errors import UserError

GIB = 2**30
BYTES_PER_WEIGHT = 12  # float32 weight, its gradient and at least one value of the optimizer


def machine_memory() -> float:
    """Physical memory of this machine in bytes; infinite if the system does not tell."""
    if not hasattr(os, "sysconf"):  # Windows
        return math.inf
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def check_model(config: RunConfig, memory: float) -> None:
    """Raise `UserError` if a training step with one image needs more than `memory` bytes."""
    vit = config.vit_config(config.data.num_classes or 2)
    weights = vit.depth * vit.embed_dim * (2 * vit.hidden_dim + 3 * vit.head_dim)
    activations = vit.depth * vit.num_tokens * vit.embed_dim  # the input of each layer, for the backward pass
    need = BYTES_PER_WEIGHT * weights + 4 * activations
    if need > memory:
        size = f"embed_dim {vit.embed_dim}, depth {vit.depth} and {vit.num_tokens} tokens"
        raise UserError(f"model: {size} need at least {need / GIB:,.1f} GiB; the memory is {memory / GIB:,.1f} GiB")


def check_images(count: int, channels: int, side: int) -> None:
    """Raise `UserError` if this machine's memory is too small for decoded images with one byte per value."""
    need, memory = count * channels * side**2, machine_memory()
    if need > memory:
        allowed = math.isqrt(int(memory) // (channels * count))
        raise UserError(
            f"data.img_size: {side}: {count:,} decoded images need {need / GIB:,.1f} GiB; "
            f"the memory is {memory / GIB:,.1f} GiB; allowed: up to {allowed}, or fewer images"
        )


@contextlib.contextmanager
def batch_named(config: RunConfig) -> Iterator[None]:
    """Where the memory of the device or of the machine is exhausted, raise a `UserError` that names the batch size."""
    import torch

    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, torch.OutOfMemoryError) and "DefaultCPUAllocator" not in str(error):
            raise
        size = f"{config.train.batch_size} images of {config.data.image_shape[1]} px"
        raise UserError(f"train.batch_size: a batch of {size} does not fit in memory: {error}") from error
