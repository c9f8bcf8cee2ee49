"""Estimate how long a sweep will take, from finished records of the same shape or from a short measurement."""

from __future__ import annotations

import itertools
import json
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
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
# Settings that hardly change the time of an epoch, beside those of the optimiser.
SAME_TIME = {"seed", "train.epochs", "train.label_smoothing", "model.init", "eval.epochs"}
SAME_TIME |= {"data.root", "data.download", "data.split_seed"}


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

    recorded = recorded_epoch_seconds(out, pick_device(configs[0].device).type, configs[0].threads)
    shapes = [time_shape(run.config) for run in runs]
    missing = {shape: run for shape, run in zip(shapes, runs, strict=True) if shape not in recorded}
    measured = measured_epoch_seconds(missing, configs[0]) if missing and measure else {}
    known = {shape: seconds for shape, seconds in {**recorded, **measured}.items() if shape in shapes}
    if not known:
        return None
    usual = statistics.mean(known[shape] for shape in shapes if shape in known)  # for those not measured in time
    seconds = [known.get(shape, usual) * run.config.train.epochs for shape, run in zip(shapes, runs, strict=True)]
    total = max(sum(seconds) / min(len(configs), len(runs)), *seconds)
    sources = [f"finished records under {out}"] * bool(known.keys() - measured) + ["a short measurement"] * bool(
        measured
    )
    return Estimate(total, " and ".join(sources))


def time_shape(config: RunConfig) -> bytes:
    """Equal for configurations whose epochs take about the same time."""
    flat = dict(flatten(config.model_dump()))
    return canonical({k: v for k, v in flat.items() if k not in SAME_TIME and not k.startswith("optim.")})


def recorded_epoch_seconds(out: Path, device: str, threads: int | None) -> dict[bytes, float]:
    """Time shape -> median seconds per epoch in the finished records made on that device, with so many threads."""
    seconds: dict[bytes, list[float]] = defaultdict(list)
    for path in out.glob(f"*/*/{record.SUMMARY}"):
        try:
            summary = record.read_summary(path.parent)
            shape = time_shape(load(json.loads((path.parent / record.CONFIG).read_text(encoding="utf-8"))))
            hardware, cost = summary["provenance"]["hardware"], summary["cost"]
            if hardware["device"] == device and threads in (None, hardware["threads"]):
                seconds[shape].append(cost["wall_seconds"] / cost["cohort"] / summary["epochs"])
        except (OSError, ValueError, KeyError, TypeError):
            continue  # unreadable, or of another version: of no use here
    return {shape: statistics.median(times) for shape, times in seconds.items()}


def measured_epoch_seconds(runs: Mapping[bytes, RunSpec], config: WorkerConfig) -> dict[bytes, float]:
    """Time shape -> seconds per epoch, measured in a worker, for as many shapes as the time allows.

    Raises `UserError`, except for data that are not here because the runs will download them.
    """
    known: dict[bytes, float] = {}
    end = time.monotonic() + MEASURE_SECONDS
    with tempfile.TemporaryDirectory() as folder:
        worker = Worker(replace(config, test=False, log=Path(folder) / LOG))
        try:
            for shape, run in runs.items():
                worker.send(([RunSpec.of(run.name, shortened(run.config))], Path(folder)))
                ticks, kind, content = [time.monotonic()], "row", []
                while kind == "row" and worker.pipe.poll(max(0.0, end - time.monotonic())):
                    kind, *content = worker.receive()
                    ticks += [time.monotonic()] * (kind == "row")
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
    """The same configuration with as few epochs as a measurement needs, no download, and no evaluation after the last one."""
    evaluations = {path: DEFAULTS[path] for path in SETTINGS if path.startswith("eval.")}
    epochs = min(MEASURE_EPOCHS, config.train.epochs)
    return override(config, {**evaluations, "train.epochs": epochs, "data.download": False})
