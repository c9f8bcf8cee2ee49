"""Compiled runs give the results of plain ones."""

import os
import shutil
from pathlib import Path

import pytest
import tiny

from experiments.runs.run import train
from experiments.study import RunSpec

ROOT = Path(__file__).resolve().parents[3]
SMALL = {
    "model__patch_size": 4,
    "data__train_limit": 64,
    "train__epochs": 2,
    "train__precision": "float64",
    "model__pos_drop_rate": 0.1,
}


@pytest.mark.slow
@pytest.mark.parametrize("runs", [1, 2], ids=["alone", "as a cohort"])
def test_a_compiled_run_gives_the_results_of_a_plain_one(runs, tmp_path):
    if not shutil.which(os.environ.get("CXX", "g++")):
        pytest.skip("needs a C++ compiler")
    plain, fast = (
        train(
            [RunSpec.of(str(seed), tiny.config(seed=seed, train__compile=mode, **SMALL)) for seed in range(runs)],
            tmp_path / mode,
            device="cpu",
        )
        for mode in ("none", "default")
    )
    for a, b in zip(plain, fast, strict=True):
        assert {k: b[k] for k in b if "/" in k} == pytest.approx({k: a[k] for k in a if "/" in k}, abs=1e-9)
        assert a["run_id"] != b["run_id"]  # the two have different ids
