"""Locks between processes: who holds one, and that a kill gives it back."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from experiments.errors import UserError
from experiments.files import RecordError
from experiments.locks import holder, lock, lock_runs, wait_for_lock

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
    os.link(tmp_path / "a", tmp_path / "locks" / "b")
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


def test_what_cannot_be_locked_is_one_line(tmp_path):
    (tmp_path / "a").mkdir()
    before = time.monotonic()
    with pytest.raises(RecordError, match=f"{tmp_path}/a: cannot be locked: Is a directory"), lock(tmp_path / "a", 60):
        pass
    assert time.monotonic() - before < 30
