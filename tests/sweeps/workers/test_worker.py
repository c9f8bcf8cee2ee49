"""Which workers a sweep starts: on a CPU, on one GPU and on several. The GPUs are mocked."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from experiments.config import RunConfig, override
from experiments.errors import UserError
from experiments.runs import run as run_module
from experiments.study import RunSpec
from sweeps.workers.worker import Datasets, worker_configs

LOG = Path("sweep.log")


@pytest.fixture
def four_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch, "zeros", lambda *size, dtype, device: torch.ones(1))  # `pick_device` tries the device


def placed(**options) -> list[tuple[str, float]]:
    """(device, share of its memory) of each worker."""
    return [(config.device, config.memory_share) for config in worker_configs(LOG, **options)]


@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_each_gpu_gets_a_worker_of_its_own(four_gpus, device):
    assert placed(device=device) == [(f"cuda:{i}", 1.0) for i in range(4)]


def test_workers_on_one_gpu_share_its_memory(four_gpus):
    configs = placed(workers_per_gpu=2)
    assert sorted(configs) == sorted([(f"cuda:{i}", 0.5) for i in range(4)] * 2)
    assert len({device for device, _ in configs[:4]}) == 4  # the first four workers use all GPUs


def test_a_number_of_workers_is_spread_over_the_gpus(four_gpus):
    assert placed(workers=2) == [("cuda:0", 1.0), ("cuda:1", 1.0)]
    assert placed(workers=5) == [("cuda:0", 0.5), ("cuda:1", 1.0), ("cuda:2", 1.0), ("cuda:3", 1.0), ("cuda:0", 0.5)]


def test_a_gpu_that_is_named_is_the_only_one_used(four_gpus):
    assert placed(device="cuda:2") == [("cuda:2", 1.0)]
    assert placed(device="cuda:2", workers_per_gpu=3) == [("cuda:2", pytest.approx(1 / 3))] * 3


def test_a_worker_on_a_cpu_has_one_thread():
    configs = worker_configs(LOG, device="cpu", workers=3)
    assert [(config.device, config.threads) for config in configs] == [("cpu", 1)] * 3


def test_workers_per_gpu_needs_a_gpu():
    with pytest.raises(UserError, match="--workers-per-gpu: 2 is not allowed on the device cpu"):
        worker_configs(LOG, device="cpu", workers_per_gpu=2)


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int | None, int]]:
    """(train_limit, split_seed) of each dataset that is loaded."""
    seen: list[tuple[int | None, int]] = []

    def load(config: RunConfig, device: torch.device) -> object:
        seen.append((config.data.train_limit, config.split_seed))
        if config.data.train_limit == 13:
            raise UserError("data.train_limit: 13 is not allowed")
        return object()

    monkeypatch.setattr(run_module, "load_splits", load)
    return seen


def limited(limit: int, **changes: object) -> RunConfig:
    return override(RunConfig(), {"data.train_limit": limit, **changes})


def test_runs_with_equal_data_share_a_dataset(loaded):
    datasets, device = Datasets("cpu"), torch.device("cpu")
    first = datasets.load(limited(50), device)
    assert datasets.load(limited(50, **{"seed": 1, "model.depth": 3, "optim.lr": 1.0}), device) is first
    for other in (limited(60), limited(50, **{"data.split_seed": 1}), limited(50, **{"data.shuffle_patches": True})):
        assert datasets.load(other, device) is not first
    assert loaded == [(50, 0), (60, 0), (50, 1), (50, 0)]


def test_the_dataset_of_the_next_runs_is_prepared_and_that_of_the_last_ones_kept(loaded):
    datasets, device = Datasets("cpu"), torch.device("cpu")
    assert not datasets.in_use
    current = datasets.load(limited(50), device)
    assert datasets.in_use
    datasets.prepare([RunSpec.of("next", limited(60))])
    assert loaded == [(50, 0), (60, 0)]
    assert datasets.load(limited(50), device) is current
    datasets.load(limited(60), device)
    assert len(loaded) == 2
    datasets.prepare([RunSpec.of("third", limited(70))])  # the oldest is given up
    datasets.load(limited(50), device)
    assert loaded[2:] == [(70, 0), (50, 0)]


def test_data_that_cannot_be_prepared_are_reported_when_the_run_starts(loaded):
    datasets = Datasets("cpu")
    datasets.prepare([RunSpec.of("next", limited(13))])
    with pytest.raises(UserError, match=r"data\.train_limit: 13"):
        datasets.load(limited(13), torch.device("cpu"))
