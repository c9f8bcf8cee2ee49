"""Estimate how long a sweep will take, from a short measurement."""

import itertools
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from experiments.config import DEFAULTS, SETTINGS, RunConfig, flatten, override
from experiments.errors import UserError
from experiments.files import canonical
from experiments.study import RunSpec
from sweeps.study_folder import LOG
from sweeps.workers.worker import Worker, WorkerConfig

MEASURE_SECONDS = 60.0  # at most, for a measurement, with the start of the worker
FIRST_EPOCH_SECONDS = 300.0  # at most, for the first epoch: without one nothing is known
MEASURE_EPOCHS = 3  # of each shape; the first takes longer than the others
# Settings that hardly change the time of an epoch, beside those of the optimiser.
SAME_TIME = {"seed", "train.epochs", "train.label_smoothing", "model.init", "eval.epochs"}
SAME_TIME |= {"data.root", "data.download", "data.split_seed"}


def estimate(runs: Sequence[RunSpec], configs: Sequence[WorkerConfig]) -> float | None:
    """Estimate the seconds that the workers need for these runs.

    By a measurement of up to a minute, or of one epoch that takes longer. None if no epoch was measured. Raises
    `UserError` where the measurement finds bad input.
    """
    shapes = [time_shape(run.config) for run in runs]
    measured = measured_epoch_seconds(dict(zip(shapes, runs, strict=True)), configs[0])
    if not measured:
        return None
    usual = statistics.mean(measured.values())  # for those not measured in time
    seconds = [measured.get(shape, usual) * run.config.train.epochs for shape, run in zip(shapes, runs, strict=True)]
    return max(sum(seconds) / min(len(configs), len(runs)), *seconds)


def time_shape(config: RunConfig) -> bytes:
    """Equal for configurations whose epochs take about the same time."""
    flat = dict(flatten(config.model_dump()))
    return canonical({k: v for k, v in flat.items() if k not in SAME_TIME and not k.startswith("optim.")})


def measured_epoch_seconds(runs: Mapping[bytes, RunSpec], config: WorkerConfig) -> dict[bytes, float]:
    """Time shape -> seconds per epoch, measured in a worker, for as many shapes as the time allows.

    Raises `UserError`, except for data that are not here because the runs will download them.
    """
    known: dict[bytes, float] = {}
    start = time.monotonic()
    end = start + FIRST_EPOCH_SECONDS
    with tempfile.TemporaryDirectory() as folder:
        worker = Worker(replace(config, test=False, log=Path(folder) / LOG))
        try:
            for shape, run in runs.items():
                worker.send(([RunSpec.of(run.name, shortened(run.config))], Path(folder)))
                ticks, kind, content = [time.monotonic()], "row", []
                while kind == "row" and worker.pipe.poll(max(0.0, end - time.monotonic())):
                    kind, *content = worker.receive()
                    if kind == "row":
                        ticks.append(time.monotonic())
                        end = start + MEASURE_SECONDS
                if kind == "failed" and content[0] and not run.config.data.download:
                    raise UserError(content[1])
                if epochs := [after - before for before, after in itertools.pairwise(ticks)]:
                    known[shape] = statistics.mean(epochs[1:] or epochs)
                if kind != "done":
                    break
        finally:
            worker.stop()
    return known


def shortened(config: RunConfig) -> RunConfig:
    """The configuration with as few epochs as a measurement needs, no download, and no evaluation at the end."""
    evaluations = {path: DEFAULTS[path] for path in SETTINGS if path.startswith("eval.")}
    epochs = min(MEASURE_EPOCHS, config.train.epochs)
    return override(config, {**evaluations, "train.epochs": epochs, "data.download": False})
