"""Faults of W&B change no result, stop no run and are said in one line; afterwards `sync` completes the runs."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import mirrored
import pytest
import tiny
from stubbed import children, until
from wandb_server import WandbServer

from experiments.errors import UserError
from experiments.runs import record
from experiments.runs.run import train
from experiments.runs.tracking.mirror import Mirror
from experiments.runs.tracking.send import Sender
from experiments.runs.tracking.settings import TOKEN, Tracking, token
from experiments.runs.tracking.sync import sync

ONLINE = Tracking("online")


def synced(study: Path) -> tuple[list[str], list[str]]:
    """The runs that `sync` sends, and those that it finds complete."""
    done = sync(study, ONLINE, lambda name: None)
    return done.sent, done.complete


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "after", "said"), [("die", 0, "W&B cannot be used (http://127.0.0.1:"), ("hang", 20, "")]
)
def test_a_fault_costs_no_result_and_sync_completes_the_runs(fault, after, said, tmp_path, monkeypatch):
    study = tmp_path / "study"
    with WandbServer(fault=fault, after=after).used_here(monkeypatch) as server:
        lines = mirrored.trained(study, [mirrored.spec(0), mirrored.spec(1)])
    lines = [line for line in lines if not line.startswith("tracking: runs are mirrored")]
    assert said in lines[0]
    assert lines[-1] == f"tracking: W&B lacks 2 of 2 runs; send them with `vit-sweep sync {study}`"
    assert len(lines) <= 2
    train([mirrored.spec(0), mirrored.spec(1)], tmp_path / "off", device="cpu")
    for seed in (0, 1):
        assert tiny.results(study / f"s{seed}") == tiny.results(tmp_path / "off" / f"s{seed}")
    with WandbServer().used_here(monkeypatch) as healthy:
        assert synced(study) == (["s0", "s1"], [])
        for seed in (0, 1):
            mirrored.check(healthy, study / f"s{seed}")
        calls = healthy.calls["file_stream"]
        assert synced(study) == ([], ["s0", "s1"])
        assert healthy.calls["file_stream"] == calls
    assert not mirrored.holds(study, server.key)


def test_records_made_without_tracking_are_sent_afterwards(tmp_path, monkeypatch):
    study, runs = tmp_path / "study", [mirrored.spec(0), mirrored.spec(1)]
    mirrored.write_plan(study, [*runs, mirrored.spec(2)])
    train(runs, study, device="cpu")
    with WandbServer(key="7" * 40).used_here(monkeypatch) as server:
        monkeypatch.setenv("WANDB_API_KEY", "8" * 40)
        with pytest.raises(
            UserError, match="W&B cannot be used .*; 0 of 2 runs are checked or sent; run the same command again"
        ):
            sync(study, ONLINE, lambda name: None)
        monkeypatch.setenv("WANDB_API_KEY", server.key)
        done = sync(study, Tracking("online", project="other"), lambda name: None)
        assert (done.sent, done.unfinished) == (["s0", "s1"], ["s2"])
        again = sync(study, Tracking("online", project="other"), lambda name: None)
        assert (again.sent, again.complete) == ([], ["s0", "s1"])
        found = mirrored.check(server, study / "s0")
        assert (found.project, found.settings["variant"]) == ("other", "learned-1d")


def test_sync_refuses_a_folder_without_finished_runs(tmp_path):
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(UserError, match=f"{folder}: holds no finished runs"):
            sync(folder, ONLINE, lambda name: None)


@pytest.mark.skipif(not Path("/proc/self/stat").is_file(), reason="finds W&B's process in /proc")
@pytest.mark.slow
def test_wandbs_process_dying_loses_nothing(tmp_path, monkeypatch):
    """Another process sends what the one that failed has not."""
    monkeypatch.setattr("experiments.runs.tracking.mirror.RETRY_SECONDS", 0.0)
    train([mirrored.spec()], tmp_path, device="cpu")
    said: list[str] = []
    with WandbServer().used_here(monkeypatch) as server:
        with Mirror(ONLINE, tmp_path, said.append) as mirror:
            mirror.follow("s0")
            until(lambda: server.runs)
            for pid in [pid for child in children(os.getpid()) for pid in children(child)]:
                os.kill(pid, signal.SIGKILL)
            until(lambda: mirror.runs["s0"])
        mirrored.check(server, tmp_path / "s0")
    assert "runs are mirrored" in said[0] and "W&B cannot be used" in said[1] and len(said) == 2


def test_wandb_that_cannot_be_imported_stops_nothing(tmp_path, monkeypatch):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "wandb.py").write_text("raise ImportError('broken')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "broken"))
    lines = mirrored.trained(tmp_path / "study", [mirrored.spec()])
    assert lines[0] == "tracking: W&B cannot be used (ImportError: broken); training goes on"
    assert lines[1].startswith("tracking: W&B lacks 1 of 1 runs; send them with `vit-sweep sync")
    assert record.is_finished(tmp_path / "study" / "s0")


def test_a_full_disk_is_an_error_before_wandb_writes(tmp_path, monkeypatch):
    train([mirrored.spec()], tmp_path / "study", device="cpu")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))  # wandb's own folder is the user's
    (tmp_path / "wandb").mkdir()
    free = shutil.disk_usage(tmp_path)._replace(free=0)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: free if path == tmp_path / "wandb" else None)
    sender = Sender(tmp_path / "study", Tracking("offline"), lambda **message: None)
    sender.waiting.append("s0")
    sender.closed.set()
    with pytest.raises(OSError, match=f"no space left for {tmp_path / 'wandb'}"):
        sender.work()


def test_the_token_is_made_once(tmp_path):
    first = token(tmp_path)
    assert token(tmp_path) == first
    assert [path.name for path in tmp_path.iterdir()] == [TOKEN]
    (tmp_path / TOKEN).write_text("{")
    with pytest.raises(UserError, match=f"{TOKEN}: is not JSON"):
        token(tmp_path)


@pytest.mark.slow
def test_the_command_prints_what_it_sent(tmp_path, monkeypatch):
    train([mirrored.spec()], tmp_path / "single", device="cpu")
    root = Path(__file__).resolve().parents[3]
    words = [sys.executable, "-m", "sweeps.main", "sync"]
    with WandbServer().used_here(monkeypatch) as server:
        done = subprocess.run([*words, tmp_path / "single"], cwd=root, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"1 run sent, 0 already complete; {server.url}/tester/vit-ablation\n"
