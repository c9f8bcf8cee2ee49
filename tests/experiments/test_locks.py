"""Locks between processes: one holds it, and a kill gives it back."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.errors import UserError
from experiments.files import is_locked, lock, lock_runs

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def other(tmp_path):
    """A process that holds the lock `tmp_path`/a."""
    code = "import sys, time; from pathlib import Path; from experiments.files import lock\n"
    code += "with lock(Path(sys.argv[1])): print(flush=True); time.sleep(600)"
    command = [sys.executable, "-c", code, str(tmp_path / "a"), "more"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_lock_is_held_by_one_process_and_free_when_that_is_killed(tmp_path, other):
    with lock(tmp_path / "a") as held:
        assert not held
    assert is_locked(tmp_path / "a") and is_locked(tmp_path / "a")  # asking changes nothing
    other.kill()
    other.wait()
    assert not is_locked(tmp_path / "a")
    with lock(tmp_path / "a") as held:
        assert held and is_locked(tmp_path / "a")
    assert not is_locked(tmp_path / "a") and not is_locked(tmp_path / "b") and not (tmp_path / "b").exists()


def test_of_several_runs_those_are_locked_that_are_free(tmp_path, other):
    (tmp_path / "locks").mkdir()
    os.rename(tmp_path / "a", tmp_path / "locks" / "b")
    with lock_runs(tmp_path, ["c", "a", "b"], 0.0) as held:
        assert held == {"a", "c"}
        with lock_runs(tmp_path, ["a", "d"], 0.0) as more:
            assert more == {"d"}


def test_what_cannot_be_locked_is_one_line(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(UserError, match=f"^{tmp_path}/a: cannot be locked: "), lock(tmp_path / "a", 60):
        pass
    (tmp_path / "link").symlink_to(tmp_path / "b")
    with pytest.raises(UserError, match=f"^{tmp_path}/link: is a link"), lock(tmp_path / "link"):
        pass
