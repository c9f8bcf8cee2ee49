"""A sweep that is killed, stopped by a signal, or runs twice at once."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import commands
import pytest
from stubbed import STUDY, lives, until

from experiments.runs.record import METRICS, has_ended
from experiments.runs.run import train
from sweeps.plan import make_plan, parse_study


@pytest.mark.slow
def test_killed_at_any_moment_it_ends_with_the_numbers_of_an_uninterrupted_one(tmp_path):
    settings = {"data.train_limit": 200, "model.depth": 1, "model.attn_drop_rate": 0.1, "train.epochs": 4}
    study = tmp_path / "real.yaml"
    study.write_text(json.dumps({**STUDY, "name": "real", "base": settings, "seeds": 2}))
    plan = make_plan(parse_study(json.loads(study.read_text()), "real"))
    for run in plan.runs:  # the oracle: each run alone, never interrupted
        train([run], tmp_path / "alone", device="cpu")
    command = ["vit-sweep", "run", study, "--out", tmp_path, "--tracking", "off", "--workers"]
    quiet = dict.fromkeys(("stdout", "stderr"), subprocess.DEVNULL)
    sweep = commands.start(*command, 2, start_new_session=True, **quiet)
    until(lambda: list((tmp_path / "real").glob(f"*/{METRICS}")))
    time.sleep(random.uniform(0, 0.5))
    os.kill(sweep.pid, signal.SIGKILL)
    sweep.wait()
    before = {run.name: has_ended(tmp_path / "real" / run.name) for run in plan.runs}
    status, _, err = commands.run(*command, 1)
    assert status == 0, err
    for run in plan.runs:
        swept, alone = (tmp_path / place / run.name / METRICS for place in ("real", "alone"))
        assert swept.read_bytes() == alone.read_bytes(), before


def test_workers_die_with_the_sweep(stubbed):
    sweep = stubbed.start_run(nap=30)
    stubbed.wait_for("start", 2)
    workers = [pid for _, pid in stubbed.noted("start")]
    assert len(set(workers)) == 2
    sweep.kill()
    sweep.communicate()
    until(lambda: not any(map(lives, workers)), seconds=5)


def test_modules_of_the_current_folder_are_none_of_the_workers(stubbed):
    for name in ("queue", "socket", "pickle", "safetensors", "vit"):  # of the standard library, of others, and ours
        (stubbed.folder / f"{name}.py").write_text("raise SystemExit('of the current folder')")
    status, out, err = stubbed.run(cwd=stubbed.folder)
    assert status == 0 and "6 runs: 6 finished" in out, err


def test_a_run_that_another_process_trains_is_waited_for_and_goes_on_when_that_ends(stubbed):
    """The kernel releases the lock of a process that is killed."""
    name = stubbed.write_plan()[0]
    (stubbed.dir / "locks").mkdir()
    code = "import sys, time; from experiments.files import lock; from pathlib import Path\n"
    code += "with lock(Path(sys.argv[1])): Path(sys.argv[1] + '.held').touch(); time.sleep(600)"
    other = subprocess.Popen([sys.executable, "-c", code, str(stubbed.dir / "locks" / name)], cwd=commands.ROOT)
    until((stubbed.dir / "locks" / f"{name}.held").exists)
    sweep = stubbed.start_run(lock=0.3)
    stubbed.wait_for("end", 5)
    time.sleep(1.0)  # a worker tries for 0.3 seconds
    assert sweep.poll() is None and name not in stubbed.ended()
    other.kill()
    other.wait()
    _, err = sweep.communicate(timeout=60)
    assert sweep.returncode == 0
    assert err.count(f"waiting for {name}: another process trains it") == 1
    assert len(stubbed.ended()) == 6 and not stubbed.trained_twice()


def test_a_second_command_on_the_folder_is_refused_in_one_line(stubbed):
    first = stubbed.start_run(nap=30)
    stubbed.wait_for("start", 2)
    for words in (["run", stubbed.study], ["tune", stubbed.study, "--trials", 1], ["wandb", stubbed.study]):
        status, _, err = stubbed(*words, "--out", stubbed.folder)
        assert (status, err.count("\n")) == (2, 1), err
        assert f"{stubbed.dir}: another command trains this study" in err
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=60)
    assert stubbed.run()[0] == 0 and len(stubbed.ended()) == 6


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGUSR2"])
def test_ctrl_c_and_the_signals_of_a_cluster_end_a_sweep_and_no_attempt_counts(stubbed, name):
    """A terminal and Slurm send them to every process of a job, Slurm some of them twice. A second Ctrl-C kills."""
    sweep = stubbed.start_run(nap=30)
    stubbed.wait_for("start", 2)
    number = getattr(signal, name)
    os.killpg(sweep.pid, number)
    if number != signal.SIGINT:
        time.sleep(0.01)
        os.killpg(sweep.pid, number)
    _, err = sweep.communicate(timeout=60)
    assert sweep.returncode == 128 + number
    assert err.splitlines()[-1] == "vit-sweep: interrupted; run the same command again to resume"
    assert "Traceback" not in err
    assert not any(lives(pid) for _, pid in stubbed.noted("start"))
    assert not list(stubbed.dir.glob("*/error.txt"))


@pytest.mark.parametrize("pause", [0.0, 0.002, 0.005, 0.01, 0.05])
def test_a_second_ctrl_c_ends_a_sweep_at_once_and_its_workers(stubbed, pause):
    sweep = stubbed.start_run(nap=30)
    stubbed.wait_for("start", 2)
    sweep.send_signal(signal.SIGINT)
    time.sleep(pause)
    sweep.send_signal(signal.SIGINT)
    sweep.communicate(timeout=20)
    until(lambda: not any(lives(pid) for _, pid in stubbed.noted("start")), seconds=5)
