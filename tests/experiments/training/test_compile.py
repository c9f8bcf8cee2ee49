"""Compiled runs give the results of plain ones; without a compiler a run fails with one line before it starts."""

from pathlib import Path

import pytest
import tiny
import torch
from commands import run

from experiments.errors import UserError
from experiments.runs.run import train
from experiments.study import RunSpec
from experiments.training.compile import require

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
    try:
        require("default", torch.device("cpu"))
    except UserError as error:
        pytest.skip(str(error))
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


@pytest.mark.slow
def test_without_a_compiler_the_run_fails_with_one_line_and_leaves_no_files(tmp_path):
    env = {"CXX": str(tmp_path / "none"), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    words = ("--train.compile", "default", "--device", "cpu", "--out", tmp_path / "runs")
    status, _, err = run("vit-train", *words, **env)
    assert status == 2 and "Traceback" not in err
    assert "train.compile: 'default' does not work here; allowed: none" in err.splitlines()[-1]
    assert not (tmp_path / "runs").exists()
