"""Faults of W&B change no result, stop no run, hold no command up, and leave no process; `sync` sends the rest once."""

import os
import signal
import threading

import commands
import mirrored
import pytest
import tiny
from stubbed import children, until
from wandb_server import WandbServer

from experiments import tracker
from experiments.runs import record
from experiments.runs.run import train


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "after"),
    [("die", 0), ("die", 16), ("hang", 0), ("hang", 8), ("hang", 16), ("500", 0), ("500", 16), ("refuse", 0)],
)
def test_a_fault_costs_no_result_and_sync_sends_the_rest_once(fault, after, tmp_path, monkeypatch):
    """`after`: requests that are answered. 8: the first run is being opened; 16: the runs are in training."""
    study, runs, ends = tmp_path / "study", [mirrored.spec(seed, train__epochs=6) for seed in (0, 1)], []
    with WandbServer(fault="none" if fault == "refuse" else fault, after=after).used_here(monkeypatch) as server:
        if fault == "refuse":
            monkeypatch.setenv("WANDB_API_KEY", "8" * 40)
        lines = mirrored.trained(study, runs, ended=ends)
        print(f"{fault} {after}: an epoch waited {ends[1] * 1e3:.2f} ms, the end {ends[0]:.1f} s; {lines}")
        assert ends[1] < 1 and ends[0] < 15
        until(lambda: not mirrored.users(server), 60)
    assert lines[-1] == f"tracking: W&B lacks 2 runs; `vit-sweep sync {study}` sends them"
    others = [line for line in lines[:-1] if not line.startswith("tracking: runs are mirrored")]
    assert len(others) <= 1 and all("W&B cannot be used (" in line for line in others)
    train(runs, tmp_path / "off", device="cpu")
    for seed in (0, 1):
        assert tiny.results(study / f"s{seed}") == tiny.results(tmp_path / "off" / f"s{seed}")
    with WandbServer().used_here(monkeypatch) as healthy:
        check_sync(healthy, study, 2)
    assert not mirrored.holds(study, server.key)


def check_sync(server: WandbServer, study, count: int) -> None:
    """`sync` sends the rest, and nothing a second time; every row of every metrics.csv is there."""
    said = f"W&B has {count} of {count} finished runs"
    assert mirrored.synced(study) == said
    for path in study.glob("*/summary.json"):
        mirrored.check(server, path.parent)
    calls = server.calls["file_stream"]
    assert mirrored.synced(study) == said
    assert server.calls["file_stream"] == calls


def test_a_server_that_never_answers_is_not_waited_for_and_leaves_no_process(tmp_path, monkeypatch):
    monkeypatch.setattr(tracker, "END_SECONDS", 1.0)
    ends: list[float] = []
    with WandbServer(fault="hang").used_here(monkeypatch) as server:
        lines = mirrored.trained(tmp_path, [mirrored.spec()], ended=ends)
        assert ends[0] < 4 and ends[1] < 1
        until(lambda: not mirrored.users(server), 20)
    assert lines == [f"tracking: W&B lacks 1 run; `vit-sweep sync {tmp_path}` sends them"]


KILLED = """
import mirrored, pathlib, sys, time
mirrored.trained(pathlib.Path(sys.argv[1]), [mirrored.spec()], on_row=lambda *_: time.sleep(600))
"""


@pytest.mark.parametrize("fault", ["none", pytest.param("hang", marks=pytest.mark.slow)])
def test_a_command_that_is_killed_leaves_no_process(fault, tmp_path, monkeypatch):
    with WandbServer(fault=fault).used_here(monkeypatch) as server:
        path = os.pathsep.join([str(commands.ROOT), str(commands.ROOT / "tests" / "support")])
        command = commands.start(KILLED, tmp_path, env={"PYTHONPATH": path})
        until(lambda: len(mirrored.users(server)) == 2)  # with the process of wandb
        command.kill()
        command.wait()
        until(lambda: not mirrored.users(server), 60)


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
        assert mirrored.synced(study, "--project", "other") == "W&B has 2 of 2 finished runs"
        assert len({run.sessions for run in server.runs.values()}) == 1
        found = mirrored.check(server, study / "s0")
        assert (found.project, found.settings["variant"]) == ("other", "learned-1d")


# A thread of wandb's own can raise when its process is killed; ours is seen by what it says.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_after_the_first_error_one_line_is_said_and_training_goes_on(server, tmp_path):
    """The process of wandb dies in the middle."""

    def kill(_: int, row: dict[str, float]) -> None:
        if row["epoch"] == 2:
            until(lambda: server.runs)
            for pid in children(os.getpid(), "wandb-core"):
                os.kill(pid, signal.SIGKILL)

    said = mirrored.trained(tmp_path, [mirrored.spec(train__epochs=4)], on_row=kill)
    assert "runs are mirrored" in said[0] and "W&B cannot be used (" in said[1] and "lacks 1 run;" in said[2]
    assert len(said) == 3
    assert mirrored.synced(tmp_path) == "W&B has 1 of 1 finished run"
    mirrored.check(server, tmp_path / "s0")


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path):
    (tmp_path / "wandb").write_text("no folder")
    lines = mirrored.trained(tmp_path, [mirrored.spec()], "offline")
    assert "wandb' cannot be written: File exists; training goes on" in lines[-2]
    assert lines[-1].startswith("tracking: W&B lacks 1 run;")
    assert record.has_ended(tmp_path / "s0")


def test_a_damaged_record_is_named_and_the_other_runs_are_sent(server, tmp_path):
    train([mirrored.spec(0), mirrored.spec(1)], tmp_path, device="cpu")
    metrics = tmp_path / "s0" / record.METRICS
    metrics.write_text(metrics.read_text() + "9,9\n")
    status, out, _ = mirrored.sync(tmp_path)
    place, damaged, sent = out.splitlines()
    assert (status, place) == (1, f"runs are mirrored to Weights & Biases: {server.url}/tester/vit-ablation")
    assert damaged.startswith(f"s0: is not sent ({tmp_path}/s0/") and sent == "W&B has 1 of 2 finished runs"
    mirrored.check(server, tmp_path / "s1")


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "seconds"), [("hang", 4), ("500", 4), ("hang", 20)])
def test_a_server_that_comes_back_has_every_row_of_every_run_after_sync(fault, seconds, tmp_path, monkeypatch):
    """After a short fault, W&B gets all within the command; after a long one, the last runs at the next `sync`."""
    study, runs, ends = tmp_path / "study", [mirrored.spec(seed, train__epochs=6) for seed in (0, 1)], []

    def break_for_a_time(_: int, row: dict[str, float]) -> None:
        if row["epoch"] == 3 and server.fault == "none":
            until(lambda: server.runs)
            server.fault = fault
            threading.Timer(seconds, server.mend).start()

    with WandbServer().used_here(monkeypatch) as server:
        lines = mirrored.trained(study, runs, on_row=break_for_a_time, ended=ends)
        print(f"{fault} for {seconds} s: an epoch waited {ends[1] * 1e3:.2f} ms, the end {ends[0]:.1f} s; {lines}")
        assert ends[1] < 1 and ends[0] < 15
        until(lambda: server.fault == "none", 60)
        check_sync(server, study, 2)
        assert len(server.runs) == 2
