"""Which workers a machine has room for: on a CPU, on one GPU and on several. The GPUs are mocked."""

from unittest.mock import Mock

import pytest
import torch

from experiments.config import RunConfig, override
from experiments.data import loading
from sweeps.engines.contract import Slot, Task
from sweeps.engines.local import local_slots
from sweeps.engines.training import Training


@pytest.fixture
def four_gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch, "zeros", lambda *size, dtype, device: torch.ones(1))  # `pick_device` tries the device


def placed(**options) -> list[tuple[str, float]]:
    """(device, share of its memory) of each worker."""
    return [(config.device, config.memory_share) for config in local_slots(**options)]


@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_each_gpu_gets_a_worker_of_its_own(four_gpus, device):
    assert placed(device=device) == [(f"cuda:{i}", 1.0) for i in range(4)]


def test_workers_on_one_gpu_share_its_memory(four_gpus):
    configs = placed(workers=8)
    assert sorted(configs) == sorted([(f"cuda:{i}", 0.5) for i in range(4)] * 2)
    assert len({device for device, _ in configs[:4]}) == 4  # the first four workers use all GPUs


def test_a_number_of_workers_is_spread_over_the_gpus(four_gpus):
    assert placed(workers=2) == [("cuda:0", 1.0), ("cuda:1", 1.0)]
    assert placed(workers=5) == [("cuda:0", 0.5), ("cuda:1", 1.0), ("cuda:2", 1.0), ("cuda:3", 1.0), ("cuda:0", 0.5)]


def test_a_gpu_that_is_named_is_the_only_one_used(four_gpus):
    assert placed(device="cuda:2") == [("cuda:2", 1.0)]
    assert placed(device="cuda:2", workers=3) == [("cuda:2", pytest.approx(1 / 3))] * 3


def test_a_worker_on_a_cpu_has_one_thread():
    configs = local_slots(device="cpu", workers=3)
    assert [(config.device, config.threads) for config in configs] == [("cpu", 1)] * 3


def test_runs_with_equal_data_share_a_dataset_and_the_last_two_are_kept(tmp_path, monkeypatch):
    loaded: list[RunConfig] = []
    monkeypatch.setattr(loading, "load", lambda config: loaded.append(config) or Mock())
    training, device = Training(Task(tmp_path, tmp_path / "log"), Slot("cpu")), torch.device("cpu")

    def load(limit, **changes):
        return training._load(override(RunConfig(), {"data.train_limit": limit, **changes}), device)

    first = load(50)
    assert load(50, **{"seed": 1, "model.depth": 3, "optim.lr": 1.0}) is first
    for changes in ({"data.split_seed": 1}, {"data.shuffle_patches": True}):
        assert load(50, **changes) is not first
    second, third = load(60), load(70)
    assert load(60) is second and load(70) is third
    assert load(50) is not first and len(loaded) == 6
