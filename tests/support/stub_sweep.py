"""vit-sweep with training replaced by counting: starts in a second and notes every epoch, for tests of the sweep alone.

Run as a script with STUB, a JSON object: "log": file that gets a line for each thing done; "nap": seconds an epoch;
"lock": seconds that a worker waits for a lock.
Workers are spawned, and so import this script too: the replacements are in place there as well.
"""

import fcntl
import json
import os
import sys
import time
import types

STUB = json.loads(os.environ["STUB"])


def note(*words):
    with open(STUB["log"], "a") as log:  # appended whole, by whichever process
        log.write(" ".join(map(str, words)) + "\n")


def train(runs, folder, *, on_row, **options):
    """As `experiments.runs.run.train`, with its locks. A lock of our own notes a run that two processes train."""
    from experiments.files import lock_runs
    from experiments.runs import record

    left = [run.name for run in runs if not record.has_ended(folder / run.name)]
    with lock_runs(folder, left, STUB.get("lock", 2.0)) as held:
        for i, run in enumerate(runs):
            if run.name in held and not record.has_ended(folder / run.name):
                with open(f"{STUB['log']}.alone.{run.name}", "w") as guard:
                    try:
                        fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    except OSError:
                        note("twice", run.name, os.getpid())
                    train_one(i, run, folder / run.name, on_row)
    return [{} if record.has_ended(folder / run.name) else None for run in runs]


def train_one(i, run, run_dir, on_row):
    from stubbed import finish

    run_dir.mkdir(exist_ok=True)
    note("start", run.name, os.getpid())
    path = run_dir / "epochs.txt"
    done = int(path.read_text()) if path.exists() else 0
    for epoch in range(done + 1, run.config.train.epochs + 1):
        time.sleep(STUB.get("nap", 0.02))
        write_text(path, str(epoch))
        on_row(i, {"epoch": epoch, "val/acc": 0.5, "val/loss": 1.0})
    finish(run_dir, run, epochs=run.config.train.epochs)
    note("end", run.name, os.getpid())


module = types.ModuleType("experiments.runs.run")
module.train, module.pick_device = train, lambda name: types.SimpleNamespace(type="cpu")
module.LOCK_SECONDS = 2.0
torch = types.ModuleType("torch")
torch.set_num_threads = lambda number: None
sys.modules |= {"experiments.runs.run": module, "torch": torch}

from experiments.files import write_text  # noqa: E402
from experiments.runs import resume  # noqa: E402 - it imports torch later

resume.read = lambda run_dir: None

if __name__ == "__main__":
    from sweeps.main import main

    main()
