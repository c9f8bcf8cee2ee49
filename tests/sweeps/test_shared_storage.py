"""Sweeps of several hosts with one PostgreSQL.

Training is replaced by stub_sweep.py; a host is a name that a process has.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import optuna
import pytest
from stubbed import Stubbed, ended

RUNS = 16


class Hosts(Stubbed):
    """`vit-sweep` on several hosts. `log` is what the workers of all of them noted."""

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(folder, seeds=8)
        self.url = url

    def start_on(self, host: str, *options: str, out: str = "out", command: str = "run", **stub) -> subprocess.Popen:
        study = [self.study, "--out", self.folder / out, "--tracking", "off"] if command == "run" else []
        return self.start(command, *study, *options, host=host, **stub)

    def run_on(self, host: str, *options: str, **stub) -> tuple[int, str, str]:
        return ended(self.start_on(host, *options, **stub))

    def trials(self) -> list[optuna.trial.FrozenTrial]:
        (name,) = optuna.get_all_study_names(self.url)
        return optuna.load_study(study_name=name, storage=self.url).get_trials()


@pytest.fixture
def hosts(tmp_path, postgres):
    return Hosts(tmp_path, postgres.new_database())


def finish(processes: list[subprocess.Popen]) -> list[str]:
    """Wait until sweeps have ended well. Returns what they said about problems."""
    said = [process.communicate(timeout=180) for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), said
    return [err for _, err in said]


@pytest.mark.slow
def test_eight_workers_of_two_hosts_train_each_run_once_although_the_server_crashes_three_times(hosts, postgres):
    options = ["--storage", hosts.url, "--workers", "4"]
    sweeps = [hosts.start_on(host, *options, nap=0.5) for host in ("one", "two")]
    for count in (1, 5, 9):
        hosts.wait_for("end", count)
        postgres.stop(signal.SIGQUIT)
        time.sleep(1)
        postgres.start()
    for err in finish(sweeps):
        assert err.count("trying again for 10 min, training continues") <= 3
        assert "Traceback" not in err
    assert set(hosts.ended().values()) == {1} and len(hosts.ended()) == RUNS
    assert {trial.user_attrs["owner"]["worker"]["host"] for trial in hosts.trials()} == {"one", "two"}


@pytest.mark.slow
def test_clocks_that_differ_by_hours_change_nothing(hosts):
    """By its own clock, each host would take the other's heartbeats for hours old, or for ones of the future."""
    options = ["--storage", hosts.url, "--workers", "2"]
    finish([hosts.start_on(host, *options, nap=0.3, skew=skew) for host, skew in (("one", 3600), ("two", -3600))])
    assert set(hosts.ended().values()) == {1} and len(hosts.ended()) == RUNS


def test_folders_with_other_seeds_are_copied_together(hosts):
    """Machines without a shared folder: each trains its own seeds, and the records of one are copied to the other."""
    for host, seeds in (("one", "0,1"), ("two", "2,3")):
        assert hosts.run_on(host, "--storage", hosts.url, "--seeds", seeds, "--workers", "2", out=host)[0] == 0
    for summary in (hosts.folder / "two" / "tiny").glob("*/summary.json"):
        shutil.copytree(summary.parent, hosts.folder / "one" / "tiny" / summary.parent.name)
    status, out, err = hosts.run_on("one", "--seeds", "4", out="one")
    assert status == 0 and "8 runs: 8 finished" in out, err
    assert set(hosts.ended().values()) == {1} and len(hosts.ended()) == 8


@pytest.fixture
def small_disk(tmp_path):
    """A file system of two MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)]
    if os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a file system can be mounted only by root")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True], ids=["SQLite", "PostgreSQL"])
def test_a_full_disk_is_one_line_and_the_same_command_resumes(shared, hosts, small_disk):
    """It holds the records, and without a PostgreSQL the queue too."""
    options = ["--out", str(small_disk), "--workers", "2", *(["--storage", hosts.url] if shared else [])]
    sweep = hosts.start_on("one", *options, nap=0.3)
    hosts.wait_for("end", 2)
    with (small_disk / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(bytes(512))
    _, err = sweep.communicate(timeout=120)
    assert sweep.returncode == 2
    (line,) = (line for line in err.splitlines() if "error" in line)
    assert line.startswith(f"vit-sweep: error: {small_disk}/tiny/")
    assert "No space left on device" in line or "full" in line or "disk I/O error" in line
    (small_disk / "filler").unlink()
    status, out, err = hosts.run_on("one", *options)
    assert status == 0 and f"{RUNS} runs: {RUNS} finished" in out, err
    assert set(hosts.ended().values()) == {1} and len(hosts.ended()) == RUNS
