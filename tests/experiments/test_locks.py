"""Locks between processes: who holds one, and that a kill gives it back."""

import errno
import fcntl
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from experiments import locks
from experiments.errors import UserError
from experiments.locks import holder, lock, lock_runs, wait_for_lock
from sweeps.builtin import load_study
from sweeps.main import main
from sweeps.plan import make_plan
from sweeps.study_folder import StudyFolder, the_only_driver

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def other(tmp_path):
    """A process that holds the lock `tmp_path`/a."""
    code = "import sys, time; from pathlib import Path; from experiments.locks import lock\n"
    code += "with lock(Path(sys.argv[1])): print(flush=True); time.sleep(600)"
    command = [sys.executable, "-c", code, str(tmp_path / "a"), "more"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_lock_names_its_holder_and_is_free_when_that_is_killed(tmp_path, other):
    held_by = holder(tmp_path / "a")
    assert (held_by.pid, held_by.host) == (other.pid, os.uname().nodename) and held_by.command.endswith("more")
    assert str(held_by) == f"process {other.pid} on {os.uname().nodename}"
    with lock(tmp_path / "a") as held:
        assert not held
    assert holder(tmp_path / "a") == held_by  # asking changes nothing
    other.kill()
    other.wait()
    assert holder(tmp_path / "a") is None
    with lock(tmp_path / "a") as held:
        assert held and holder(tmp_path / "a").pid == os.getpid()
    assert holder(tmp_path / "a") is None and holder(tmp_path / "b") is None


def test_of_several_runs_those_are_locked_that_are_free(tmp_path, other):
    (tmp_path / "locks").mkdir()
    os.rename(tmp_path / "a", tmp_path / "locks" / "b")
    with lock_runs(tmp_path, ["c", "a", "b"], 0.0) as held:
        assert held == {"a", "c"}
        with lock_runs(tmp_path, ["a", "d"], 0.0) as more:
            assert more == {"d"}


def test_a_lock_is_waited_for_in_bounded_time_and_this_is_said(tmp_path, other, monkeypatch, capfd):
    monkeypatch.setattr("experiments.locks.SAID_AFTER", 0.1)
    path = tmp_path / "a"
    with pytest.raises(UserError) as raised, wait_for_lock(path, 0.6):
        pass
    assert str(raised.value) == f"{path}: was locked by {holder(path)} for 1 s; end it, or try again"
    threading.Timer(0.3, other.kill).start()
    with wait_for_lock(path):
        pass
    assert capfd.readouterr().err.count(f"{path}: is locked by another process; waiting up to ") == 2


def test_the_folder_of_a_lock_is_made(tmp_path):
    """As that of a dataset that is downloaded."""
    with lock(tmp_path / "data" / "new" / ".download.lock") as held:
        assert held


def test_what_cannot_be_locked_is_one_line(tmp_path):
    (tmp_path / "a").mkdir()
    before = time.monotonic()
    with pytest.raises(UserError, match=f"{tmp_path}/a: is not a file"), lock(tmp_path / "a", 60):
        pass
    assert time.monotonic() - before < 30


@pytest.fixture(params=[errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK])
def without_locks(request, monkeypatch):
    """A file system without locks."""

    def refuse(*_):
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr(fcntl, "flock", refuse)
    locks._say_without_locks.cache_clear()


@pytest.mark.usefixtures("without_locks")
def test_where_there_are_no_locks_it_is_said_once_and_work_goes_on(tmp_path, capfd):
    (tmp_path / "locks").mkdir()
    for _ in range(2):
        with wait_for_lock(tmp_path / "a"), lock_runs(tmp_path, ["b", "c"], 0.0) as held:
            assert held == {"b", "c"} and holder(tmp_path / "a").pid == os.getpid()
    assert holder(tmp_path / "a") is None
    lines = capfd.readouterr().err.splitlines()
    assert [line.partition(": its file system has no locks")[0] for line in lines] == [
        f"{tmp_path}",
        f"{tmp_path}/locks",
    ]


@pytest.mark.usefixtures("without_locks")
def test_where_there_are_no_locks_a_second_host_is_refused(tmp_path):
    note = {"host": "elsewhere", "pid": 7, "command": "vit-sweep run", "since": "2026-01-01T00:00:00+00:00"}
    (tmp_path / "driver.lock").write_text(json.dumps(note))
    line = "process 7 on elsewhere trains this study since 2026-01-01T00:00:00.00:00: vit-sweep run"
    with pytest.raises(UserError, match=line), the_only_driver(tmp_path):
        pass
    with (
        pytest.raises(UserError, match="was locked by process 7 on elsewhere"),
        wait_for_lock(tmp_path / "driver.lock", 0.1),
    ):
        pass
    note["host"] = os.uname().nodename  # of a process of this host that was killed
    (tmp_path / "driver.lock").write_text(json.dumps(note))
    with the_only_driver(tmp_path):
        pass


@pytest.mark.usefixtures("without_locks")
def test_where_there_are_no_locks_a_cell_is_refused(tmp_path, capfd):
    plan = make_plan(load_study("head"))
    StudyFolder(tmp_path / "head", plan).write("here")
    with pytest.raises(SystemExit) as ended:
        main(["cell", str(tmp_path / "head"), plan.runs[0].name])
    error = f"vit-sweep: error: {tmp_path}/head: its file system has no locks; use `vit-sweep run`, from one host\n"
    assert ended.value.code == 2 and capfd.readouterr().err == error


def test_two_that_look_at_once_do_not_see_each_other(tmp_path):
    (tmp_path / "a").touch()
    with (tmp_path / "a").open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_SH)  # as another look does
        assert holder(tmp_path / "a") is None
