"""vit-sweep tune as a user meets it: the budget is kept through kills, no test image and no seed of the study is
used.
"""

import json
import os
import signal
import time
from collections import Counter
from pathlib import Path

import commands
import numpy as np
import pytest
from scripted import KILLED

from experiments.runs import record
from sweeps.engines.contract import Failed
from sweeps.plan import make_plan, read_study_file
from sweeps.study_folder import StudyFolder
from sweeps.tuning.tuned import read_tuned

STUDY = {
    "name": "mine",
    "factors": {"model.pool": ["cls", "gap"]},
    "seeds": 2,
    "base": {"data.train_limit": 80, "model.depth": 1, "model.embed_dim": 8, "model.num_heads": 2, "train.epochs": 5},
}


def study(folder: Path, **fields) -> Path:
    path = folder / "mine.yaml"
    path.write_text(json.dumps({**STUDY, **fields}))
    return path


def words(path: Path, *more, out: str = "runs") -> list[str]:
    return list(map(str, ("tune", path, "--out", path.parent / out, "--device", "cpu", *more)))


def finish(command: list[str]) -> tuple[str, str]:
    status, out, err = commands.run("vit-sweep", *command)
    assert status == 0, err
    return out, err


def kill_after(command: list[str], lines: int) -> None:
    """Start the command and SIGKILL it a moment after so many trials have ended."""
    process = commands.start("vit-sweep", *command)
    for _ in range(lines):
        assert process.stderr.readline()
    time.sleep(np.random.default_rng().uniform(0, 0.3))
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()


@pytest.mark.slow
def test_killed_three_times_every_variant_still_gets_its_budget_and_its_own_settings(tmp_path):
    path = study(tmp_path)
    command = words(path, "--trials", 12, "--workers", 2)
    for _ in range(3):
        kill_after(command, lines=5)
    finish(command)
    folder = tmp_path / "runs" / "mine"
    tuned = read_tuned(folder / "tuned.yaml").tree()
    assert Counter(trial["variant"] for trial in tuned["trials"]) == {"cls": 12, "gap": 12}
    assert {trial["status"] for trial in tuned["trials"]} <= {"finished", "pruned", "diverged"}
    check_against_records(tuned, folder)
    before = (folder / "tuned.yaml").read_bytes()
    _, err = finish(command)  # nothing is left to do
    assert "[" not in err and (folder / "tuned.yaml").read_bytes() == before
    rates = {label: found["settings"]["optim.lr"] for label, found in tuned["variants"].items()}
    options = ["--out", str(tmp_path / "runs"), "--tuned", str(folder / "tuned.yaml"), "--tracking", "off"]
    finish(["run", str(path), *options, "--device", "cpu", "--workers", "1", "--train.epochs", "1"])
    entries = json.loads((folder / "study.json").read_text())["runs"]
    configs = [json.loads((folder / entry["run"] / record.CONFIG).read_text()) for entry in entries]
    assert [config["optim"]["lr"] for config in configs] == [rates[entry["variant"]] for entry in entries]
    assert len(set(rates.values())) == 2


def check_against_records(tuned: dict, folder: Path) -> None:
    """The table is what the records of the trials state, and the winner the best of the finished ones."""
    found = {}
    for summary in (folder / "tuning").glob(f"*/{record.SUMMARY}"):
        run = record.read_run(summary.parent, checkpoint=True)
        assert run.summary["test/acc"] is None and run.summary["test/loss"] is None
        assert run.summary["data"]["test_images"] == 0 and not (run.dir / record.PREDICTIONS).exists()
        assert run.config["seed"] not in range(STUDY["seeds"])
        found[run.config["model"]["pool"], run.config["seed"]] = run
    assert len(found) == len(tuned["trials"])
    for trial in tuned["trials"]:
        run = found[trial["variant"], trial["seed"]]
        assert (trial["status"], trial["epochs"]) == (run.summary["status"], len(run.rows))
        assert trial["val/acc"] == run.rows[-1]["val/acc"]
        assert trial["settings"]["optim.lr"] == run.config["optim"]["lr"]
    for label, best in tuned["variants"].items():
        own = [trial for trial in tuned["trials"] if trial["variant"] == label]
        assert best["val/acc"] == max(trial["val/acc"] for trial in own if trial["status"] == "finished")
        assert best["settings"] == own[best["trial"]]["settings"]
        assert [trial["trial"] for trial in own] == list(range(len(own)))
        assert best["epochs"] == sum(trial["epochs"] for trial in own)


@pytest.fixture
def tune(stubbed, scripted, vit_sweep):
    """Three trials of each of two variants: the engine, and what the command prints."""

    def run(*options, **script):
        engine, words = scripted(places=2, **script), ("--trials", 3, "--out", stubbed.folder, *options)
        return engine, *vit_sweep("tune", stubbed.study, *words)

    return run


def test_a_trial_that_always_fails_is_given_up_and_one_whose_worker_was_killed_is_not(tune, stubbed):
    def fate(run):
        if run.seed == 1_000_000 and engines[0].tried[run.name] == 1:
            return Failed(KILLED)
        return RuntimeError("out of cheese") if run.seed == 1_000_001 else {}

    engines = []
    engine, status, out, err = tune(fate=fate, script=lambda engine: engines.append(engine) or iter(()))
    assert status == 1, err
    assert "failed: logits, trial 1" in out and "failed: softmax, trial 1" in out
    assert KILLED in err and "RuntimeError: out of cheese" in err
    trials = read_tuned(stubbed.dir / "tuned.yaml").trials
    assert [trial.status for trial in trials] == ["finished", "failed", "finished"] * 2
    tried = {name.rpartition("-")[0]: times for name, times in engine.tried.items()}
    assert tried == {f"{head}-s100000{n}": (2, 3, 1)[n] for head in ("logits", "softmax") for n in range(3)}
    assert len(list(stubbed.dir.glob("tuning/*-s1000001-*/error.txt"))) == 2


def test_each_seed_of_a_trial_is_trained_once(tune, stubbed):
    words = ("--seeds-per-trial", 2, "--params", "optim.lr=1e-3..1.00001e-3")
    engine, status, out, err = tune(*words)
    assert status == 0 and "by 3 trials of 2 seeds each" in out, err
    assert len(engine.ended) == 12 and set(engine.tried.values()) == {1} and "[12/12]" in err
    tuned = read_tuned(stubbed.dir / "tuned.yaml")
    assert tuned.seeds_per_trial == 2 and len(tuned.trials) == 6
    seeds = {seed for trial in tuned.trials for seed in trial.accuracies}
    assert seeds == {1_000_000, 1_000_001, 1_000_002, 1_010_000, 1_010_001, 1_010_002}


@pytest.mark.parametrize(
    "fields, options, said",
    [
        ({}, ["--params", "optim.rate=1..2"], "'optim.rate' cannot be tuned; did you mean"),
        ({}, ["--params", "optim.lr=1e-2..1e-3"], "the first number must be lower"),
        ({}, ["--params", "optim.lr=0..1:log"], "log needs a lowest value above 0"),
        ({}, ["--params", "optim.lr=1e-4..1e-2,optim.min_lr=1e-5..4e-4"], "optim.min_lr: 0.0004 "),
        ({}, ["--params", "optim.name=adamw|what"], "optim.name: 'what' is not allowed"),
        ({}, ["--params", "optim.lr=1..2,optim.lr=3..4"], "is given twice"),
        ({"factors": {"optim.lr": [0.1, 0.2]}}, ["--params", "optim.lr=1..2"], "is a factor of the study"),
        ({"base": {"optim.schedule": "constant"}}, ["--params", "optim.warmup_epochs=0..2"], "has no effect"),
        ({"seeds": [0, 1_000_003]}, [], "seeds: 1000003 is not allowed"),
        ({"base": {"data.split_seed": "per-seed"}}, [], "data.split_seed: per-seed is not allowed with tune"),
        ({}, ["--trials", "20000"], "--trials: '20000' is not allowed"),
    ],
)
def test_bad_input_is_one_line(refused, tmp_path, fields, options, said):
    path = study(tmp_path, **fields)
    trials = () if "--trials" in options else ("--trials", 2)
    assert said in refused(*words(path, *trials, *options))
    assert not list(tmp_path.rglob("metrics.csv"))


def test_seeds_that_the_study_was_trained_with_are_not_used(refused, tmp_path):
    path = study(tmp_path)
    folder = tmp_path / "runs" / "mine"
    folder.mkdir(parents=True)
    plan = make_plan(read_study_file(path).model_copy(update={"seeds": [0, 1_000_001]}))
    StudyFolder(folder, plan).write("vit-sweep run")
    assert "seeds: 1000001 is not allowed" in refused(*words(path, "--trials", 2))
