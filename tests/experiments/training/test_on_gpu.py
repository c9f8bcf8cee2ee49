"""On a GPU: how every variant moves its parameters, against float64 on the CPU; a CUDA graph against single
operations.
"""

import os

import movements
import pytest
import tiny
import torch

from experiments.compared import RunSpec
from experiments.config import RunConfig
from experiments.data import loading
from experiments.runs.run import train
from experiments.training.fit import fit
from vit import kernels
from vit.registry import REGISTRY

DEVICE = torch.device(os.environ.get("TEST_DEVICE", "cuda"))  # cpu tries these tests without a GPU
CHANGES = {"data__hflip": True, "model__pos_drop_rate": 0.1, "model__depth": 2, "train__epochs": 2}

pytestmark = pytest.mark.skipif(DEVICE.type == "cuda" and not torch.cuda.is_available(), reason="no GPU")


def losses(configs: list[RunConfig], capture: bool) -> list[float]:
    """The training and validation losses of all runs and epochs."""
    splits = loading.load(configs[0]).to(DEVICE)
    trainer = tiny.trainer(configs, DEVICE)
    rows = [row for rows in fit(trainer, splits, capture=capture) for row in rows]
    assert trainer.captured is (True if capture and DEVICE.type == "cuda" else None)
    return [row[key] for row in rows for key in ("train/loss", "val/loss")]


@pytest.mark.parametrize("runs", [1, 3], ids=["alone", "stacked"])
@pytest.mark.parametrize("precision", movements.TOLERANCE)
@pytest.mark.parametrize("shape", movements.SHAPES)
@pytest.mark.parametrize("kind", REGISTRY)
def test_parameters_move_as_in_float64_on_the_cpu(kind, shape, precision, runs, monkeypatch):
    monkeypatch.setattr(kernels, "_LEAST_ROWS", 1)  # else these products are too small for gradients in parts
    configs = [movements.config(kind, precision, shape, seed) for seed in range(runs)]
    errors = movements.errors(configs, DEVICE)
    assert max(errors.values()) < movements.TOLERANCE[precision], max(errors, key=lambda name: errors[name])


@pytest.mark.parametrize("runs", [1, 3], ids=["alone", "stacked"])
@pytest.mark.parametrize("precision", movements.TOLERANCE)
@pytest.mark.parametrize("flags", movements.FLAGS, ids=lambda flags: ",".join(flags))
def test_parameters_move_so_with_each_flag(flags, precision, runs, monkeypatch):
    monkeypatch.setattr(kernels, "_LEAST_ROWS", 1)
    configs = [movements.config("learned-1d", precision, "17 tokens, width 4", seed, **flags) for seed in range(runs)]
    errors = movements.errors(configs, DEVICE)
    assert max(errors.values()) < movements.TOLERANCE[precision], max(errors, key=lambda name: errors[name])


@pytest.mark.parametrize("runs", [1, 2], ids=["alone", "stacked"])
@pytest.mark.parametrize("optimiser", ["adamw", "adam", "sgd"])
def test_a_cuda_graph_is_used_and_gives_the_same_numbers(optimiser, runs, capfd):
    changes = {
        **CHANGES,
        "train__precision": "float64",
        "train__epochs": 4,
        "optim__name": optimiser,
        "optim__grad_clip_norm": 1.0,
    }
    configs = [tiny.config(seed=seed, **changes) for seed in range(runs)]
    assert losses(configs, capture=True) == pytest.approx(losses(configs, capture=False), rel=1e-6)
    assert "CUDA graph" not in capfd.readouterr().err


@pytest.mark.parametrize("runs", [1, 3], ids=["alone", "stacked"])
def test_interrupted_runs_end_with_the_same_bytes(runs, tmp_path):
    """A thread writes the records of an epoch while the GPU trains the next one."""
    specs = [RunSpec.of(str(seed), tiny.config(seed=seed, train__epochs=4)) for seed in range(runs)]
    train(specs, tmp_path / "whole", device=str(DEVICE))
    with pytest.raises(tiny.Stop):
        train(specs, tmp_path / "cut", device=str(DEVICE), on_row=lambda i, row: stop(row) if i == runs - 1 else None)
    train(specs, tmp_path / "cut", device=str(DEVICE))
    for name in map(str, range(runs)):
        assert tiny.results(tmp_path / "cut" / name) == tiny.results(tmp_path / "whole" / name)


def stop(row: dict[str, float]) -> None:
    if row["epoch"] == 2:
        raise tiny.Stop
