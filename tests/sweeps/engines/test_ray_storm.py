"""A sweep on a Ray cluster of a head and two nodes, under kills of everything; and a head that is slow or dies."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
import yaml
from ray_cluster import RayCluster, descendants, kill
from stubbed import until
from tiny import TINY

from experiments.runs import record
from experiments.study import StudyPlan

pytestmark = pytest.mark.slow
pytest.importorskip("ray")

SEEDS, EPOCHS = 12, 20
# A plug-in, which each worker imports before it trains. It knows nothing of the locks of the project: it holds one of
# its own for each run in training, notes a second process that trains the run, and makes each epoch take some time.
ORACLE = """
import fcntl, os, time
from pathlib import Path
import experiments.runs.run as run

HERE = Path(__file__).parent
train_group, fit = run._train_group, run.fit

def note(*words):
    with open(HERE / "notes", "a") as notes:
        notes.write(" ".join(map(str, words)) + "\\n")

def slow_fit(*arguments):
    for rows in fit(*arguments):
        time.sleep(0.2)
        yield rows

def watched(group, *arguments):
    names, files = [state.spec.name for state in group.values()], []
    for name in names:
        files.append(open(HERE / f"{name}.lock", "w"))
        try:
            fcntl.flock(files[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            note("twice", name, os.getpid())
        note("begin", name, os.getpid())
    train_group(group, *arguments)
    for name in names:
        note("end", name, os.getpid())

run._train_group, run.fit = watched, slow_fit
"""


class Sweep:
    """The command, the notes of the oracle, and the folder of the study."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.study, self.plugin = folder, folder / "tiny.yaml", folder / "plugin"
        factors = {"model.pos_embed": ["none", "learned-1d"]}
        base = {**TINY, "train.epochs": EPOCHS}
        self.study.write_text(yaml.safe_dump({"name": "tiny", "factors": factors, "base": base, "seeds": SEEDS}))
        self.plugin.mkdir()
        (self.plugin / "oracle.py").write_text(ORACLE)

    def start(self, out: str, *words: str, **variables: str) -> subprocess.Popen[bytes]:
        """Start `vit-sweep run`."""
        command = [sys.executable, "-m", "sweeps.main", "run", str(self.study), "--out", str(self.folder / out)]
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [*command, "--tracking", "off", *words], env={**os.environ, **variables}, stdout=log, stderr=log
            )

    def start_on(self, cluster: RayCluster) -> subprocess.Popen[bytes]:
        """Start it on a cluster, with the oracle."""
        return self.start("ray", "--ray", cluster.address, VIT_PLUGINS="oracle", PYTHONPATH=str(self.plugin))

    def noted(self, word: str) -> Counter[str]:
        """Run -> how often the oracle has noted the word."""
        path = self.plugin / "notes"
        lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        return Counter(name for kind, name, _ in lines if kind == word)


def files(folder: Path) -> dict[str, bytes]:
    """The files of all runs of a study that must not depend on interruptions."""
    names = (record.CONFIG, record.METRICS, record.CHECKPOINT, record.PREDICTIONS)
    return {
        f"{run.name}/{name}": (folder / run.name / name).read_bytes()
        for run in StudyPlan.read(folder).runs
        for name in names
    }


def test_a_storm(tmp_path):
    sweep, chance, kills = Sweep(tmp_path), random.Random(0), Counter()
    assert sweep.start("local", "--workers", "2").wait(300) == 0
    cluster = RayCluster()
    clusters = [cluster]
    try:
        cluster.add_node()
        last = cluster.add_node()
        driver = sweep.start_on(cluster)

        def go_on(seconds: float) -> None:
            """Let the sweep train until another run has ended, and some time more."""
            before = sweep.noted("end").total()
            until(lambda: sweep.noted("end").total() > before, 120)
            time.sleep(chance.uniform(0, seconds))
            assert driver.poll() is None

        def kill_actor() -> None:
            if actors := cluster.processes("ray::Actor"):
                kill(chance.choice(actors))
                kills["actor"] += 1

        for _ in range(3):
            go_on(2)
            kill_actor()
        for victim in ("raylet", "driver", "actor", "driver", "actor", "driver, by SIGTERM", "actor"):
            go_on(2)
            if victim == "driver":
                driver.kill()
                driver.wait()
                driver = sweep.start_on(cluster)
            elif victim == "driver, by SIGTERM":
                driver.send_signal(signal.SIGTERM)
                assert driver.wait(30) == 128 + signal.SIGTERM
                assert not cluster.processes("ray::Actor")
                driver = sweep.start_on(cluster)
            elif victim == "actor":
                kill_actor()
            else:
                (raylet,) = descendants(last.pid, "raylet/raylet")
                kill(raylet)
                cluster.add_node()
            kills[victim] += victim != "actor"
        go_on(1)
        (head,) = cluster.processes("gcs_server")
        kill(head)
        kills["head"] += 1
        killed = time.monotonic()
        assert driver.wait(90) == 2
        print(f"the driver ended {time.monotonic() - killed:.0f} s after the head")
        assert time.monotonic() - killed < 35
        cluster = RayCluster()  # while actors of the other one may still train
        clusters.append(cluster)
        cluster.add_node()
        cluster.add_node()
        driver = sweep.start_on(cluster)
        assert driver.wait(300) == 0
    finally:
        driver.kill()
        for one in clusters:
            one.end()
        print((tmp_path / "log").read_text())
    print(f"kills {dict(kills)}, attempts {sweep.noted('begin').total()}")
    assert not sweep.noted("twice")
    assert max(sweep.noted("end").values()) == 1 and len(sweep.noted("begin")) == 2 * SEEDS
    assert files(tmp_path / "ray" / "tiny") == files(tmp_path / "local" / "tiny")


def test_auto_is_the_cluster_of_this_user_though_it_is_slow(tmp_path):
    """No other cluster is started beside it: the command itself starts no head."""
    cluster = RayCluster(slots=1)
    current = (cluster.folder / "ray_current_cluster").read_text()
    (head,) = cluster.processes("gcs_server")
    command = [sys.executable, "-m", "sweeps.main", "run", "digits", "--seeds", "1", "--train.epochs", "3"]
    command += ["--out", str(tmp_path), "--tracking", "off", "--ray", "auto"]
    os.kill(head, signal.SIGSTOP)
    slowed = subprocess.Popen(
        command, env={**os.environ, "RAY_TMPDIR": str(cluster.root)}, stderr=subprocess.PIPE, text=True
    )
    try:
        line = slowed.stderr.readline()  # after ten seconds
        time.sleep(2)
        assert not descendants(slowed.pid, "gcs_server")
        os.kill(head, signal.SIGCONT)
        _, other = slowed.communicate(timeout=100)
    finally:
        slowed.kill()
        cluster.end()
    address = f"{current} ({cluster.folder}/ray_current_cluster)"
    assert line == f"waiting for an answer of the Ray cluster {address}\n"
    assert other.startswith(f"--ray auto: the Ray cluster {address}\n") and slowed.returncode == 0


LOST = """
import sys
from pathlib import Path
from experiments.cli import run_command
from sweeps.engines.contract import Task
from sweeps.engines.ray import RayEngine

def begin(arguments):
    with RayEngine(arguments[0], "cpu", None) as engine:
        print("connected", flush=True)
        sys.stdin.readline()
        engine.begin(Task(Path("."), Path("/dev/null")))
        while True:
            engine.events(1.0)

run_command(begin, "vit-sweep", sys.argv[1:])
"""


def test_a_head_that_dies_while_an_actor_is_started_is_one_line():
    cluster, pipe = RayCluster(slots=1), subprocess.PIPE
    command = [sys.executable, "-c", LOST, cluster.address]
    driver = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    try:
        assert driver.stdout.readline() == "connected\n"
        (head,) = cluster.processes("gcs_server")
        kill(head)
        _, error = driver.communicate("\n", timeout=100)
    finally:
        driver.kill()
        cluster.end()
    lost = "does not answer; once there is a cluster, run the same command again to resume\n"
    assert driver.returncode == 2
    assert error.startswith("vit-sweep: error: the head of the Ray cluster ") and error.endswith(lost)
