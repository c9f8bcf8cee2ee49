"""vit-sweep with training replaced by counting: starts in a second and notes every epoch, for tests of the sweep alone.

Run as a script with STUB, a JSON object: "log": file that gets a line for each thing done; "nap": seconds an epoch;
"seed N": what befalls the runs of seed N: raise, raise-once, kill, kill-once, diverge, refuse.
Workers are spawned, and so import this script too: the replacements are in place there as well.
"""

import json
import os
import signal
import sys
import time
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STUB = json.loads(os.environ["STUB"])


@dataclass(frozen=True)
class Job:
    config: Any
    dir: Path
    variant: str = ""


def note(*words):
    with open(STUB["log"], "a") as log:  # appended whole, by whichever process
        log.write(" ".join(map(str, words)) + "\n")


def train(jobs, *, device, tracking, on_row):
    from experiments.runs import record

    for i, job in enumerate(jobs):
        assert not record.is_finished(job.dir), f"{job.dir} was finished already"
        job.dir.mkdir(exist_ok=True)
        note("start", job.dir.name, os.getpid())
        fate = befall(STUB.get(f"seed {job.config.seed}", ""), job)
        path = job.dir / "epochs.txt"
        done = int(path.read_text()) if path.exists() else 0
        for epoch in range(done + 1, job.config.train.epochs + 1):
            time.sleep(STUB.get("nap", 0.02))
            record.write_text(path, str(epoch))
            on_row(i, {"epoch": epoch, "val/acc": 0.5, "val/loss": 1.0})
        seal(job, fate)
        note("end", job.dir.name, os.getpid())


def befall(fate, job):
    from experiments.errors import UserError

    tried = Path(f"{STUB['log']}.{job.dir.name}")  # not in the run's folder, where it would be something to lose
    first = not tried.exists()
    tried.touch()
    if fate == "refuse":
        raise UserError("data.root: 'nowhere' holds no images")
    if fate == "raise" or (fate == "raise-once" and first):
        raise RuntimeError("out of cheese")
    if fate == "kill" or (fate == "kill-once" and first):
        os.kill(os.getpid(), signal.SIGKILL)
    return fate


def seal(job, fate):
    from experiments.config import run_id
    from experiments.runs import record

    record.write_json(job.dir / record.CONFIG, job.config.model_dump())
    record.write_text(job.dir / record.METRICS, "epoch,val/acc\n1,0.5\n")
    record.write_text(job.dir / record.CHECKPOINT, "")
    status = "diverged" if fate == "diverge" else "finished"
    accuracy = None if fate == "diverge" else 0.5 + job.config.seed / 100
    metrics = {"val/acc": accuracy, "val/loss": 1.0, "test/acc": accuracy}
    record.write_summary(job.dir, {"run_id": run_id(job.config), "status": status, **metrics})


run = types.ModuleType("experiments.runs.run")
run.Job, run.train, run.pick_device = Job, train, lambda name: types.SimpleNamespace(type="cpu")
torch = types.ModuleType("torch")
torch.set_num_threads = lambda number: None
sys.modules |= {"experiments.runs.run": run, "torch": torch}

if __name__ == "__main__":
    from sweeps.main import main

    main()
