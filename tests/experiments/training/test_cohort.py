"""The sizes of cohorts: by memory, and as before after an interruption. The GPU is mocked."""

import pytest
import tiny
import torch

from experiments.config import RunConfig
from experiments.runs import run as run_module
from experiments.runs.run import train
from experiments.study import RunSpec
from experiments.training import cohort
from experiments.training.cohort import cohort_sizes, fitting

CUDA = torch.device("cuda")


def configs(runs: int) -> list[RunConfig]:
    return [tiny.config(seed=seed) for seed in range(runs)]


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    monkeypatch.setattr(cohort, "free_memory", lambda: None)


def test_it_is_one_where_two_runs_do_not_fit(monkeypatch):
    def peak(configs, *_):
        if len(configs) > 1:
            raise torch.OutOfMemoryError
        return 10

    monkeypatch.setattr(cohort, "_step_peak", peak)
    assert [fitting(configs(runs), 10, CUDA) for runs in (2, 3, 8)] == [1] * 3


def test_it_is_extrapolated_from_the_measured_memory(monkeypatch):
    """30 bytes for one run and 20 for each further run, of 0.8 x 200: 30 + 6 x 20 <= 160 < 30 + 7 x 20."""
    monkeypatch.setattr(cohort, "_step_peak", lambda configs, *_: {1: 30, 2: 50}[len(configs)])
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (200, 1000))
    assert [fitting(configs(runs), 10, CUDA) for runs in (2, 7, 8, 99)] == [2, 7, 7, 7]
    assert cohort_sizes(configs(10), 10, CUDA) == [5, 5]  # even, not 7 and 3


def test_on_a_cpu_all_runs_that_are_given_train_together():
    assert cohort_sizes(configs(9), 10, torch.device("cpu")) == [9]


def test_after_an_interruption_the_same_runs_train_together(tmp_path, monkeypatch):
    """Also where another division is now faster, and where runs were added.

    The numbers are those without interruption.
    """
    specs = [RunSpec.of(f"s{seed}", tiny.config(seed=seed)) for seed in range(6)]

    def divided(sizes):
        monkeypatch.setattr(run_module, "cohort_sizes", lambda configs, *_: sizes)

    divided([2, 2])
    train(specs[:4], tmp_path / "whole", device="cpu")
    with pytest.raises(tiny.Stop):
        # the last one of the second cohort
        train(specs[:4], tmp_path / "cut", device="cpu", on_row=tiny.stop_after(2, job=3))
    divided([1, 1])  # asked only for the two runs that were added
    found = train(specs, tmp_path / "cut", device="cpu")
    ids = [spec.run_id for spec in specs]
    assert [summary["cost"]["cohort_runs"] for summary in found] == [ids[:2]] * 2 + [ids[2:4]] * 2 + [
        [ids[4]],
        [ids[5]],
    ]
    for name in ("s0", "s1", "s2", "s3"):
        assert tiny.results(tmp_path / "cut" / name) == tiny.results(tmp_path / "whole" / name)
