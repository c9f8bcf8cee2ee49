"""Faults of W&B change no result, stop no run and are said in one line; afterwards `sync` completes the runs."""

import os
import shutil
import signal
import sys
import threading
from collections import deque
from pathlib import Path
from types import SimpleNamespace

import mirrored
import pytest
import tiny
from stubbed import children, until
from wandb_server import WandbServer

from experiments.errors import UserError
from experiments.runs import record
from experiments.runs.run import train
from experiments.runs.tracking.mirror import Mirror
from experiments.runs.tracking.sender import Sender, follow
from experiments.runs.tracking.server import wandb_in_use
from experiments.runs.tracking.settings import TOKEN, Tracking, token
from experiments.study import RunSpec
from sweeps.commands.sync import _follow_named

ONLINE = Tracking("online")


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
        assert mirrored.synced(study) == (["s0", "s1"], "2 runs sent, 0 already complete")
        for seed in (0, 1):
            mirrored.check(healthy, study / f"s{seed}")
        calls = healthy.calls["file_stream"]
        assert mirrored.synced(study) == (["s0", "s1"], "0 runs sent, 2 already complete")
        assert healthy.calls["file_stream"] == calls
    assert not mirrored.holds(study, server.key)


def test_records_made_without_tracking_are_sent_afterwards(tmp_path, monkeypatch):
    study, runs = tmp_path / "study", [mirrored.spec(0), mirrored.spec(1)]
    mirrored.write_plan(study, [*runs, mirrored.spec(2)])
    train(runs, study, device="cpu")
    with WandbServer(key="7" * 40).used_here(monkeypatch) as server:
        monkeypatch.setenv("WANDB_API_KEY", "8" * 40)
        status, out, err = mirrored.sync(study)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert "W&B cannot be used (" in err
        assert "; 0 of 2 runs are checked or sent; run the same command again" in err
        monkeypatch.setenv("WANDB_API_KEY", server.key)
        other, names = (study, "--project", "other"), ["s0", "s1"]
        assert mirrored.synced(*other) == (names, "2 runs sent, 0 already complete, 1 not finished")
        assert mirrored.synced(*other) == (names, "0 runs sent, 2 already complete, 1 not finished")
        found = mirrored.check(server, study / "s0")
        assert (found.project, found.settings["variant"]) == ("other", "learned-1d")


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["hang", "500"])
def test_a_server_that_fails_in_the_middle_of_sync_is_one_line(fault, tmp_path, monkeypatch):
    train([mirrored.spec()], tmp_path, device="cpu")
    with WandbServer(fault=fault, after=14).used_here(monkeypatch) as server:
        status, out, err = mirrored.sync(tmp_path)
    assert (status, out, err.count("\n")) == (2, "", 1), err
    assert "W&B cannot be used (" in err and server.key not in err


def test_sync_refuses_a_folder_without_finished_runs(tmp_path):
    for folder, reason in ((tmp_path, "holds no finished runs"), (tmp_path / "none", "is no folder")):
        status, out, err = mirrored.sync(folder)
        assert (status, out) == (2, "")
        assert err == f"vit-sweep: error: {folder}: {reason}; give the folder of a study, OUT/STUDY\n"


def test_a_run_that_another_process_goes_on_with_is_written_by_that_process_alone(tmp_path, monkeypatch):
    """The second sends it from its first epoch to its record, while the first goes on without it."""
    monkeypatch.setattr(os, "nice", lambda _: None)
    monkeypatch.setattr("experiments.runs.tracking.sender.POLL_SECONDS", 0.01)
    study, run, over, states = tmp_path / "study", mirrored.spec(train__epochs=3), threading.Event(), []

    def named():
        yield ["s0"]
        states.append(mirrored.mirror_of(server, study / "s0").state)
        yield []
        states.append(mirrored.mirror_of(server, study / "s0").state)
        train([run], study, device="cpu")
        over.set()
        Sender(study, ONLINE).send("s0")
        yield []

    with WandbServer().used_here(monkeypatch) as server:
        interrupt(study, run)
        each = named()
        follow(study, ONLINE, lambda: next(each), over, deque(), print, "")
        assert states == ["running", "failed"]
        mirrored.check(server, study / "s0")


@pytest.mark.slow
def test_a_run_that_is_open_when_another_process_has_sent_it_is_closed_as_complete(tmp_path, monkeypatch):
    study, run = tmp_path / "study", mirrored.spec(train__epochs=3)
    with WandbServer().used_here(monkeypatch) as server:
        interrupt(study, run)
        with wandb_in_use():
            first = Sender(study, ONLINE)
            first.send("s0")
            train([run], study, device="cpu")
            assert mirrored.sync(study)[0] == 0
            first.send("s0")
            first.close()
        mirrored.check(server, study / "s0")


def interrupt(study: Path, run: RunSpec) -> None:
    """Train the first epoch of a run."""

    def stop(job: int, row: dict[str, float]) -> None:
        raise KeyboardInterrupt

    mirrored.write_plan(study, [run])
    with pytest.raises(KeyboardInterrupt):
        train([run], study, device="cpu", on_row=stop)


def test_a_sender_that_reads_no_more_is_not_waited_for(tmp_path, monkeypatch):
    (tmp_path / "python").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr("experiments.runs.tracking.mirror.END_SECONDS", 0.0)
    with Mirror(ONLINE, tmp_path) as mirror:
        names = [f"{number:0200}" for number in range(1000)]  # more than a pipe holds
        telling = threading.Thread(target=lambda: [mirror.follow(name) for name in names], daemon=True)
        telling.start()
        telling.join(10)
        is_held_up = telling.is_alive()
        mirror.sender.kill()
    assert not is_held_up


def test_a_command_tells_its_sender_which_runs_it_no_longer_trains(tmp_path, monkeypatch):
    """s0 is trained elsewhere, s1 fails and is tried again, s2 stays."""
    reader, writer = map(os.fdopen, os.pipe(), "rw")
    process = SimpleNamespace(stdin=writer, stdout=iter([]), poll=lambda: 0, wait=lambda: 0)
    monkeypatch.setattr(Mirror, "_start", lambda _: process)
    mirror, named = Mirror(ONLINE, tmp_path), []
    for tell, run in zip("ffflflf", (0, 1, 2, 0, 3, 1, 1)):
        (mirror.follow if tell == "f" else mirror.leave)(f"s{run}")
    mirror.leave("s4")  # it is not known
    writer.close()
    monkeypatch.setattr(sys, "stdin", reader)

    def hear(folder, tracking, runs, over, *_):
        over.wait(10)
        named.extend(runs())

    monkeypatch.setattr("sweeps.commands.sync.follow", hear)
    _follow_named(tmp_path, ONLINE)
    assert sorted(named) == ["s1", "s2", "s3"]


@pytest.mark.skipif(not Path("/proc/self/stat").is_file(), reason="finds W&B's process in /proc")
@pytest.mark.slow
def test_wandbs_process_dying_loses_nothing(tmp_path, monkeypatch):
    """Another process sends what the one that failed has not."""
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
    with pytest.raises(OSError, match=f"no space left for {tmp_path / 'wandb'}"):
        Sender(tmp_path / "study", Tracking("offline")).send("s0")


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
    with WandbServer().used_here(monkeypatch) as server:
        said = f"1 run sent, 0 already complete; {server.url}/tester/vit-ablation\n"
        assert mirrored.sync(tmp_path / "single") == (0, said, "s0\n")


@pytest.mark.slow
def test_a_damaged_record_is_named_at_the_end_and_the_other_runs_are_sent(tmp_path, monkeypatch):
    train([mirrored.spec(0), mirrored.spec(1)], tmp_path, device="cpu")
    metrics = tmp_path / "s0" / record.METRICS
    metrics.write_text(metrics.read_text() + "9,9\n")
    with WandbServer().used_here(monkeypatch) as server:
        status, out, err = mirrored.sync(tmp_path)
        assert (status, err) == (1, "s1\n"), out
        first, second = out.splitlines()
        assert first.startswith("1 run sent, 0 already complete, 1 damaged; ") and "W&B cannot" not in out
        assert second.startswith(f"not sent: {tmp_path}/s0/")
        mirrored.check(server, tmp_path / "s1")
        said: list[str] = []
        with Mirror(ONLINE, tmp_path, said.append) as mirror:
            mirror.follow("s0")
            until(lambda: len(said) == 2)
        assert said[1].startswith(f"tracking: s0: is not sent ({tmp_path}/s0/")
