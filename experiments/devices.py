"""What of this machine a command may use: CPU cores, and its memory, which may be exhausted."""

import gc
import os

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
GIB = 2**30
OUT_OF_MEMORY = ("out of memory", "STATUS_ALLOC_FAILED", "DefaultCPUAllocator")  # parts of messages


def machine_memory() -> float:
    """Physical memory of this machine in bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def free_memory() -> None:
    """Free unused memory: Python's garbage, and PyTorch's cache on the GPU."""
    import torch

    gc.collect()
    torch.cuda.empty_cache()


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the memory of the device or the machine is exhausted. Some errors are known by their text only."""
    import torch

    return isinstance(error, torch.OutOfMemoryError) or any(words in str(error) for words in OUT_OF_MEMORY)
