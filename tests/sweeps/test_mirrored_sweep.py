"""`vit-sweep run`, mirrored online to a server of ours: stopped, killed and resumed, W&B has each run as its record does."""

import os
import signal
import subprocess
from pathlib import Path

import mirrored
import pytest
import study_file
from agents import Shell
from stubbed import until
from wandb_server import Run, WandbServer


@pytest.fixture
def server(monkeypatch):
    with WandbServer().used_here(monkeypatch) as running:
        yield running


def epochs(folder: Path) -> int:
    """The epochs in the records of a study, of runs that go on and that have ended."""
    return sum(path.read_text().count("\n") - 1 for path in folder.glob("*/metrics.csv"))


def interrupt(process: subprocess.Popen[str]) -> int:
    """Press Ctrl-C in the terminal of a command. Returns its exit status."""
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=120)
    return process.returncode


def kill(process: subprocess.Popen[str]) -> int:
    """Kill a command, but not the processes that it has started. Returns its exit status."""
    process.kill()
    process.communicate(timeout=120)
    return process.returncode


@pytest.mark.slow
def test_a_sweep_stopped_and_killed_has_each_run_and_epoch_once_in_wandb(server, tmp_path):
    """Four variants x two seeds of digits. Every run of the sweep is complete in W&B at the end."""
    shell = Shell(tmp_path / "shell", server.env())
    words = ("vit-sweep", "run", "position", "--seeds", 2, "--workers", 2, "--train.epochs", 12, "--out", tmp_path)
    for stop, status, trained in ((interrupt, 130, 33), (kill, -signal.SIGKILL, 63)):
        process = shell.start(*words, "--tracking", "online")
        until(lambda trained=trained: epochs(tmp_path / "position") >= trained)
        assert stop(process) == status
    said = shell(*words, "--tracking", "online")
    assert "8 runs: 8 finished" in said, said
    plan = study_file.read_study(tmp_path / "position")["runs"]
    assert len(server.runs) == len(plan) == 8
    for entry in plan:
        found = mirrored.check(server, tmp_path / "position" / entry["run"])
        assert [row["epoch"] for row in found.rows] == list(range(1, 13))
        check_described(found, entry)
    assert not mirrored.holds(tmp_path, server.key)


def check_described(found: Run, entry: dict) -> None:
    """Group, job type, factor levels and the accuracy of each class of a run."""
    assert (found.fields["groupName"], found.fields["jobType"]) == (entry["variant"], "position")
    assert (found.settings["variant"], found.settings["levels"]) == (entry["variant"], entry["levels"])
    assert len(mirrored.table(found, "test/classes")) == 10
