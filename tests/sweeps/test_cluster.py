"""vit-sweep submit: workers as jobs, on a real Slurm cluster of one node."""

import json
import os
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path
from unittest.mock import Mock

import pytest
import slurm
import study_file
from stubbed import until
from tiny import TINY

from experiments.runs import record

ROOT = Path(__file__).resolve().parents[2]
LOGGED = """
import importlib.abc, importlib.util, os, sys, time

class Finder(importlib.abc.MetaPathFinder):
    '''Every process notes each epoch that it has trained, before it is saved.'''

    def find_spec(self, name, path, target=None):
        if name != "experiments.runs.state":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module
        spec.loader.exec_module = lambda module: (run(module), log_epochs(module.RunState))
        return spec

def log_epochs(state):
    add_epoch = state.add_epoch
    def logged(self, row, *rest, **options):
        with open(os.environ["EPOCH_LOG"], "a") as log:
            log.write(f"{self.dir.name} {int(row['epoch'])}\\n")
        time.sleep(float(os.environ["EPOCH_SECONDS"]))
        return add_epoch(self, row, *rest, **options)
    state.add_epoch = logged

sys.meta_path.insert(0, Finder())
"""


class Site:
    """A folder with a study, and an environment in which every process notes the epochs that it trains."""

    def __init__(self, folder: Path, environment: dict[str, str], epochs: int, epoch_seconds: float = 0.0) -> None:
        self.folder, self.dir, self.epochs = folder, folder / "runs" / "tiny", epochs
        study = {"name": "tiny", "factors": {"model.head": ["logits", "softmax"]}, "seeds": 2}
        base = {**TINY, "train.epochs": epochs}
        (folder / "tiny.yaml").write_text(json.dumps({**study, "base": base}))
        (folder / "sitecustomize.py").write_text(textwrap.dedent(LOGGED))
        path = os.pathsep.join([str(folder), str(ROOT)])
        self.environment = {
            **environment,
            "PYTHONPATH": path,
            "EPOCH_LOG": str(folder / "epochs"),
            "EPOCH_SECONDS": str(epoch_seconds),
        }

    def vit_sweep(self, *words: object) -> str:
        """Standard output of `vit-sweep WORDS`."""
        done = subprocess.run(
            [sys.executable, "-m", "sweeps.main", *map(str, words)],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def status(self) -> dict:
        return json.loads(self.vit_sweep("status", self.dir, "--json"))

    def trained(self) -> Counter[tuple[str, int]]:
        """(run, epoch) -> how often it was trained."""
        path = Path(self.environment["EPOCH_LOG"])
        lines = path.read_text().splitlines() if path.exists() else []
        return Counter((name, int(epoch)) for name, epoch in map(str.split, lines))

    def starts(self) -> int:
        """How often a job has started."""
        paths = (self.dir / "cluster").glob("*_*.log")
        return sum(path.read_text().count("has started") for path in paths)

    def check_records(self, repeated: int) -> None:
        """Every run has a complete record, and at most so many epochs were trained twice."""
        entries = study_file.read_study(self.dir)["runs"]
        for entry in entries:
            rows = record.read_run(self.dir / entry["run"], checkpoint=True).rows
            assert [row["epoch"] for row in rows] == list(range(1, self.epochs + 1))
        trained = self.trained()
        assert len(trained) == len(entries) * self.epochs
        assert trained.total() - len(trained) <= repeated, trained.most_common(5)
        assert max(trained.values()) <= 2


@pytest.fixture
def node(tmp_path_factory):
    if reason := slurm.why_not():
        pytest.skip(reason)
    cluster = slurm.SlurmNode(tmp_path_factory.mktemp("slurm"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.mark.slow
@pytest.mark.parametrize("stop", ["a signal", "the time limit"])
def test_jobs_that_are_cancelled_or_stopped_lose_nothing(node, tmp_path, stop):
    """One of two jobs is cancelled.

    The other one is stopped as at its time limit, is requeued, and trains what is left.
    """
    minutes, seconds = (10, 1.0) if stop == "a signal" else (2, 2.5)
    site = Site(tmp_path, node.environment, epochs=15, epoch_seconds=seconds)
    out = site.vit_sweep("submit", "tiny.yaml", "--nodes", 2, "--time", minutes, "--tracking", "off")
    first, second = out.splitlines()[0].rpartition(": ")[2].split(", ")
    until(lambda: len({name for name, _ in site.trained()}) == 2, 300)
    assert {job["state"] for job in site.status()["jobs"]} == {"RUNNING"}
    node.run("scancel", first)
    if stop == "a signal":
        node.run("scancel", "--signal=USR2", second)
    until(lambda: [job["job"] for job in site.status()["jobs"]] == [second])
    until(lambda: node.run("squeue", "--noheader", "--format=%T").strip() == "PENDING", 180)
    before = site.trained().total()
    assert site.status()["counts"]["finished"] < 4, "the jobs have ended before they were stopped"
    node.run("scontrol", "update", f"JobId={second}", "StartTime=now")  # Slurm waits two minutes
    until(lambda: site.status()["counts"]["finished"] == 4, 900)
    assert site.trained().total() > before
    site.check_records(repeated=site.starts() - 1)  # each start but the last was stopped
    until(lambda: not site.status()["jobs"])


def fake_sbatch(folder, monkeypatch, script: str) -> None:
    program = folder / "bin" / "sbatch"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)


NO_REQUEUE = ["--slurm", "no-requeue", "--until-decided"]


@pytest.mark.parametrize("words, requeue", [([], ["--requeue"]), (NO_REQUEUE, ["--no-requeue"])])
def test_sbatch_gets_the_resources_and_a_job_is_requeued_unless_its_user_says_otherwise(
    tmp_path, monkeypatch, vit_sweep, words, requeue
):
    fake_sbatch(tmp_path, monkeypatch, f'printf "%s\\n" "$@" > {tmp_path}/options; echo 7')
    options = ["--nodes", 2, "--time", "1:30:00", "--mem", "16G", "--slurm", "qos=high", *words]
    status, out, _ = vit_sweep("submit", "depth", "--out", tmp_path, "--cluster", "slurm", *options)
    assert status == 0 and "2 jobs submitted: 7_0, 7_1\n" in out
    given = (tmp_path / "options").read_text().splitlines()
    assert {"--array=0-1", "--time=1:30:00", "--mem=16G", "--qos=high"} <= set(given)
    assert [option for option in given if option.endswith("requeue")] == requeue
    stops = "until_decided" in study_file.read_study(tmp_path / "depth")  # the workers then stop decided variants
    assert stops == (": up to " in out) == ("--until-decided" in words)


def test_status_lists_a_job_whose_time_was_too_short_for_an_epoch(stubbed, vit_sweep, monkeypatch):
    """The log of job 7_0 is as its script leaves it; job 7_1 has ended well."""
    stubbed.write_plan()
    (stubbed.dir / "cluster").mkdir()
    (stubbed.dir / "cluster" / "jobs").write_text("7_0\n7_1\n")
    too_short = "vit-sweep: no epoch has ended since the job started; it needs a longer --time"
    for job, ended in (("7_0", too_short), ("7_1", "6 runs: 6 finished")):
        (stubbed.dir / "cluster" / f"{job}.log").write_text(f"vit-sweep: job {job} has started\n{ended}\n")
    monkeypatch.setattr("sweeps.cluster.subprocess.run", Mock(return_value=Mock(stdout="")))
    (line,) = (line for line in vit_sweep("status", stubbed.dir)[1].splitlines() if line.startswith("7_"))
    assert line.split()[:2] == ["7_0", "ended"] and "it needs a longer --time" in line


def test_what_sbatch_refuses_is_one_line(tmp_path, monkeypatch, vit_sweep):
    fake_sbatch(tmp_path, monkeypatch, "echo sbatch: error: invalid partition specified: night >&2; exit 1")
    line = vit_sweep("submit", "depth", "--out", tmp_path, "--cluster", "slurm", "--partition", "night")[2]
    assert line.endswith("slurm has refused the jobs: invalid partition specified: night\n") and line.count("\n") == 1


@pytest.mark.parametrize(
    "words, device",
    [(["--gpus-per-node", 2], "cuda"), ([], "auto"), (["--gpus-per-node", 1, "--device", "cpu"], "cpu")],
)
def test_jobs_that_ask_for_gpus_do_not_train_on_a_cpu(vit_sweep, tmp_path, monkeypatch, words, device):
    given = []
    monkeypatch.setattr("shutil.which", lambda name: name)
    monkeypatch.setattr("sweeps.cluster.submit", lambda *arguments: given.extend(arguments[-1]) or ["1"])
    assert vit_sweep("submit", "depth", "--out", tmp_path, *words)[0] == 0
    assert given[given.index("--device") + 1] == device
