"""Which workers a machine has room for: on a CPU, on one GPU and on several. The GPUs are mocked."""

import json
import os
from unittest.mock import Mock

import pytest
import torch
from stubbed import STUDY

from experiments.compared import RunSpec
from experiments.config import RunConfig, override
from experiments.data import loading
from sweeps.engines.contract import Slot, Task, Training
from sweeps.engines.local import local_slots

GPUS = [f"cuda:{i}" for i in range(4)]


@pytest.fixture
def four_gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch, "zeros", lambda *size, dtype, device: torch.ones(1))  # `pick_device` tries the device


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        *(({"device": device}, GPUS) for device in ("auto", "cuda")),
        ({"workers": 8}, GPUS * 2),
        ({"workers": 2}, ["cuda:0", "cuda:1"]),
        ({"workers": 5}, [*GPUS, GPUS[0]]),
        ({"device": "cuda:2"}, ["cuda:2"]),
        ({"device": "cuda:2", "workers": 3}, ["cuda:2"] * 3),
    ],
)
def test_workers_are_spread_over_the_gpus(options, expected, four_gpus):
    assert [slot.device for slot in local_slots(**options)] == [*expected]


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


@pytest.mark.parametrize(("said", "expected"), [("", False), ("0", False), ("1", True)])
def test_a_download_of_a_study_needs_the_users_word(said, expected, tmp_path, monkeypatch):
    monkeypatch.setenv("VIT_DOWNLOAD", said)
    trained: list[bool] = []
    monkeypatch.setattr(
        "experiments.runs.run.train", lambda runs, *_, **__: trained.append(runs[0].config.data.download) or [{}]
    )
    run = RunSpec.of("run", override(RunConfig(), {"data.name": "cifar10", "data.download": True}))
    assert Training(Task(tmp_path, tmp_path / "log"), Slot("cpu")).train([run], lambda event: None, lambda: False)
    assert trained == [expected]


def test_the_command_line_is_the_users_word(tmp_path, vit_sweep, monkeypatch):
    monkeypatch.setenv("VIT_DOWNLOAD", "")
    study = tmp_path / "mine.yaml"
    study.write_text(json.dumps({**STUDY, "base": {"preset": "tintn-cifar10", "data.download": True}}))
    for words, expected in (((), ""), (("--data.download", "true"), "1")):
        assert vit_sweep("plan", study, "--out", tmp_path / expected, *words)[0] == 0
        assert os.environ["VIT_DOWNLOAD"] == expected
