"""The sizes of cohorts: by memory, by measured throughput, and as before after an interruption. The GPU is mocked."""

from typing import Any

import pytest
import tiny
import torch

from experiments.config import RunConfig
from experiments.runs import run as run_module
from experiments.runs.run import train
from experiments.study import RunSpec
from experiments.training import cohort
from experiments.training.cohort import cohort_sizes, fastest_sizes, fitting, step_times

CUDA = torch.device("cuda")


def configs(runs: int) -> list[RunConfig]:
    return [tiny.config(seed=seed) for seed in range(runs)]


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    monkeypatch.setattr(cohort, "free_memory", lambda: None)
    monkeypatch.setattr(cohort, "_measured", {})


def timed(monkeypatch: pytest.MonkeyPatch, seconds: dict[int, float]) -> list[int]:
    """Let a step of R runs take `seconds[R]`; a size without an entry exhausts the memory. Returns the sizes measured."""
    seen: list[int] = []

    def measure(configs: list[RunConfig], *_: Any) -> float:
        seen.append(len(configs))
        if len(configs) not in seconds:
            raise torch.OutOfMemoryError
        return seconds[len(configs)]

    monkeypatch.setattr(cohort, "_step_seconds", measure)
    return seen


def test_it_is_one_where_two_runs_do_not_fit(monkeypatch):
    def peak(configs, *_):
        if len(configs) > 1:
            raise torch.OutOfMemoryError
        return 10

    monkeypatch.setattr(cohort, "_step_peak", peak)
    assert [fitting(configs(runs), 10, CUDA) for runs in (1, 2, 3, 8)] == [1] * 4


def test_it_is_extrapolated_from_the_measured_memory(monkeypatch):
    """30 bytes for one run and 20 for each further run, of 0.8 x 200: 30 + 6 x 20 <= 160 < 30 + 7 x 20."""
    monkeypatch.setattr(cohort, "_step_peak", lambda configs, *_: {1: 30, 2: 50}[len(configs)])
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (200, 1000))
    assert [fitting(configs(runs), 10, CUDA) for runs in (2, 7, 8, 99)] == [2, 7, 7, 7]
    assert cohort_sizes(configs(10), 10, CUDA) == [5, 5]  # even, not 7 and 3


def test_on_a_cpu_all_runs_that_are_given_train_together():
    assert cohort_sizes(configs(9), 10, torch.device("cpu"), by_speed=True) == [9]


@pytest.mark.parametrize(
    ("seconds", "measured"),
    [
        ({1: 1.0, 2: 1.0, 4: 1.0, 8: 1.0, 10: 1.0}, [1, 2, 4, 8, 10]),  # a step takes as long with more runs
        ({1: 1.0, 2: 1.2, 4: 2.3, 8: 4.5}, [1, 2, 4, 8]),  # 8 runs have 2.2 % more throughput than 4: too little
        ({1: 1.0, 2: 2.0}, [1, 2]),  # no gain
        ({1: 1.0, 2: 1.1, 4: 1.5}, [1, 2, 4, 8]),  # no memory for 8
    ],
)
def test_throughput_is_measured_until_it_hardly_grows(seconds, measured, monkeypatch):
    seen = timed(monkeypatch, seconds)
    assert step_times(configs(10), 10, CUDA) == {size: seconds[size] for size in measured if size in seconds}
    assert seen == measured
    step_times(configs(10), 10, CUDA)
    assert [size for size in seen[len(measured) :] if size in seconds] == []  # known from the first time


def test_a_single_run_that_does_not_fit_raises(monkeypatch):
    timed(monkeypatch, {})
    with pytest.raises(torch.OutOfMemoryError):
        step_times(configs(2), 10, CUDA)


@pytest.mark.parametrize(
    ("runs", "times", "sizes"),
    [
        (10, {1: 1.0, 2: 1.0, 4: 1.0, 8: 1.0, 10: 1.0}, [10]),
        (10, {1: 1.0, 2: 2.0}, [2] * 5),  # as fast alone: the fewest cohorts
        (10, {1: 1.0, 2: 2.5}, [1] * 10),  # slower together
        (10, {1: 1.0, 2: 1.2, 4: 1.6, 8: 5.0}, [4, 3, 3]),  # 1.6 + 1.4 + 1.4 = 4.4; two of five 4.9; with 8, 6.2
        (3, {1: 1.0, 2: 1.0}, [2, 1]),
    ],
)
def test_cohorts_are_those_that_take_the_least_time(runs, times, sizes):
    assert fastest_sizes(runs, times) == sizes


def test_after_an_interruption_the_same_runs_train_together(tmp_path, monkeypatch):
    """Also where another division is now faster, and where runs were added. The numbers are those without interruption."""
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
