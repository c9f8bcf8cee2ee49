"""The summary of a run that has ended, as its record holds it."""

import time
from typing import Any

import torch

from experiments.config import run_id
from experiments.data.images import Splits
from experiments.evaluation.measure import Metrics, after_epoch
from experiments.runs import provenance
from experiments.runs.state import RunState
from experiments.training.stacked import Stacked
from experiments.training.trainer import Solo
from experiments.version import command, now

UNTESTED: Metrics = {"test/loss": None, "test/acc": None}  # of a run that diverged or was pruned


def summary_of(run: RunState, trainer: Solo | Stacked, splits: Splits, measured: Metrics | None) -> dict[str, Any]:
    """Metrics, images, cost and provenance of a run. `measured`: None for a run that diverged or was pruned."""
    row, config = run.rows[-1], run.spec.config
    at_lengths = run.measured
    if measured and len(run.rows) in config.eval.epochs:
        at_lengths = {**at_lengths, **after_epoch(measured, row)}
    images: dict[str, Any] = {f"{part}_images": len(getattr(splits, part)) for part in ("train", "val", "test")}
    images |= {name: value for name in ("files", "copies") if (value := getattr(splits, name))}
    images |= {"classes": splits.classes, "mean": splits.mean.tolist(), "std": splits.std.tolist()}
    return {
        "run_id": run.spec.run_id,
        "status": "finished" if run.status == "running" else run.status,
        "epochs": len(run.rows),
        **{name: value for name, value in row.items() if name not in ("epoch", "lr")},
        **(measured or UNTESTED),
        **at_lengths,
        "data": images,
        "cost": _cost(run, trainer, len(splits.train)),
        "provenance": {
            **provenance.code(),
            "started": run.started,
            "finished": now(),
            "command": command(),
            "versions": provenance.versions(),
            "hardware": provenance.hardware(trainer.device),
            **provenance.plugin(config),
            **({"sessions": run.sessions} if len(run.sessions) > 1 else {}),
        },
    }


def _cost(run: RunState, trainer: Solo | Stacked, images: int) -> dict[str, Any]:
    """What a run cost, in seconds and bytes. `images`: training images of an epoch."""
    seconds, on_gpu = run.seconds["device"], trainer.device.type == "cuda"
    return {
        **provenance.model_cost(trainer.model),
        "wall_seconds": time.perf_counter() - run.clock,
        "device_seconds": seconds,
        "images_per_second": images * len(run.rows) / seconds,
        "peak_memory_bytes": torch.cuda.max_memory_allocated(trainer.device) if on_gpu else None,
        **({"captured": trainer.captured} if on_gpu else {}),
        "cohort": len(trainer.configs),
        "cohort_runs": [run_id(config) for config in trainer.configs],
    }
