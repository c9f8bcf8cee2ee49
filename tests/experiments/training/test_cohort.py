"""The sizes of cohorts, also as before after an interruption."""

import pytest
import tiny
import torch

from experiments.runs import run as run_module
from experiments.runs.run import cohort_sizes, train
from experiments.study import RunSpec


def test_cohorts_are_as_few_and_as_even_as_the_kernels_of_a_gpu_allow():
    cuda = torch.device("cuda")
    assert cohort_sizes(10, 128, cuda) == [10]
    assert cohort_sizes(10, 8192, cuda) == [5, 5]  # 7 of them are 57,344 images; not 7 and 3
    assert cohort_sizes(2, 10**6, cuda) == [1, 1]
    assert cohort_sizes(9, 10**6, torch.device("cpu")) == [9]


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
