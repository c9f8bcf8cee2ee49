"""A check that images fit in memory before they are decoded; and what to do where memory is exhausted."""

import contextlib
import gc
import math
import os
from collections.abc import Callable, Iterator
from typing import TypeVar

import torch

from experiments.config import RunConfig
from experiments.errors import UserError
from vit.config import Architecture

T = TypeVar("T")

GIB = 2**30
OUT_OF_MEMORY = ("out of memory", "STATUS_ALLOC_FAILED", "DefaultCPUAllocator")  # parts of messages


def machine_memory() -> float:
    """Physical memory of this machine in bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def check_images(count: int, channels: int, side: int) -> None:
    """Raise `UserError` if this machine's memory is too small for decoded images with one byte per value."""
    need, memory = count * channels * side**2, machine_memory()
    if need > memory:
        allowed = math.isqrt(int(memory) // (channels * count))
        raise UserError(
            f"data.img_size: {side}: {count:,} decoded images need {need / GIB:,.1f} GiB; "
            f"the memory is {memory / GIB:,.1f} GiB; allowed: up to {allowed}, or fewer images"
        )


def check_model(model: Architecture) -> None:
    """Raise `UserError` if this machine's memory is too small for the layers' weights and gradients, as float32."""
    need, memory = 2 * 4 * model.depth * model.layer_weights, machine_memory()
    if need > memory:
        allowed = int(memory) // (2 * 4 * model.layer_weights)
        fits = f"a depth up to {allowed}, or " if allowed else ""
        raise UserError(
            f"model.embed_dim: {model.embed_dim} with model.depth {model.depth} needs {need / GIB:,.0f} GiB for "
            f"weights and gradients; the memory is {memory / GIB:,.1f} GiB; allowed: {fits}a smaller embed_dim"
        )


class ImageDoesNotFit(RuntimeError):
    """The evaluation of a single image does not fit in memory."""


def in_smaller_batches(compute: Callable[[int], T], size: int, side: int) -> T:
    """`compute(size)` of an evaluation, with half the batch size as often as memory is exhausted.

    Raises `ImageDoesNotFit` where that is so with one image, of `side` pixels.
    """
    while True:
        try:
            return compute(size)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            if size == 1:
                raise ImageDoesNotFit(
                    f"one image of {side} px does not fit in memory to evaluate it: {error}"
                ) from error
        free_memory()  # here, because the exception refers to the tensors
        size //= 2


def free_memory() -> None:
    """Free unused memory: Python's garbage, and PyTorch's cache on the GPU."""
    gc.collect()
    torch.cuda.empty_cache()


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the memory of the device or the machine is exhausted. Some errors are known by their text only."""
    return isinstance(error, torch.OutOfMemoryError) or any(words in str(error) for words in OUT_OF_MEMORY)


@contextlib.contextmanager
def batch_named(config: RunConfig) -> Iterator[None]:
    """Where memory is exhausted, raise a `UserError` that names the batch size, or the image that does not fit."""
    try:
        yield
    except ImageDoesNotFit as error:
        raise UserError(f"model: {error}") from error
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        size = f"{config.train.batch_size} images of {config.data.image_shape[1]} px"
        raise UserError(f"train.batch_size: a batch of {size} does not fit in memory: {error}") from error
