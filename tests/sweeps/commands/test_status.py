"""vit-sweep status: every run in its state, whatever a sweep is doing."""

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from stubbed import finish

from experiments.runs import record
from sweeps.main import main
from sweeps.plan import make_plan
from sweeps.queue.connect import connect
from sweeps.queue.process import current_process
from sweeps.queue.queue import Queue
from sweeps.study import parse_study
from sweeps.study_folder import write_plan

ROOT = Path(__file__).resolve().parents[3]
SUPPORT = ROOT / "tests" / "support"
STUDY = {"name": "tiny", "factors": {"model.head": ["logits", "softmax"]}, "base": {"train.epochs": 4}, "seeds": 3}


def status(capsys, folder: Path, *options: str) -> str:
    with pytest.raises(SystemExit) as exited:
        main(["status", str(folder), *options])
    out, err = capsys.readouterr()
    assert (exited.value.code, err) == (0, "")
    return out


def as_json(capsys, folder: Path) -> dict:
    return json.loads(status(capsys, folder, "--json"))


def states(found: dict) -> dict[str, str]:
    return {run["run"]: run["state"] for run in found["runs"]}


@pytest.fixture
def plan(tmp_path):
    plan = make_plan(parse_study(STUDY, "tiny"))
    write_plan(plan, tmp_path, "vit-sweep run tiny")
    return plan


def refused(capsys, folder: Path) -> str:
    """The one line with which `vit-sweep status` refuses a folder."""
    with pytest.raises(SystemExit) as exited:
        main(["status", str(folder)])
    out, err = capsys.readouterr()
    assert (exited.value.code, out, err.count("\n")) == (2, "", 1)
    return err


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
    for _ in range(3):
        (assignment,) = queue.assign(current_process())
        assert assignment.run == failed
        queue.settle(assignment, "failed", "RuntimeError: out of memory\nmore of it")
        queue.reconcile()
    first, _ = queue.assign(current_process()) + queue.assign(current_process())
    assert first.run == interrupted
    queue.settle(first, "interrupted")
    (folder / running.name).mkdir()
    (folder / running.name / record.METRICS).write_text("epoch,lr\n1,0.1\n2,0.1\n3,0.1\n")
    return [run.name for run in plan.runs]


def test_every_state_is_shown_with_what_belongs_to_it(plan, tmp_path, capsys):
    names = train_by_hand(plan, tmp_path)
    found = as_json(capsys, tmp_path)
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


def test_a_run_whose_record_was_deleted_is_not_finished(plan, tmp_path, capsys):
    """Also where the queue is in a file of its own, which other folders could share."""
    queue = Queue(plan, tmp_path, current_process(), storage=connect(plan, tmp_path, f"sqlite:///{tmp_path}/shared.db"))
    (assignment,) = queue.assign(current_process())
    folder = tmp_path / assignment.run.name
    finish(folder, assignment.run)
    queue.settle(assignment)
    assert states(as_json(capsys, tmp_path))[assignment.run.name] == "finished"
    shutil.rmtree(folder)
    assert states(as_json(capsys, tmp_path))[assignment.run.name] != "finished"


def test_the_table_counts_variants_and_lists_what_a_reader_wants_to_see(plan, tmp_path, capsys):
    names = train_by_hand(plan, tmp_path)
    short, every = status(capsys, tmp_path), status(capsys, tmp_path, "--all")
    assert short.startswith("tiny: 2 of 6 runs have ended, 1 running, 1 waiting, 1 interrupted, 1 failed, 1 diverged")
    assert [name for name in names if name in short] == [names[2], names[4]]
    assert all(name in every for name in names)
    assert re.search(rf"{names[2]} +failed +0/4 .*RuntimeError: out of memory *$", short, re.MULTILINE)
    assert re.search(rf"{names[4]} +running +3/4 .*{os.getpid()} on {os.uname().nodename}", short)
    assert re.search(r"^logits +3 +1 +1 +1 *$", short, re.MULTILINE)  # running, failed, finished


def test_without_a_queue_the_records_tell_the_state(plan, tmp_path, capsys):
    finished, interrupted, *_ = plan.runs
    finish(tmp_path / finished.name, finished)
    (tmp_path / interrupted.name).mkdir()
    (tmp_path / interrupted.name / record.METRICS).write_text("epoch\n1\n")
    before = sorted(tmp_path.rglob("*"))
    found = as_json(capsys, tmp_path)
    assert list(states(found).values()) == ["finished", "interrupted", "waiting", "waiting", "waiting", "waiting"]
    assert found["runs"][1]["epochs_done"] == 1
    assert found["seconds_left"] is None
    assert sorted(tmp_path.rglob("*")) == before, "it has written something"


def test_it_neither_waits_for_a_writer_nor_changes_the_queue(plan, tmp_path, capsys):
    train_by_hand(plan, tmp_path)
    database = tmp_path / "optuna.db"
    before = database.read_bytes()
    writer = sqlite3.connect(database, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")  # as a sweep does, while it assigns a run
    assert as_json(capsys, tmp_path)["counts"]["running"] == 1
    writer.execute("ROLLBACK")
    writer.close()
    assert database.read_bytes() == before


def test_it_finds_a_queue_in_postgresql_and_does_not_wait_for_its_lock(plan, tmp_path, capsys, postgres):
    store = connect(plan, tmp_path, postgres.new_database())
    queue = Queue(plan, tmp_path, current_process(), storage=store)
    (assignment,) = queue.assign(current_process())
    found = store.run(lambda: as_json(capsys, tmp_path))  # with its lock, as a sweep assigns a run
    assert states(found) == {run.name: "running" if run == assignment.run else "waiting" for run in plan.runs}
    assert 0 <= found["runs"][0]["heartbeat"] < 60


def test_during_a_sweep_it_shows_the_workers_and_after_a_kill_the_interrupted_runs(tmp_path, capsys):
    (tmp_path / "tiny.yaml").write_text(json.dumps(STUDY))
    command = [sys.executable, SUPPORT / "stub_sweep.py", "run", tmp_path / "tiny.yaml", "--out", tmp_path]
    log = tmp_path / "log"
    environment = {**os.environ, "STUB": json.dumps({"log": str(log), "nap": 60}), "PYTHONPATH": str(ROOT)}
    sweep = subprocess.Popen(
        [*map(str, command), "--workers", "2"], env=environment, start_new_session=True, stderr=subprocess.DEVNULL
    )
    try:
        end = time.monotonic() + 120
        while not log.exists() or log.read_text().count("start") < 2:
            assert time.monotonic() < end
            time.sleep(0.05)
        found = as_json(capsys, tmp_path / "tiny")
    finally:
        os.killpg(sweep.pid, signal.SIGKILL)
        sweep.wait()
    workers = {int(line.split()[2]) for line in log.read_text().splitlines()}
    assert {run["pid"] for run in found["runs"] if run["state"] == "running"} == workers
    assert Counter(states(found).values()) == {"running": 2, "waiting": 4}
    end = time.monotonic() + 60
    while Counter(states(as_json(capsys, tmp_path / "tiny")).values()) != {"interrupted": 2, "waiting": 4}:
        assert time.monotonic() < end, "the killed workers still count as alive"


def test_watch_ends_when_every_run_has_ended(plan, tmp_path, capsys):
    for run in plan.runs:
        finish(tmp_path / run.name, run)
    assert status(capsys, tmp_path, "--watch", "0.2").count("6 of 6 runs have ended") == 1


def test_a_cancelled_study_is_said_to_be_and_watch_ends_where_nothing_is_in_training(plan, tmp_path, capsys):
    Queue(plan, tmp_path, current_process()).cancel()
    assert as_json(capsys, tmp_path)["cancelled"] is True
    assert "tiny: cancelled; 0 of 6 runs have ended, 6 waiting" in status(capsys, tmp_path, "--watch", "0.2")


@pytest.mark.parametrize(
    "words, said",
    [
        (["nowhere"], "STUDY_DIR: 'nowhere' holds no study.json; `vit-sweep run` makes such a folder"),
        (["mine"], "did you mean runs/mine?"),
        ([""], "expected the path of a folder"),
        ([], "STUDY_DIR"),
        (["runs/mine", "--watch", "0"], "--watch: '0' is not allowed: expected a number of seconds"),
        (["runs/mine", "--watch", "often"], "--watch: 'often' is not allowed"),
        (["runs/broken"], "study.json: is not JSON"),
    ],
)
def test_bad_input_gives_one_line_and_status_2(capsys, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    for name, text in (("mine", "{}"), ("broken", "{")):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "study.json").write_text(text)
    with pytest.raises(SystemExit) as exited:
        main(["status", *words])
    out, err = capsys.readouterr()
    assert (exited.value.code, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_an_exported_study_is_refused(capsys):
    folder = ROOT / "analysis" / "reference" / "digits" / "position"
    said = f"STUDY_DIR: '{folder}' holds an exported study, which has no run folders; see vit-report"
    assert refused(capsys, folder) == f"vit-sweep: error: {said}\n"


def test_an_interrupted_watch_does_not_say_that_it_resumes(capsys, tmp_path, plan, monkeypatch):
    def interrupt(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr("sweeps.commands.status.time.sleep", interrupt)
    with pytest.raises(SystemExit) as exited:
        main(["status", str(tmp_path), "--watch"])
    assert (exited.value.code, capsys.readouterr().err) == (130, "vit-sweep: interrupted\n")
