"""What of this machine a command may use: CPU cores, free GPUs, memory, and what to do where memory is exhausted."""

import functools
import gc
import os
import subprocess
import sys
from collections.abc import Callable
from typing import TypeVar

from experiments.errors import UserError, say

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
ASK = """
import torch
for i in range(torch.cuda.device_count()):
    try:
        free, total = torch.cuda.mem_get_info(i)
    except RuntimeError:  # another process has it for itself
        free, total = 0, 1
    print(f"cuda:{i}", free / total)
"""


@functools.cache
def free_gpus() -> tuple[str, ...]:
    """The GPUs with at least half of their memory free. A line says which are left out; `UserError` if all are.

    A process of its own asks, because the answer needs a context on each GPU, which takes memory of it.
    """
    done = subprocess.run([sys.executable, "-P", "-c", ASK], capture_output=True, text=True)
    if done.returncode:
        raise UserError(f"device: auto: the GPUs do not answer: {done.stderr.strip().rpartition(chr(10))[2]}")
    shares = dict(line.split() for line in done.stdout.splitlines())
    free = tuple(gpu for gpu, share in shares.items() if float(share) >= 0.5)
    used = ", ".join(gpu for gpu in shares if gpu not in free)
    if not free:
        raise UserError(f"device: auto: others use more than half of the memory of every GPU; allowed: {used}, or cpu")
    if used:
        say(f"device: auto leaves out {used}: others use more than half of its memory", error=True)
    return free


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
    import torch

    gc.collect()
    torch.cuda.empty_cache()


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the memory of the device or the machine is exhausted. Some errors are known by their text only."""
    import torch

    return isinstance(error, torch.OutOfMemoryError) or any(words in str(error) for words in OUT_OF_MEMORY)
