"""What of this machine a command may use: CPU cores, and the GPUs of `--device auto`, which others do not use."""

import functools
import os
import subprocess
import sys

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
