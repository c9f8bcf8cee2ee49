"""Estimate how long a sweep will take, from finished records of the same shape or from a short measurement."""

from __future__ import annotations

import itertools
import json
import math
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from experiments.config import DEFAULTS, SETTINGS, RunConfig, flatten, load, override
from experiments.errors import UserError
from experiments.files import canonical
from experiments.runs import record
from experiments.study import RunSpec
from sweeps.study_folder import LOG
from sweeps.workers.worker import Worker, WorkerConfig

MEASURE_SECONDS = 60.0  # at most, for a measurement, with the start of the worker
MEASURE_EPOCHS = 3  # of each shape; the first takes longer than the others
IGNORED = (
    "seed",
    "train.epochs",
    "train.label_smoothing",
    "data.root",
    "data.download",
    "data.split_seed",
    "model.init",
    "eval.epochs",
)
IGNORED_SECTION = "optim."  # no setting of the optimiser changes the time of an epoch by much


@dataclass(frozen=True)
class Estimate:
    """The time that the runs will take, and where the time per epoch comes from."""

    seconds: float
    source: str


def estimate(
    runs: Sequence[RunSpec], out: Path, configs: Sequence[WorkerConfig], measure: bool = True
) -> Estimate | None:
    """Estimate the time that the workers need for these runs; None if the time of an epoch is not known.

    It reads the finished records in `out`/*/*. Shapes without a record are measured for up to a minute in a temporary
    folder; without `measure`, the mean of the other shapes stands for them.
    Raises `UserError` where the measurement finds bad input.
    """
    from experiments.runs.run import pick_device

    known = recorded_epoch_seconds(out, pick_device(configs[0].device).type, configs[0].threads)
    missing = {shape: run for run in runs if (shape := time_shape(run.config)) not in known}
    recorded = len({time_shape(run.config) for run in runs} - missing.keys())
    measured = measured_epoch_seconds(missing, configs[0]) if missing and measure else {}
    known |= measured
    times = [known[shape] for run in runs if (shape := time_shape(run.config)) in known]
    if not times:
        return None
    usual = statistics.mean(times)  # for shapes that the measurement had no time for
    seconds = [known.get(time_shape(run.config), usual) * run.config.train.epochs for run in runs]
    total = max(sum(seconds) / min(len(configs), len(runs)), *seconds)
    sources = [f"finished records under {out}"] * bool(recorded) + ["a short measurement"] * bool(measured)
    return Estimate(total, " and ".join(sources))


def time_shape(config: RunConfig) -> bytes:
    """Equal for configurations whose epochs take about the same time."""
    flat = dict(flatten(config.model_dump()))
    return canonical({k: v for k, v in flat.items() if k not in IGNORED and not k.startswith(IGNORED_SECTION)})


def recorded_epoch_seconds(out: Path, device: str, threads: int | None) -> dict[bytes, float]:
    """Time shape -> median seconds per epoch in the finished records made on that device, with so many threads."""
    found: dict[bytes, list[float]] = defaultdict(list)
    for path in out.glob(f"*/*/{record.SUMMARY}"):
        try:
            summary = record.read_summary(path.parent)
            config = load(json.loads((path.parent / record.CONFIG).read_text(encoding="utf-8")))
            hardware, cost = summary["provenance"]["hardware"], summary["cost"]
            seconds = cost["wall_seconds"] / cost["cohort"] / summary["epochs"]
        except (
            OSError,
            ValueError,
            KeyError,
            TypeError,
            RecursionError,
        ):  # unreadable, or from another version: of no use here
            continue
        if hardware["device"] == device and threads in (None, hardware["threads"]):
            found[time_shape(config)].append(seconds)
    return {shape: statistics.median(times) for shape, times in found.items()}


def measured_epoch_seconds(runs: Mapping[bytes, RunSpec], config: WorkerConfig) -> dict[bytes, float]:
    """Time shape -> seconds per epoch, measured in a worker, for as many shapes as the time allows."""
    found: dict[bytes, float] = {}
    end = time.monotonic() + MEASURE_SECONDS
    with tempfile.TemporaryDirectory() as folder:
        worker = Worker(replace(config, test=False, log=Path(folder) / LOG))
        try:
            for shape, run in runs.items():
                worker.submit([RunSpec.of(run.name, shortened(run.config))], Path(folder))
                seconds, finished = _time_epoch(worker, end, run.config.data.download)
                if math.isfinite(seconds):
                    found[shape] = seconds
                if not finished:
                    break
        finally:
            worker.stop()
    return found


def shortened(config: RunConfig) -> RunConfig:
    """The same configuration with as few epochs as a measurement needs, and nothing to evaluate after the last one.

    It downloads nothing.
    """
    epochs = min(MEASURE_EPOCHS, config.train.epochs)
    evaluations = {path: DEFAULTS[path] for path in SETTINGS if path.startswith("eval.")}
    return override(config, {**evaluations, "train.epochs": epochs, "data.download": False})


def _time_epoch(worker: Worker, end: float, ignore_errors: bool) -> tuple[float, bool]:
    """The seconds per epoch of the run that was submitted, infinite if no epoch ended; and whether the run ended."""
    ticks, ended = [time.monotonic()], ""
    while not ended and worker.pipe.poll(max(0.0, end - time.monotonic())):
        kind, *content = worker.receive()
        if kind == "row":
            ticks.append(time.monotonic())
            continue
        ended = kind
        if kind == "failed" and content[0] and not ignore_errors:
            raise UserError(content[1])
    epochs = _intervals(ticks)
    return (statistics.mean(epochs[1:] or epochs) if epochs else math.inf), ended == "done"


def _intervals(ticks: Iterable[float]) -> list[float]:
    return [after - before for before, after in itertools.pairwise(ticks)]
