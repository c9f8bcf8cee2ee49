"""What to do where memory is exhausted."""

import gc
import os
from collections.abc import Callable
from typing import TypeVar

import torch

T = TypeVar("T")

GIB = 2**30
OUT_OF_MEMORY = ("out of memory", "STATUS_ALLOC_FAILED", "DefaultCPUAllocator")  # parts of messages


def machine_memory() -> float:
    """Physical memory of this machine in bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def in_smaller_batches(compute: Callable[[int], T], size: int) -> T:
    """`compute(size)` of an evaluation, with half the batch size as often as memory is exhausted."""
    while True:
        try:
            return compute(size)
        except RuntimeError as error:
            if size == 1 or not is_out_of_memory(error):
                raise
        free_memory()  # here, because the exception refers to the tensors
        size //= 2


def free_memory() -> None:
    """Free unused memory: Python's garbage, and PyTorch's cache on the GPU."""
    gc.collect()
    torch.cuda.empty_cache()


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the memory of the device or the machine is exhausted. Some errors are known by their text only."""
    return isinstance(error, torch.OutOfMemoryError) or any(words in str(error) for words in OUT_OF_MEMORY)
