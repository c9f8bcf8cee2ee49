"""Estimate how long a sweep will take, from a short measurement."""

import contextlib
import itertools
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.config import DEFAULTS, SETTINGS, RunConfig, flatten, override
from experiments.errors import UserError
from experiments.files import canonical
from experiments.study import RunSpec
from sweeps.engines.contract import Engine

MEASURE_SECONDS = 60.0  # after which a measurement ends, with its present epoch
FIRST_EPOCH_SECONDS = 300.0  # at most, beyond that, until the first epoch has ended
MEASURE_EPOCHS = 3  # of each shape; the first takes longer than the others
# Settings that hardly change the time of an epoch, beside those of the optimiser.
SAME_TIME = {"seed", "train.epochs", "train.label_smoothing", "model.init", "eval.epochs"}
SAME_TIME |= {"data.root", "data.download", "data.split_seed"}


def estimate(runs: Sequence[RunSpec], engine: Engine) -> float | None:
    """Estimate the seconds that the workers need for these runs.

    By a measurement of up to a minute, or of one epoch that takes longer. None if no epoch was measured. Raises
    `UserError` where the measurement finds bad input.
    """
    shapes = [time_shape(run.config) for run in runs]
    by_shape = dict(zip(shapes, runs, strict=True))
    measured = engine.call(measured_epoch_seconds, by_shape, seconds=FIRST_EPOCH_SECONDS + MEASURE_SECONDS)
    if not measured:
        return None
    usual = statistics.mean(measured.values())  # for those not measured in time
    seconds = [measured.get(shape, usual) * run.config.train.epochs for shape, run in zip(shapes, runs, strict=True)]
    return max(sum(seconds) / min(engine.places, len(runs)), *seconds)


def time_shape(config: RunConfig) -> bytes:
    """Equal for configurations whose epochs take about the same time."""
    flat = dict(flatten(config.model_dump()))
    return canonical({k: v for k, v in flat.items() if k not in SAME_TIME and not k.startswith("optim.")})


class _TimeIsUp(Exception):
    """Ends a measurement."""


def measured_epoch_seconds(device: str, runs: Mapping[bytes, RunSpec]) -> dict[bytes, float]:
    """Time shape -> seconds per epoch, measured in this process, for as many shapes as the time allows.

    Raises `UserError`, except for data that are not here because the runs will download them.
    """
    from experiments.runs.run import train

    known: dict[bytes, float] = {}
    end = time.monotonic() + MEASURE_SECONDS

    def on_row(index: int, row: dict[str, float]) -> None:
        ticks.append(time.monotonic())
        if ticks[-1] > end:
            raise _TimeIsUp

    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(_TimeIsUp):
        for shape, run in runs.items():
            ticks = [time.monotonic()]
            try:
                train(
                    [RunSpec.of(run.name, shortened(run.config))],
                    Path(folder),
                    device=device,
                    on_row=on_row,
                    test=False,
                )
            except UserError:
                if run.config.data.download:
                    break
                raise
            finally:
                if epochs := [after - before for before, after in itertools.pairwise(ticks)]:
                    known[shape] = statistics.mean(epochs[1:] or epochs)
    return known


def shortened(config: RunConfig) -> RunConfig:
    """The configuration with as few epochs as a measurement needs, no download, and no evaluation at the end."""
    evaluations = {path: DEFAULTS[path] for path in SETTINGS if path.startswith("eval.")}
    epochs = min(MEASURE_EPOCHS, config.train.epochs)
    return override(config, {**evaluations, "train.epochs": epochs, "data.download": False})
