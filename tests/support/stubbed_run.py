"""`vit-sweep run` on a small study with training replaced by stub_sweep.py."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import optuna

from sweeps.plan import make_plan
from sweeps.queue.process import is_alive, process_info
from sweeps.study import parse_study

SUPPORT = Path(__file__).resolve().parents[1] / "support"
STUDY = {"name": "tiny", "factors": {"model.head": ["logits", "softmax"]}, "base": {"train.epochs": 3}, "seeds": 3}


def _restore_ctrl_c() -> None:
    """Restore the default action: a shell starts background jobs, and so their children, with Ctrl-C ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Stubbed:
    """`vit-sweep run` on a study of two heads with training replaced; `log` is what the workers noted."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log, self.dir = folder, folder / "log", folder / "tiny"
        (folder / "tiny.yaml").write_text(json.dumps(STUDY))

    def start(self, *options, prefix=(), **stub) -> subprocess.Popen:
        environment = {
            **os.environ,
            "STUB": json.dumps({"log": str(self.log), **stub}),
            "PYTHONPATH": str(SUPPORT.parents[1]),
        }
        command = [sys.executable, SUPPORT / "stub_sweep.py", "run", self.folder / "tiny.yaml", "--out", self.folder]
        return subprocess.Popen(
            [*prefix, *map(str, command), "--workers", "2", *options],
            env=environment,
            text=True,
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=_restore_ctrl_c,
        )

    def run(self, *options, **stub) -> tuple[int, str, str]:
        process = self.start(*options, **stub)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def noted(self, word: str) -> list[tuple[str, int]]:
        lines = [line.split() for line in self.log.read_text().splitlines()] if self.log.exists() else []
        return [(name, int(pid)) for kind, name, pid in lines if kind == word]

    def ended(self) -> Counter:
        return Counter(name for name, _ in self.noted("end"))

    def wait_for(self, word: str, count: int = 1) -> None:
        until(lambda: len(self.noted(word)) >= count)

    def trials(self) -> list[optuna.trial.FrozenTrial]:
        return optuna.load_study(study_name="tiny", storage=f"sqlite:///{self.dir}/optuna.db").get_trials()


def until(condition, seconds=180.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


def lives(pid: int) -> bool:
    return is_alive(process_info(pid))


def tiny_plan(**fields):
    return make_plan(parse_study({**STUDY, **fields}, "tiny"))
