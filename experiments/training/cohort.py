"""How many runs to train as one stack: as many as fit into the memory of the GPU."""

import math
from collections.abc import Sequence

import torch

from experiments.config import RunConfig, override
from experiments.memory import free_memory, is_out_of_memory
from experiments.training.compile import OFF
from experiments.training.stacked import Stacked
from experiments.training.trainer import DTYPES, GRID_LIMIT, eval_batch


def cohort_sizes(configs: Sequence[RunConfig], num_classes: int, device: torch.device, share: float = 1.0) -> list[int]:
    """Divide runs into cohorts of nearly equal size; returns the sizes. On a CPU there is one cohort.

    A cohort fits into `share` of the GPU's free memory; there are as few as possible.
    """
    runs = len(configs)
    if device.type != "cuda" or runs < 2:
        return [runs]
    cohorts = math.ceil(runs / fitting(configs, num_classes, device, share))
    return [runs // cohorts + (i < runs % cohorts) for i in range(cohorts)]


def fitting(configs: Sequence[RunConfig], num_classes: int, device: torch.device, share: float = 1.0) -> int:
    """The number of these two runs or more, at least 1, that fit into a share of the GPU's free memory as one stack.

    It is extrapolated from the measured peak memory of a training step and an evaluation with one run and with two.
    """
    peaks: list[int] = []
    try:
        peaks += (_step_peak(configs[:n], num_classes, device) for n in (1, 2))
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
    free_memory()
    if len(peaks) < 2:  # two runs do not fit; one run may
        return 1
    free = torch.cuda.mem_get_info(device)[0] * share * 0.8  # the rest is for the allocator and cuBLAS
    by_memory = int(1 + (free - peaks[0]) / max(peaks[1] - peaks[0], 1))
    return max(1, min(len(configs), by_memory, GRID_LIMIT // configs[0].train.batch_size))


def _step_peak(configs: Sequence[RunConfig], num_classes: int, device: torch.device) -> int:
    """Memory of a training step and an evaluation, uncompiled, optimiser state included (bytes).

    It is the sum of both peaks, because a CUDA graph keeps the memory of its training step during the evaluation.
    """
    configs = [override(config, {"train.compile": OFF}) for config in configs]
    first, runs = configs[0], len(configs)
    (channels, side), batch = first.data.image_shape, first.train.batch_size
    free_memory()
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    trainer = Stacked(configs, num_classes, device)
    x = torch.zeros(runs, batch, channels, side, side, device=device, dtype=DTYPES[first.train.precision])
    y = torch.zeros(runs, batch, device=device, dtype=torch.long)
    keys, number = (torch.zeros(n, device=device, dtype=torch.int32) for n in (runs, 1))
    trainer.train_step(x, y, keys, number)
    training, held = torch.cuda.max_memory_allocated(device), torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    images = x.new_zeros(eval_batch(configs, device), channels, side, side)
    trainer.eval_step(images, y.new_zeros(len(images)))
    return training - before + torch.cuda.max_memory_allocated(device) - held
