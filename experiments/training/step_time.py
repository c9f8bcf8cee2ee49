"""The time of a training step of a run, and how it compares in float32 and in bfloat16."""

import statistics
import time
from collections.abc import Callable

import torch

from experiments.config import RunConfig, override
from experiments.data.images import Images, Splits
from experiments.memory import batch_named, free_memory
from experiments.training.compile import OFF
from experiments.training.step import DeviceStep
from experiments.training.tables import epoch_tables
from experiments.training.trainer import Solo
from vit.probe import check_plugin

STEPS = 8  # timed at once on a GPU
SECONDS = 1.0  # in which float32 and bfloat16 take turns; each has at least one
MOST_IMAGES = 512  # of a batch in that comparison, which depends little on the batch size


def step_timer(config: RunConfig, num_classes: int, device: torch.device, steps: int = STEPS) -> Callable[[], float]:
    """A function that does training steps, uncompiled, on black images, and returns the seconds of one.

    On a CPU it is the processor time of this process, which other work on the machine hardly changes. The first call
    takes longer: it creates the optimiser's state and, on a GPU, captures the step as a CUDA graph.
    """
    config, n = override(config, {"train.compile": OFF}), steps * config.train.batch_size
    channels, side = config.data.image_shape
    images = Images(torch.zeros(n, channels, side, side, dtype=torch.uint8), torch.zeros(n, dtype=torch.long))
    half = torch.full((channels,), 0.5)
    splits = Splits(images, images, images, ("",) * num_classes, half, half).to(device)
    step = DeviceStep(Solo([config], num_classes, device), splits)
    tables = epoch_tables([config], n, 0, step.size)
    clock = time.process_time if device.type == "cpu" else time.perf_counter

    def turn() -> float:
        _wait_for(device)
        begin = clock()
        step.run_epoch(tables)
        _wait_for(device)
        return (clock() - begin) / steps

    return turn


def bfloat16_speedup(config: RunConfig, device: torch.device) -> float:
    """How many times as fast a step of this run is in bfloat16 as in float32, uncompiled; on a CPU with one thread.

    It is measured for about a second, and takes longer where a step takes longer. Raises `UserError` where a step does
    not fit in memory, and `PluginError` where the plug-in cannot work.
    """
    threads, classes = torch.get_num_threads(), config.data.num_classes or 2
    check_plugin(config.vit_config(classes))
    try:
        torch.set_num_threads(1 if device.type == "cpu" else threads)
        with batch_named(config):
            return _median_ratio(config, classes, device)
    finally:
        torch.set_num_threads(threads)
        free_memory()


def _median_ratio(config: RunConfig, num_classes: int, device: torch.device) -> float:
    """The median of seconds in float32 / seconds in bfloat16. They take turns: the speed of a machine varies."""
    steps = STEPS if device.type == "cuda" else 1
    size = min(config.train.batch_size, config.data.train_limit or MOST_IMAGES, MOST_IMAGES)
    changes = {"train.batch_size": size}
    runs = [override(config, {"train.precision": precision, **changes}) for precision in ("float32", "bfloat16")]
    timers = [step_timer(run, num_classes, device, steps) for run in runs]
    for timer in timers:
        timer()
    ratios, end = list[float](), time.perf_counter() + SECONDS
    while not ratios or time.perf_counter() < end:
        seconds, seconds_bfloat16 = (timer() for timer in timers)
        ratios.append(seconds / seconds_bfloat16)
    return statistics.median(ratios)


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
