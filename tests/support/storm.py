"""A storm: a sweep whose workers, or which as a whole, is killed again and again at random.

It trains a small model on digits, first without any kill and then under the storm, and compares the two.
"""

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import optuna
from stubbed import children

ROOT = Path(__file__).resolve().parents[2]
BASE = {"data.train_limit": 200, "model.depth": 1, "model.attn_drop_rate": 0.1}


@dataclass
class Storm:
    """What happened, and what came out."""

    kills: Counter = field(default_factory=Counter)  # of workers, and of sweeps
    sweeps: int = 0
    status: int = -1
    attempts: Counter = field(default_factory=Counter)  # trials by how they ended
    trained: dict[str, int] = field(default_factory=dict)  # run -> number of trials that left a record
    overlaps: int = 0  # attempts at one run at the same time
    different: list[str] = field(default_factory=list)  # runs whose metrics are not those of the undisturbed sweep


def start(study: Path, out: Path, workers: int) -> subprocess.Popen:
    options = ["--out", out, "--workers", workers, "--tracking", "off"]
    command = [sys.executable, "-m", "sweeps.main", "run", study, *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    quiet = subprocess.DEVNULL
    return subprocess.Popen(
        list(map(str, command)), cwd=ROOT, env=environment, stdout=quiet, stderr=quiet, start_new_session=True
    )


def disturb(study: Path, out: Path, workers: int, kills: int, rng: random.Random) -> Storm:
    """Run a sweep until it ends, and kill one of its workers, or all of it, `kills` times before that."""
    storm, sweep = Storm(), None
    while sum(storm.kills.values()) < kills:
        if sweep is None or sweep.poll() is not None:
            if sweep is not None and sweep.returncode == 0:
                break  # all runs have finished
            sweep, storm.sweeps = start(study, out, workers), storm.sweeps + 1
        time.sleep(rng.uniform(0.2, 4.0))
        victims = children(sweep.pid, "spawn_main")
        if not victims:
            continue
        if rng.random() < 0.3:
            sweep.kill()
            sweep.wait()
            storm.kills["sweep"] += 1
        else:
            os.kill(rng.choice(victims), signal.SIGKILL)
            storm.kills["worker"] += 1
    if sweep is None or sweep.wait() != 0:
        sweep, storm.sweeps = start(study, out, workers), storm.sweeps + 1
    storm.status = sweep.wait()
    return storm


def judge(storm: Storm, folder: Path, undisturbed: Path) -> None:
    """Count attempts and records, and compare the metrics of every run."""
    study = optuna.load_study(study_name=folder.name, storage=f"sqlite:///{folder}/optuna.db")
    trials = defaultdict(list)
    for trial in study.get_trials(deepcopy=False):
        trials[trial.user_attrs["run"]].append(trial)
        storm.attempts[trial.user_attrs.get("reason", trial.state.name.lower())] += 1
    for entry in json.loads((undisturbed / "study.json").read_text())["runs"]:
        own = sorted(trials[entry["run"]], key=lambda trial: trial.datetime_start)
        storm.trained[entry["run"]] = sum(trial.state.name == "COMPLETE" for trial in own)
        storm.overlaps += sum(a.datetime_complete > b.datetime_start for a, b in itertools.pairwise(own))
        one, other = (place / entry["run"] / "metrics.csv" for place in (folder, undisturbed))
        if not one.exists() or one.read_bytes() != other.read_bytes():
            storm.different.append(entry["run"])


def storm(place: Path, runs: int, epochs: int, workers: int, kills: int) -> Storm:
    """An undisturbed sweep and a disturbed one of the same study in two folders of `place`."""
    study = place / "storm.yaml"
    factors = {"model.head": ["logits", "softmax"]}
    settings = {"name": "storm", "factors": factors, "base": {**BASE, "train.epochs": epochs}, "seeds": runs // 2}
    study.write_text(json.dumps(settings))
    rng = random.Random(time.time_ns())
    assert start(study, place / "undisturbed", workers).wait() == 0
    found = disturb(study, place / "disturbed", workers, kills, rng)
    judge(found, place / "disturbed" / "storm", place / "undisturbed" / "storm")
    return found
