"""Faults of W&B change no result, stop no run, hold no command up, and leave no process; `sync` completes the runs."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import mirrored
import pytest
import tiny
from filelock import FileLock
from stubbed import children, until
from wandb_server import WandbServer

from experiments.errors import UserError
from experiments.runs import record
from experiments.runs.run import train
from experiments.runs.tracking import mirror
from experiments.runs.tracking.mirror import Mirror
from experiments.runs.tracking.notes import TOKEN, lacking, token
from experiments.runs.tracking.settings import Tracking

ONLINE = Tracking("online")
ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "after"), [("die", 0), ("die", 16), ("hang", 0), ("hang", 8), ("hang", 16), ("500", 0), ("500", 16)]
)
def test_a_fault_costs_no_result_and_sync_completes_the_runs(fault, after, tmp_path, monkeypatch):
    """`after`: requests that are answered. 8: the first run is being opened; 16: the runs are in training."""
    study, runs, ends = tmp_path / "study", [mirrored.spec(0), mirrored.spec(1)], []
    with WandbServer(fault=fault, after=after).used_here(monkeypatch) as server:
        lines = mirrored.trained(study, runs, ended=ends)
        assert ends[0] < mirror.END_SECONDS + 2
        until(lambda: not mirrored.users(server), 60)
        print(f"{fault} {after}: {ends[0]:.1f} s; processes end {time.monotonic() - ends[1]:.1f} s later")
    assert lines[-1] == f"tracking: W&B lacks 2 of 2 runs; send them with `vit-sweep sync {study}`"
    others = [line for line in lines[:-1] if not line.startswith("tracking: runs are mirrored")]
    assert len(others) <= 1 and all("W&B cannot be used (" in line for line in others)
    train(runs, tmp_path / "off", device="cpu")
    for seed in (0, 1):
        assert tiny.results(study / f"s{seed}") == tiny.results(tmp_path / "off" / f"s{seed}")
    with WandbServer().used_here(monkeypatch) as healthy:
        assert mirrored.synced(study) == "W&B has 2 of 2 finished runs"
        for seed in (0, 1):
            mirrored.check(healthy, study / f"s{seed}")
        calls = healthy.calls["file_stream"]
        assert mirrored.synced(study) == "W&B has 2 of 2 finished runs"
        assert healthy.calls["file_stream"] == calls
    assert not mirrored.holds(study, server.key)


def test_a_server_that_never_answers_is_not_waited_for_and_leaves_no_process(tmp_path, monkeypatch):
    monkeypatch.setattr(mirror, "END_SECONDS", 1.0)
    ends: list[float] = []
    with WandbServer(fault="hang").used_here(monkeypatch) as server:
        lines = mirrored.trained(tmp_path, [mirrored.spec()], ended=ends)
        assert ends[0] < 3
        until(lambda: not mirrored.users(server), 20)
    assert lines[-1].startswith("tracking: W&B lacks 1 of 1 runs")


@pytest.mark.parametrize("fault", ["none", pytest.param("hang", marks=pytest.mark.slow)])
def test_a_command_that_is_killed_leaves_no_process(fault, tmp_path, monkeypatch):
    code = f"import mirrored, pathlib, time; mirrored.Mirror({ONLINE!r}, pathlib.Path({str(tmp_path)!r}), ['s0'])"
    code = code.replace("Tracking(", "mirrored.Tracking(") + ".__enter__(); time.sleep(600)"
    with WandbServer(fault=fault).used_here(monkeypatch) as server:
        path = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "support")])
        command = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path})
        until(lambda: len(mirrored.users(server)) == 3)  # with the child, and the process of wandb
        command.kill()
        command.wait()
        until(lambda: not mirrored.users(server), 60)


def test_of_two_processes_one_sends_a_run(tmp_path, monkeypatch):
    study, run, lines = tmp_path / "study", mirrored.spec(train__epochs=3), []
    mirrored.write_plan(study, [run])
    with WandbServer().used_here(monkeypatch) as server:
        with FileLock(study / "wandb" / "locks" / "s0") as lock, Mirror(ONLINE, study, ["s0"], show=lines.append):
            train([run], study, device="cpu")
            until(lambda: lines)
            assert mirrored.sync(study)[1].endswith("W&B has 0 of 1 finished run\n")
            assert server.runs == {}
            lock.release()
            until(lambda: not lacking(study, ["s0"], None))
        mirrored.check(server, study / "s0")
    assert len(lines) == 1


def test_records_made_without_tracking_are_sent_afterwards(tmp_path, monkeypatch):
    study, runs = tmp_path / "study", [mirrored.spec(0), mirrored.spec(1)]
    mirrored.write_plan(study, runs)
    train(runs, study, device="cpu")
    with WandbServer(key="7" * 40).used_here(monkeypatch) as server:
        monkeypatch.setenv("WANDB_API_KEY", "8" * 40)
        status, out, err = mirrored.sync(study)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert "W&B cannot be used (" in err
        monkeypatch.setenv("WANDB_API_KEY", server.key)
        assert mirrored.synced(study, "run=s0", "--project", "other") == "W&B has 1 of 1 finished run"
        assert mirrored.synced(study, "--project", "other") == "W&B has 2 of 2 finished runs"
        assert len({run.sessions for run in server.runs.values()}) == 1
        found = mirrored.check(server, study / "s0")
        assert (found.project, found.settings["variant"]) == ("other", "learned-1d")


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["hang", "500"])
def test_a_server_that_fails_in_the_middle_of_sync_is_one_line(fault, tmp_path, monkeypatch):
    train([mirrored.spec()], tmp_path, device="cpu")
    with WandbServer(fault=fault, after=14).used_here(monkeypatch) as server:
        status, out, err = mirrored.sync(tmp_path)
    assert (status, out.count("\n"), err.count("\n")) == (2, 1, 1), err
    assert "W&B cannot be used (" in err and server.key not in err


def test_sync_refuses_a_folder_without_finished_runs(tmp_path):
    for folder in (tmp_path, tmp_path / "none"):
        reason = "holds no finished runs; give the folder of a study, OUT/STUDY"
        assert mirrored.sync(folder) == (2, "", f"vit-sweep: error: {folder}: {reason}\n")


@pytest.mark.slow
def test_wandbs_process_dying_loses_nothing(tmp_path, monkeypatch):
    """The sender begins again, half a minute later."""
    train([mirrored.spec()], tmp_path, device="cpu")
    said: list[str] = []
    with WandbServer().used_here(monkeypatch) as server:
        with Mirror(ONLINE, tmp_path, ["s0"], show=said.append) as sending:
            until(lambda: server.runs)
            for pid in children(sending.sender.pid):
                os.kill(pid, signal.SIGKILL)
            until(lambda: not lacking(tmp_path, ["s0"], None))
        mirrored.check(server, tmp_path / "s0")
    assert "runs are mirrored" in said[0] and "W&B cannot be used" in said[1] and len(said) == 2


def test_wandb_that_cannot_be_used_stops_nothing(tmp_path, monkeypatch):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "wandb.py").write_text("raise ImportError('broken')\n")
    monkeypatch.syspath_prepend(tmp_path / "broken")
    lines = mirrored.trained(tmp_path / "study", [mirrored.spec()])
    assert lines[0] == "tracking: W&B cannot be used (ImportError: broken); training goes on"
    assert lines[1].startswith("tracking: W&B lacks 1 of 1 runs; send them with `vit-sweep sync")
    assert record.is_finished(tmp_path / "study" / "s0")


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path):
    (tmp_path / "wandb").write_text("no folder")
    lines = mirrored.trained(tmp_path, [mirrored.spec()], "offline")
    assert lines[-2].endswith("wandb' cannot be written: File exists)") and lines[-1].startswith(
        "tracking: W&B lacks 1 of 1 runs"
    )
    assert record.is_finished(tmp_path / "s0")


def test_the_token_is_made_once(tmp_path):
    first = token(tmp_path)
    assert token(tmp_path) == first
    assert [path.name for path in tmp_path.iterdir()] == [TOKEN]
    (tmp_path / TOKEN).write_text("{")
    with pytest.raises(UserError, match=f"{TOKEN}: is not JSON"):
        token(tmp_path)


def test_a_damaged_record_is_named_and_the_other_runs_are_sent(tmp_path, monkeypatch):
    train([mirrored.spec(0), mirrored.spec(1)], tmp_path, device="cpu")
    metrics = tmp_path / "s0" / record.METRICS
    metrics.write_text(metrics.read_text() + "9,9\n")
    with WandbServer().used_here(monkeypatch) as server:
        status, out, _ = mirrored.sync(tmp_path)
        place, damaged, sent = out.splitlines()
        assert (status, place) == (1, f"runs are mirrored to Weights & Biases: {server.url}/tester/vit-ablation")
        assert damaged.startswith(f"s0: is not sent ({tmp_path}/s0/") and sent == "W&B has 1 of 2 finished runs"
        mirrored.check(server, tmp_path / "s1")
        said: list[str] = []
        with Mirror(ONLINE, tmp_path, ["s0"], show=said.append):
            until(lambda: len(said) == 2)
        assert said[1].startswith(f"tracking: s0: is not sent ({tmp_path}/s0/")
