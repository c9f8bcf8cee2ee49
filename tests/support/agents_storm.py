"""A storm: three W&B agents train 12 runs on the stand-in server under 14 kills. `python tests/support/agents_storm.py`

Killed are agents, their commands, workers and wandb's own processes, at random. At the end each run was trained once,
the records are those of an undisturbed sweep, and W&B has every row of every metrics.csv.
"""

import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import mirrored
import tiny
import yaml
from agents import Shell
from stubbed import children, until
from wandb_sweeps import SweepServer

from experiments.errors import say
from experiments.study import Study

AGENTS, SEEDS, EPOCHS, KILLS = 3, 6, 20, 14
FEWEST = 4  # processes of an agent with a run in training, at least: agent, wandb, command, worker, its helper
STUDY = {
    "name": "heads",
    "factors": {"model.head": ["logits", "mlp"]},
    "base": tiny.settings(train__epochs=EPOCHS),
    "seeds": SEEDS,
}
# A plug-in that each worker imports. It holds a lock of its own for each run in training, notes a second process that
# trains it, and makes each epoch take some time.
ORACLE = """
import fcntl, time
from pathlib import Path
import experiments.runs.run as run

HERE, train_group, fit = Path(__file__).parent, run._train_group, run.fit

def note(*words):
    with open(HERE / "notes", "a") as notes:
        notes.write(" ".join(words) + "\\n")

def slow_fit(*arguments):
    for rows in fit(*arguments):
        time.sleep(0.3)
        yield rows

def watched(group, *arguments):
    (name,) = (state.spec.name for state in group.values())
    with open(HERE / f"{name}.lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            note("twice", name)
        train_group(group, *arguments)
        note("end", name)

run._train_group, run.fit = watched, slow_fit
"""


def descendants(pid: int) -> list[int]:
    """A process and all that it has started."""
    return [pid, *(below for child in children(pid) for below in descendants(child))]


def sweep(server: SweepServer, shell: Shell, study: Path, kills: int) -> int:
    """Register the runs that are left and let agents train them. Returns the kills that are left."""
    shell("vit-sweep", "wandb", study, "--out", study.parent)
    name = list(server.sweeps)[-1]
    agents = [shell.agent(f"tester/vit-ablation/{name}") for _ in range(AGENTS)]
    while any(agent.poll() is None for agent in agents):
        time.sleep(random.uniform(0.5, 5))
        alive = [agent for agent in agents if agent.poll() is None]
        busy = [pids for agent in alive if len(pids := descendants(agent.pid)) > FEWEST]
        if kills and busy:
            victim = random.choice(random.choice(busy))
            with contextlib.suppress(OSError):  # it has ended
                say(f"kill: {Path(f'/proc/{victim}/cmdline').read_bytes().replace(bytes(1), b' ')[-60:].decode()}")
                os.kill(victim, signal.SIGKILL)
                kills -= 1
        if server.sweeps[name].state == "RUNNING" and len(alive) < AGENTS:
            agents.append(shell.agent(f"tester/vit-ablation/{name}"))
    return kills


def check(server: SweepServer, shell: Shell, study: Path, oracle: Path) -> None:
    """Assert what the docstring of this file says."""
    folder = study.with_suffix("")
    say(shell("vit-sweep", "sync", folder).splitlines()[-1])
    shell("vit-sweep", "run", study, "--out", study.parent / "calm", "--tracking", "off", "--workers", 2)
    runs = [run.name for run in Study.read(folder).runs]
    notes = Counter(oracle.with_name("notes").read_text().splitlines())
    assert notes == Counter({f"end {run}": 2 for run in runs}), notes  # in the storm, and in the calm sweep
    rows = 0
    for run in runs:
        note = json.loads((folder / "wandb" / "sent" / f"{run}.json").read_text())
        rows += len(mirrored.check(server, folder / run, note["id"]).rows)
        assert tiny.results(folder / run) == tiny.results(study.parent / "calm" / "heads" / run)
    say(f"{len(runs)} runs trained once, equal to an undisturbed sweep; W&B has {rows} of {len(runs) * EPOCHS} rows")


def main(seed: int) -> None:
    """The storm, with the choices of a seed."""
    random.seed(seed)
    with tempfile.TemporaryDirectory() as folder, SweepServer() as server:
        study, oracle = Path(folder, "heads.yaml"), Path(folder, "oracle.py")
        study.write_text(yaml.safe_dump(STUDY))
        oracle.write_text(ORACLE)
        shell = Shell(Path(folder, "shell"), {**server.env(), "VIT_PLUGINS": str(oracle), "OMP_NUM_THREADS": "1"})
        kills, start = KILLS, time.monotonic()
        while len(list(study.with_suffix("").glob("*/summary.json"))) < len(STUDY["factors"]["model.head"]) * SEEDS:
            kills = sweep(server, shell, study, kills)
        say(f"{KILLS - kills} kills, {len(server.sweeps)} sweeps, {time.monotonic() - start:.0f} s")
        until(lambda: not mirrored.users(server), 120)  # what a killed command has started ends by itself
        check(server, shell, study, oracle)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
