"""Storms over sweeps, by hand: `python tests/support/storms.py local|interrupts|tuning|ray [NUMBER]`.

Each kills what takes part NUMBER times, runs the command to its end, and prints figures: every run must be trained
once, with the bytes of an undisturbed sweep.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import yaml
from ray_cluster import RayCluster, kill
from stubbed import Stubbed, lives, until
from tiny import TINY

from experiments.runs import record
from experiments.study import Study

ROOT = Path(__file__).resolve().parents[2]
FACTORS = {"model.pos_embed": ["none", "learned-1d"]}
CHANCE = random.Random(0)
# A plug-in that each worker of Ray imports. It knows nothing of the locks of the project: it holds one of its own for
# each run in training, notes a second process that trains the run, and makes each epoch take some time.
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
    names = [state.spec.name for state in group.values()]
    files = [open(HERE / f"{name}.lock", "w") for name in names]
    for name, file in zip(names, files):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            note("twice", name)
        note("begin", name)
    train_group(group, *arguments)
    for name in names:
        note("end", name)

run._train_group, run.fit = watched, slow_fit
"""


def local(folder: Path, number: int) -> None:
    """Drivers, workers and cells of a study whose training is replaced by counting."""
    stubbed, kills = Stubbed(folder, seeds=30), Counter[str]()
    names, commands = stubbed.write_plan(), []
    while kills.total() < number:
        commands = [command for command in commands if command.poll() is None]
        while len(commands) < 3:
            cell = ["cell", stubbed.dir, CHANCE.choice(names)]
            commands.append(stubbed.start(*cell, nap=0.2) if CHANCE.random() < 0.5 else stubbed.start_run(nap=0.2))
        time.sleep(CHANCE.uniform(0.2, 1.5))
        workers = [pid for _, pid in stubbed.noted("start") if lives(pid)]
        pids = [command.pid for command in commands if command.poll() is None]
        if victim := CHANCE.choice([*workers, *pids] or [0]):
            os.kill(victim, signal.SIGKILL)
            kills["worker" if victim in workers else "command"] += 1
    for command in commands:
        command.terminate()
        command.communicate(timeout=60)
    status, out, err = stubbed.run()
    finished = len(stubbed.ended())
    print(f"kills {dict(kills)}, {finished} of 60 runs, trained twice: {stubbed.trained_twice()}, exit status {status}")
    assert status == 0 and finished == 60 and not stubbed.trained_twice(), out + err


def interrupts(folder: Path, number: int) -> None:
    """Pairs of Ctrl-C, the second within a second of the first."""
    longest = 0.0
    for attempt in range(number):
        place = folder / str(attempt)
        place.mkdir()
        stubbed = Stubbed(place)
        command = stubbed.start_run(nap=0.3)
        time.sleep(CHANCE.uniform(0, 5))
        for pause in (CHANCE.uniform(0, 1), 0):
            if command.poll() is None:
                command.send_signal(signal.SIGINT)
            time.sleep(pause)
        begin = time.monotonic()
        command.communicate(timeout=20)
        longest = max(longest, time.monotonic() - begin)
        until(lambda stubbed=stubbed: not any(lives(pid) for _, pid in stubbed.noted("start")), seconds=5)
        status, _, err = stubbed.run()
        assert status == 0 and not stubbed.trained_twice() and len(stubbed.ended()) == 6, err
    print(f"{number} pairs of interrupts: the longest end took {longest:.1f} s; each run once")


def tuning(folder: Path, number: int) -> None:
    """The command `tune` and its workers, killed together; and its journal afterwards."""
    study, trials = _study(folder, 3), []
    words = ("--trials", "12", "--pruner", "none", "--workers", "2")
    assert _start(folder, "tune", study, "undisturbed", *words).wait(600) == 0
    for _ in range(number):
        command = _start(folder, "tune", study, "storm", *words)
        time.sleep(CHANCE.uniform(4, 8))
        command.kill()
        command.wait()
    assert _start(folder, "tune", study, "storm", *words).wait(600) == 0, (folder / "log").read_text()
    for out in ("undisturbed", "storm"):
        trials.append(yaml.safe_load((folder / out / "tiny" / "tuned.yaml").read_text())["trials"])
    print(f"{number} kills, {len(trials[1])} of 24 trials, equal to an undisturbed tuning: {trials[0] == trials[1]}")
    assert trials[0] == trials[1]


def ray(folder: Path, number: int) -> None:
    """Actors, the driver, a node and at the end the head of a cluster of two nodes."""
    study, kills = _study(folder, 20, seeds=max(6, number)), Counter[str]()
    assert _start(folder, "run", study, "local", "--workers", "2").wait(900) == 0
    clusters = [RayCluster()]
    nodes = [clusters[0].add_node(), clusters[0].add_node()]
    plugin = folder / "plugin"
    plugin.mkdir()
    (plugin / "oracle.py").write_text(ORACLE)

    def start() -> subprocess.Popen[bytes]:
        variables = {"VIT_PLUGINS": "oracle", "PYTHONPATH": f"{plugin}:{ROOT}"}
        return _start(folder, "run", study, "ray", "--ray", clusters[-1].address, **variables)

    def noted(word: str) -> Counter[str]:
        path = plugin / "notes"
        lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        return Counter(name for kind, name in lines if kind == word)

    driver = start()
    try:
        for turn in range(number):
            before = noted("end").total()
            until(lambda before=before: noted("end").total() > before, 120)
            time.sleep(CHANCE.uniform(0, 1))
            assert driver.poll() is None, (folder / "log").read_text()
            victim = ("actor", "actor", "driver", "node")[turn % 4]
            if victim == "actor" and (actors := clusters[0].processes("ray::Actor")):
                kill(CHANCE.choice(actors))
            elif victim == "driver":
                driver.kill()
                driver.wait()
                driver = start()
            elif victim == "node":
                for pid in [*clusters[0].processes("raylet/raylet")][-1:]:
                    kill(pid)
                nodes.append(clusters[0].add_node())
            kills[victim] += 1
        (head,) = clusters[0].processes("gcs_server")
        kill(head)
        kills["head"] += 1
        began = time.monotonic()
        status = driver.wait(150)
        print(f"the driver ended with status {status}, {time.monotonic() - began:.0f} s after the head")
        clusters.append(RayCluster(slots=2))
        driver = start()
        assert driver.wait(900) == 0, (folder / "log").read_text()
    finally:
        driver.kill()
        for cluster in clusters:
            cluster.end()
    runs, equal = 2 * max(6, number), _files(folder / "ray" / "tiny") == _files(folder / "local" / "tiny")
    ends = noted("end")
    print(f"kills {dict(kills)}, {noted('begin').total()} attempts at {runs} runs, {len(ends)} ended")
    print(f"trained by two at once: {sum(noted('twice').values())}; bytes equal to the local sweep: {equal}")
    assert equal and not noted("twice") and max(ends.values()) == 1 and len(ends) == runs


def _study(folder: Path, epochs: int, seeds: int = 2) -> Path:
    path = folder / "tiny.yaml"
    tree = {"name": "tiny", "factors": FACTORS, "base": {**TINY, "train.epochs": epochs}, "seeds": seeds}
    path.write_text(json.dumps(tree))
    return path


def _start(folder: Path, command: str, study: Path, out: str, *words: str, **variables: str) -> subprocess.Popen[bytes]:
    program = [sys.executable, "-m", "sweeps.main", command, str(study), "--out", str(folder / out)]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [*program, "--tracking", "off", *words],
            env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
            stdout=log,
            stderr=log,
        )


def _files(folder: Path) -> dict[str, bytes]:
    """The files of all runs of a study that must not depend on interruptions."""
    names = (record.CONFIG, record.METRICS, record.CHECKPOINT, record.PREDICTIONS)
    runs = Study.read(folder).runs
    return {f"{run.name}/{name}": (folder / run.name / name).read_bytes() for run in runs for name in names}


if __name__ == "__main__":
    storms = {"local": (local, 45), "interrupts": (interrupts, 30), "tuning": (tuning, 7), "ray": (ray, 12)}
    storm, usual = storms[sys.argv[1]]
    with tempfile.TemporaryDirectory() as place:
        storm(Path(place), int(sys.argv[2]) if len(sys.argv) > 2 else usual)
