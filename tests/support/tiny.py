"""The smallest run that has every part, for tests that train: well under a second on one core. No assertions here."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from experiments.compared import RunSpec
from experiments.config import RunConfig, override
from experiments.runs import record
from experiments.runs.run import train
from experiments.training import stacked
from experiments.training.stacked import Stacked
from experiments.training.trainer import Solo
from vit import ViT

TINY = {
    "data.train_limit": 80,
    "model.embed_dim": 8,
    "model.num_heads": 2,
    "model.depth": 1,
    "model.mlp_ratio": 2.0,
    "model.init": "torch",
    "optim.lr": 5e-3,
    "optim.warmup_epochs": 1,
    "train.epochs": 3,
    "train.batch_size": 32,
}

# what a finished run leaves
FILES = {record.CONFIG, record.METRICS, record.CHECKPOINT, record.PREDICTIONS, record.SUMMARY}


def settings(**changes: Any) -> dict[str, Any]:
    """By dotted path: digits, 80 training images, one layer of width 8, 3 epochs; and changes, as `model__depth=2`."""
    return {**TINY, **{path.replace("__", "."): value for path, value in changes.items()}}


def flags(**changes: object) -> list[str]:
    """The flags of these `settings`, for `vit-train`."""
    return [part for path, value in settings(**changes).items() for part in (f"--{path.replace('_', '-')}", str(value))]


def config(**changes: Any) -> RunConfig:
    """The run of these `settings`."""
    return override(RunConfig(), settings(**changes))


def run(folder: Path, on_row: Any = None, **changes: Any) -> dict[str, Any]:
    """Train it in a folder; the summary."""
    (summary,) = train([RunSpec.of(folder.name, config(**changes))], folder.parent, device="cpu", on_row=on_row)
    return summary


def trainer(configs: Sequence[RunConfig], device: torch.device | str = "cpu") -> Solo | Stacked:
    """The trainer of runs of ten classes, alone or in a stack."""
    return (Solo if len(configs) == 1 else Stacked)(configs, 10, torch.device(device))


def results(folder: Path) -> dict[str, bytes]:
    """What a run left that must not depend on when and how often it was interrupted, byte for byte."""
    return {name: (folder / name).read_bytes() for name in (record.CONFIG, record.METRICS, record.CHECKPOINT)}


def files(folder: Path) -> set[str]:
    """What lies in a folder. The diff of a checkout with changes is left out."""
    return {path.name for path in folder.iterdir()} - {record.DIFF}


class Stop(Exception):
    """Interrupts a run."""


def stop_after(epoch: int, job: int = 0) -> Callable[[int, dict[str, float]], None]:
    """An `on_row` that interrupts the runs when this one has finished that epoch."""

    def on_row(number: int, row: dict[str, float]) -> None:
        if (number, row["epoch"]) == (job, epoch):
            raise Stop

    return on_row


def cut(folder: Path, epoch: int, **changes: Any) -> None:
    """Train it in a folder, and interrupt it after that epoch."""
    with pytest.raises(Stop):
        run(folder, stop_after(epoch), **changes)


def cohort(out: Path, on_row: Any = None, **changes: Any) -> list[dict[str, Any]]:
    """Three runs, trained together: the second diverges at once, the third is pruned after two epochs.

    Their summaries.
    """
    members = [config(seed=seed, optim__name="sgd", optim__schedule="constant", **changes) for seed in range(3)]

    def prune(job: int, row: dict[str, float]) -> bool:
        if on_row:
            on_row(job, row)
        return job == 2 and row["epoch"] == 2

    with diverging(seed=1):
        return train([RunSpec.of(str(i), one) for i, one in enumerate(members)], out, device="cpu", on_row=prune)


@contextlib.contextmanager
def diverging(seed: int) -> Iterator[None]:
    """The run with this seed diverges in its first epoch if it is a member of a cohort: it starts with infinite
    weights.
    """
    initial_model = stacked.initial_model

    def spoiled(config: RunConfig, num_classes: int) -> ViT:
        model = initial_model(config, num_classes)
        if config.seed == seed:
            next(model.parameters()).data.fill_(float("inf"))
        return model

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stacked, "initial_model", spoiled)
        yield
