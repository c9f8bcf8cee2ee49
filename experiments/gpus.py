"""The GPUs that `--device auto` takes: those that others do not use."""

import functools
import subprocess
import sys

from experiments.errors import UserError

ASK = """
import torch
for i in range(torch.cuda.device_count()):
    try:
        free, total = torch.cuda.mem_get_info(i)
    except RuntimeError:  # another process has it for itself, or its memory is full
        free, total = 0, 1
    print(i, int(2 * free >= total))
"""


@functools.cache
def free_gpus() -> tuple[int, ...]:
    """The GPUs of whose memory at least half is free. A line says which are left out; `UserError` if all are.

    They are asked in a process of its own: the answer needs a context on each GPU, which takes memory of it.
    """
    done = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True)
    if done.returncode:
        raise UserError(f"device: auto: the GPUs do not answer: {(done.stderr.splitlines() or ['no reason'])[-1]}")
    free = {int(line.split()[0]): line.endswith("1") for line in done.stdout.splitlines()}
    used = ", ".join(f"cuda:{gpu}" for gpu, is_free in free.items() if not is_free)
    if not any(free.values()):
        raise UserError(
            f"device: auto: others use more than half of the memory of every GPU; allowed: {used}, which is then "
            "shared, or cpu"
        )
    if used:
        print(f"device: auto leaves out {used}: others use more than half of its memory", file=sys.stderr, flush=True)
    return tuple(gpu for gpu, is_free in free.items() if is_free)
