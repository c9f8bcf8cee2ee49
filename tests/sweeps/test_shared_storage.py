"""Sweeps of several hosts with one PostgreSQL. Training is replaced by stub_sweep.py; a host is a name that a process has."""

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import optuna
import pytest
from stubbed import Stubbed, ended, tiny_plan

from experiments.runs.record import write_summary

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
def hosts(tmp_path, postgres) -> Hosts:
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


@pytest.mark.slow
def test_a_server_that_is_lost_ends_the_sweep_with_one_line_and_the_same_command_resumes(hosts, postgres):
    options = ["--storage", hosts.url, "--workers", "2"]
    sweep = hosts.start_on("one", *options, nap=0.2, retry=2)
    hosts.wait_for("end", 2)
    postgres.stop()
    try:
        _, err = sweep.communicate(timeout=120)
    finally:
        postgres.start()
    assert sweep.returncode == 2
    assert err.splitlines()[-1].startswith("vit-sweep: error: postgresql+psycopg://")
    assert "Traceback" not in err
    status, out, err = hosts.run_on("one", nap=0.02)  # the folder knows its storage
    assert status == 0 and f"{RUNS} runs: {RUNS} finished" in out, err
    assert set(hosts.ended().values()) == {1} and len(hosts.ended()) == RUNS


def test_a_server_that_refuses_is_one_line(hosts):
    status, _, err = hosts.run_on("one", "--storage", "postgresql://tester@127.0.0.1:1/nothing", out="new")
    assert status == 2
    assert err.startswith("vit-sweep: error: postgresql+psycopg://tester@127.0.0.1:1/nothing: cannot be used (")
    assert err.count("\n") == 1


def test_another_folder_is_refused_before_it_trains_the_runs_again(hosts):
    assert hosts.run_on("one", "--storage", hosts.url, "--workers", "2")[0] == 0
    status, _, err = hosts.run_on("two", "--storage", hosts.url, out="other")
    assert status == 2 and err.count("\n") == 1
    assert f"{hosts.folder}/out/tiny on one; use that folder, or --separate-folders" in err
    assert set(hosts.ended().values()) == {1} and len(hosts.ended()) == RUNS


def test_a_password_is_refused_and_reaches_no_file(hosts):
    url = hosts.url.replace("tester@", "tester:hunter2@")
    hosts.run_on("one", "--storage", hosts.url, "--seeds", "1", "--workers", "2")
    status, out, err = hosts.run_on("one", "--storage", url)
    assert status == 2 and "PGPASSFILE" in err and err.count("\n") == 1
    assert "hunter2" not in out + err
    for path in hosts.folder.rglob("*"):
        assert not path.is_file() or b"hunter2" not in path.read_bytes(), path


@pytest.mark.slow
def test_the_storage_cannot_change_while_a_sweep_uses_it(hosts):
    sweep = hosts.start_on("one", "--workers", "2", nap=0.5)
    hosts.wait_for("start", 2)
    status, _, err = hosts.run_on("one", "--storage", hosts.url)
    assert status == 2 and err.count("\n") == 1
    assert "--storage: a sweep is training the runs of" in err and "optuna.db" in err
    sweep.kill()
    sweep.communicate()
    status, out, err = hosts.run_on("one", "--storage", hosts.url, "--workers", "2")
    assert status == 0 and f"{RUNS} runs: {RUNS} finished" in out
    assert f"is now in {hosts.url}" in err
    assert set(hosts.ended().values()) == {1} and len(hosts.ended()) == RUNS


def collect(hosts, *folders: Path) -> tuple[int, list[str], str]:
    process = hosts.start_on("one", str(hosts.folder / "out" / "tiny"), *map(str, folders), command="collect")
    out, err = process.communicate(timeout=120)
    return process.returncode, out.splitlines(), err


def rewrite(folder: Path, accuracy: float) -> None:
    """Make the record of a run another one, which matches its own digest."""
    summary = json.loads((folder / "summary.json").read_text())
    del summary["digest"]
    write_summary(folder, {**summary, "val/acc": accuracy})


@pytest.mark.slow
def test_hosts_without_a_shared_folder_train_each_run_once_and_collect_the_records(hosts, tmp_path):
    options = ["--storage", hosts.url, "--workers", "2"]
    first = hosts.start_on("one", *options, nap=0.3)
    hosts.wait_for("end", 2)
    first.terminate()
    first.communicate(timeout=60)
    finish([hosts.start_on("two", *options, "--separate-folders", out="other")])
    here, there = tmp_path / "out" / "tiny", tmp_path / "other" / "tiny"
    assert set(hosts.ended().values()) == {1} and len(hosts.ended()) == RUNS
    lie_there = {path.parent.name for path in there.glob("*/summary.json")}
    lie_here = {path.parent.name for path in here.glob("*/summary.json")}
    assert lie_here and lie_there and not lie_here & lie_there and len(lie_here | lie_there) == RUNS

    status, out, _ = collect(hosts)
    assert status == 1
    assert {f"missing: {run}, in {there} on two" for run in lie_there} == set(out[:-1])

    changed, other = sorted(lie_there)[:2]
    metrics = there / changed / "metrics.csv"
    original = metrics.read_text()
    metrics.write_text(original.replace("0.5", "0.9"))
    true = (there / other / "summary.json").read_bytes()
    rewrite(there / other, 0.9)
    status, out, _ = collect(hosts, there)
    assert status == 1
    assert f"refused: {metrics}: does not match the digest in summary.json; it was changed after the run" in out
    assert f"refused: {there / other}: is not the record that the queue knows, which is in {there} on two" in out
    assert out[-1] == f"{len(lie_there) - 2} records collected; {RUNS - 2} of {RUNS} runs have a record here"

    metrics.write_text(original)
    (there / other / "summary.json").write_bytes(true)
    mine = next(iter(lie_here))
    (there / mine).mkdir()
    for name in ("config.json", "metrics.csv", "checkpoint.safetensors"):
        (there / mine / name).write_bytes((here / mine / name).read_bytes())
    kept = (here / mine / "summary.json").read_bytes()
    (there / mine / "summary.json").write_bytes(kept)
    rewrite(there / mine, 0.1)
    status, out, _ = collect(hosts, there)
    assert status == 1 and out[-1] == f"2 records collected; {RUNS} of {RUNS} runs have a record here"
    assert out[0] == f"refused: {there / mine}: another record of the run than {here / mine}, which is kept"
    assert (here / mine / "summary.json").read_bytes() == kept
    for run in lie_there:
        assert (here / run / "summary.json").read_bytes() == (there / run / "summary.json").read_bytes()
    assert collect(hosts)[0] == 0
    assert hosts.run_on("one")[0] == 0 and len(hosts.noted("end")) == RUNS


def test_a_separate_folder_knows_the_records_of_a_folder_in_which_runs_keep_older_names(hosts):
    """A study that gains a factor gives its runs other names; the folder that has records of them keeps the older ones."""
    options = ["--storage", hosts.url, "--workers", "2", "--seeds", "1"]
    assert hosts.run_on("one", *options)[0] == 0
    older = set(hosts.ended())
    factors = {**hosts.fields["factors"], "optim.lr": [tiny_plan().base["optim"]["lr"], 0.5]}
    hosts.study.write_text(json.dumps({**hosts.fields, "factors": factors}))
    finish([hosts.start_on("two", *options, "--separate-folders", out="other")])
    assert len(older) == 2 and len(hosts.ended()) == 4  # only the two runs with the new level were trained
    assert hosts.run_on("one", *options)[0] == 0 and len(hosts.noted("end")) == 4
    status, out, _ = collect(hosts, hosts.folder / "other" / "tiny")
    assert (status, out) == (0, ["2 records collected; 4 of 4 runs have a record here"])


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
