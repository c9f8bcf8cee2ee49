"""vit-sweep status: every run in its state, whatever a sweep is doing."""

import dataclasses
import json
import os
import re
import shutil
import signal
import sqlite3
import time
from collections import Counter
from pathlib import Path
from unittest.mock import Mock

import pytest
from stubbed import finish, tiny_plan, until

from experiments.runs import record
from sweeps.queue.connect import connect
from sweeps.queue.process import current_process
from sweeps.queue.queue import Queue
from sweeps.study_folder import write_plan


def status(vit_sweep, folder: Path, *options: str) -> str:
    code, out, err = vit_sweep("status", folder, *options)
    assert (code, err) == (0, "")
    return out


def as_json(vit_sweep, folder: Path) -> dict:
    return json.loads(status(vit_sweep, folder, "--json"))


def states(found: dict) -> dict[str, str]:
    return {run["run"]: run["state"] for run in found["runs"]}


@pytest.fixture
def plan(tmp_path):
    plan = tiny_plan(base={"train.epochs": 4})
    write_plan(plan, tmp_path, "vit-sweep run tiny")
    return plan


def train_by_hand(plan, folder: Path) -> list[str]:
    """One run of the plan in each state that a queue gives; the names of the runs in the order of the plan."""
    queue = Queue(plan, folder, current_process())
    queue.reconcile()
    finished, diverged, failed, interrupted, running, _ = plan.runs
    for run, outcome in ((finished, "finished"), (diverged, "diverged")):
        (assignment,) = queue.assign(current_process())
        assert assignment.run == run
        finish(folder / run.name, run, outcome, 2 if outcome == "diverged" else 4)
        queue.settle(assignment)
    for host in "123":  # on its host a run that failed comes last
        (assignment,) = queue.assign(dataclasses.replace(current_process(), host=host))
        assert assignment.run == failed
        queue.settle(assignment, "failed", "RuntimeError: out of memory\nmore of it")
        queue.reconcile()
    first, _ = queue.assign(current_process()) + queue.assign(current_process())
    assert first.run == interrupted
    queue.settle(first, "interrupted")
    (folder / running.name).mkdir()
    (folder / running.name / record.METRICS).write_text("epoch,lr\n1,0.1\n2,0.1\n3,0.1\n")
    return [run.name for run in plan.runs]


def test_every_state_is_shown_with_what_belongs_to_it(plan, tmp_path, vit_sweep):
    names = train_by_hand(plan, tmp_path)
    found = as_json(vit_sweep, tmp_path)
    expected = ["finished", "diverged", "failed", "interrupted", "running", "waiting"]
    assert states(found) == dict(zip(names, expected, strict=True))
    assert found["counts"] == {**dict.fromkeys(expected, 1), "pruned": 0}
    finished, _, failed, _, running, waiting = found["runs"]
    assert [run["epochs_done"] for run in found["runs"]] == [4, 2, 0, 0, 3, 0]
    assert {run["epochs"] for run in found["runs"]} == {4}
    assert [run["attempts"] for run in found["runs"]] == [1, 1, 3, 0, 1, 0]
    assert failed["error"] == "RuntimeError: out of memory"
    assert (running["pid"], running["host"]) == (os.getpid(), os.uname().nodename)
    assert 0 <= running["heartbeat"] < 60
    assert (waiting["pid"], waiting["heartbeat"], finished["heartbeat"]) == (None, None, None)


def test_a_run_whose_record_was_deleted_is_not_finished(plan, tmp_path, vit_sweep):
    """Also where the queue is in a file of its own, which other folders could share."""
    queue = Queue(plan, tmp_path, current_process(), storage=connect(plan, tmp_path, f"sqlite:///{tmp_path}/shared.db"))
    (assignment,) = queue.assign(current_process())
    folder = tmp_path / assignment.run.name
    finish(folder, assignment.run)
    queue.settle(assignment)
    assert states(as_json(vit_sweep, tmp_path))[assignment.run.name] == "finished"
    shutil.rmtree(folder)
    assert states(as_json(vit_sweep, tmp_path))[assignment.run.name] != "finished"


def test_the_table_counts_variants_and_lists_what_a_reader_wants_to_see(plan, tmp_path, vit_sweep):
    names = train_by_hand(plan, tmp_path)
    short, every = status(vit_sweep, tmp_path), status(vit_sweep, tmp_path, "--all")
    assert short.startswith("tiny: 2 of 6 runs have ended, 1 running, 1 waiting, 1 interrupted, 1 failed, 1 diverged")
    assert [name for name in names if name in short] == [names[2], names[4]]
    assert all(name in every for name in names)
    assert re.search(rf"{names[2]} +failed +0/4 .*RuntimeError: out of memory *$", short, re.MULTILINE)
    assert re.search(rf"{names[4]} +running +3/4 .*{os.getpid()} on {os.uname().nodename}", short)
    assert re.search(r"^logits +3 +1 +1 +1 *$", short, re.MULTILINE)  # running, failed, finished


def test_a_run_in_training_shows_the_time_since_its_last_epoch(plan, tmp_path, vit_sweep):
    names = train_by_hand(plan, tmp_path)
    saved = tmp_path / names[4] / "resume.safetensors"
    saved.touch()
    os.utime(saved, (time.time() - 1200, time.time() - 1200))
    ages = {run["run"]: run["last_epoch"] for run in as_json(vit_sweep, tmp_path)["runs"]}
    assert 1200 <= ages.pop(names[4]) < 1260 and set(ages.values()) == {None}
    assert re.search(rf"{names[4]} +running +.* 20 min ago", status(vit_sweep, tmp_path))


def test_without_a_queue_the_records_tell_the_state(plan, tmp_path, vit_sweep):
    finished, interrupted, *_ = plan.runs
    finish(tmp_path / finished.name, finished)
    (tmp_path / interrupted.name).mkdir()
    (tmp_path / interrupted.name / record.METRICS).write_text("epoch\n1\n")
    before = sorted(tmp_path.rglob("*"))
    found = as_json(vit_sweep, tmp_path)
    assert list(states(found).values()) == ["finished", "interrupted", "waiting", "waiting", "waiting", "waiting"]
    assert found["runs"][1]["epochs_done"] == 1
    assert found["seconds_left"] is None
    assert sorted(tmp_path.rglob("*")) == before, "it has written something"


def test_it_neither_waits_for_a_writer_nor_changes_the_queue(plan, tmp_path, vit_sweep):
    train_by_hand(plan, tmp_path)
    database = tmp_path / "optuna.db"
    before = database.read_bytes()
    writer = sqlite3.connect(database, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")  # as a sweep does, while it assigns a run
    assert as_json(vit_sweep, tmp_path)["counts"]["running"] == 1
    writer.execute("ROLLBACK")
    writer.close()
    assert database.read_bytes() == before


def test_a_file_that_another_process_keeps_locked_is_one_line_within_seconds(plan, tmp_path, refused):
    train_by_hand(plan, tmp_path)
    holder = sqlite3.connect(tmp_path / "optuna.db", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    before = time.monotonic()
    assert f"{tmp_path}/optuna.db: cannot be used (database is locked); run" in refused("status", tmp_path)
    assert time.monotonic() - before < 30
    holder.close()


def test_it_finds_a_queue_in_postgresql_and_does_not_wait_for_its_lock(plan, tmp_path, vit_sweep, postgres):
    store = connect(plan, tmp_path, postgres.new_database())
    queue = Queue(plan, tmp_path, current_process(), storage=store)
    (assignment,) = queue.assign(current_process())
    found = store.run(lambda: as_json(vit_sweep, tmp_path))  # with its lock, as a sweep assigns a run
    assert states(found) == {run.name: "running" if run == assignment.run else "waiting" for run in plan.runs}
    assert 0 <= found["runs"][0]["heartbeat"] < 60


def test_during_a_sweep_it_shows_the_workers_and_after_a_kill_the_interrupted_runs(stubbed, vit_sweep):
    sweep = stubbed.start_run(nap=60)
    try:
        stubbed.wait_for("start", 2)
        found = as_json(vit_sweep, stubbed.dir)
    finally:
        os.killpg(sweep.pid, signal.SIGKILL)
        sweep.communicate()
    assert {run["pid"] for run in found["runs"] if run["state"] == "running"} == {
        pid for _, pid in stubbed.noted("start")
    }
    assert Counter(states(found).values()) == {"running": 2, "waiting": 4}
    interrupted = {"interrupted": 2, "waiting": 4}
    until(lambda: Counter(states(as_json(vit_sweep, stubbed.dir)).values()) == interrupted, seconds=60)


def test_watch_ends_at_the_second_look_at_which_every_run_has_ended(plan, tmp_path, vit_sweep):
    """A sweep that is starting may add runs to a study whose runs have all ended."""
    for run in plan.runs:
        finish(tmp_path / run.name, run)
    assert status(vit_sweep, tmp_path, "--watch", "0.2").count("6 of 6 runs have ended") == 2


def test_a_cancelled_study_is_said_to_be_and_watch_ends_where_nothing_is_in_training(plan, tmp_path, vit_sweep):
    Queue(plan, tmp_path, current_process()).cancel()
    assert as_json(vit_sweep, tmp_path)["cancelled"] is True
    assert "tiny: cancelled; 0 of 6 runs have ended, 6 waiting" in status(vit_sweep, tmp_path, "--watch", "0.2")


def test_an_interrupted_watch_does_not_say_that_it_resumes(vit_sweep, tmp_path, plan, monkeypatch):
    monkeypatch.setattr("sweeps.commands.status.time.sleep", Mock(side_effect=KeyboardInterrupt))
    code, _, err = vit_sweep("status", tmp_path, "--watch")
    assert (code, err) == (130, "vit-sweep: interrupted\n")
