"""vit-sweep in processes of its own, with training replaced by stub_sweep.py, on a study of two heads."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.compared import RunSpec
from experiments.files import write_text
from experiments.runs import record
from experiments.study import Study
from sweeps.plan import make_plan, parse_study
from sweeps.study_folder import StudyFolder

SUPPORT = Path(__file__).resolve().parent
STUDY = {"name": "tiny", "factors": {"model.head": ["logits", "softmax"]}, "base": {"train.epochs": 3}, "seeds": 3}


class Stubbed:
    """Commands on the study. `log` is what the workers noted; `dir` is the study's folder."""

    def __init__(self, folder: Path, **fields: Any) -> None:
        self.folder, self.log, self.dir = folder, folder / "log", folder / "tiny"
        self.fields, self.study = {**STUDY, **fields}, folder / "tiny.yaml"
        self.study.write_text(json.dumps(self.fields))

    def start(self, *words: object, cwd: Path | None = None, **stub: Any) -> subprocess.Popen[str]:
        """Start `vit-sweep WORDS` in a session of its own. `stub`: see stub_sweep.py."""
        settings = json.dumps({"log": str(self.log), **stub})
        return subprocess.Popen(
            [sys.executable, str(SUPPORT / "stub_sweep.py"), *map(str, words)],
            env={**os.environ, "STUB": settings, "PYTHONPATH": str(SUPPORT.parents[1])},
            text=True,
            cwd=cwd,
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=_restore_ctrl_c,
        )

    def __call__(self, *words: object, **stub: Any) -> tuple[int, str, str]:
        """Exit status, stdout and stderr of `vit-sweep WORDS`."""
        return ended(self.start(*words, **stub))

    def start_run(self, *options: object, **stub: Any) -> subprocess.Popen[str]:
        """Start `vit-sweep run` on the study with two workers."""
        usual = {"--out": self.folder, "--workers": 2}
        given = [part for flag, value in usual.items() if flag not in options for part in (flag, value)]
        return self.start("run", self.study, *given, *options, **stub)

    def run(self, *options: object, **stub: Any) -> tuple[int, str, str]:
        """Exit status, stdout and stderr of `vit-sweep run` on the study with two workers."""
        return ended(self.start_run(*options, **stub))

    def write_plan(self) -> list[str]:
        """Write the plan, and train nothing. The names of the runs."""
        plan = make_plan(parse_study(self.fields, "tiny"))
        StudyFolder(self.dir, plan).write("vit-sweep run tiny")
        return [run.name for run in plan.runs]

    def noted(self, word: str) -> list[tuple[str, int]]:
        """Run and worker of each line with that word, start or end."""
        lines = [line.split() for line in self.log.read_text().splitlines()] if self.log.exists() else []
        return [(name, int(pid)) for kind, name, pid in lines if kind == word]

    def ended(self) -> Counter[str]:
        """Run -> how often a worker trained it to its end."""
        return Counter(name for name, _ in self.noted("end"))

    def trained_twice(self) -> list[tuple[str, int]]:
        """The runs that two processes trained at once, or that were trained again after their end."""
        return self.noted("twice") + [(name, n) for name, n in self.ended().items() if n > 1]

    def wait_for(self, word: str, count: int = 1) -> None:
        """Wait until workers have noted the word that often."""
        until(lambda: len(self.noted(word)) >= count)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of a command, once it has ended."""
    out, err = process.communicate(timeout=180)
    return process.returncode, out, err


def until(condition: Callable[[], Any], seconds: float = 180.0) -> None:
    """Wait for a condition."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


def lives(pid: int) -> bool:
    """Whether a process is alive, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def children(parent: int, running: str = "") -> list[int]:
    """The child processes of a process, without zombies; only those whose command has `running` in it."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            state, above = path.read_text().rpartition(")")[2].split()[:2]
            if above == str(parent) and state != "Z" and running in (path.parent / "cmdline").read_text():
                found.append(int(path.parent.name))
    return found


def finish(folder: Path, run: RunSpec, status: str = "finished", epochs: int = 4, **more: Any) -> None:
    """Write the record of a run, with one epoch and an empty checkpoint. `more`: of its summary."""
    folder.mkdir(exist_ok=True, parents=True)
    record.write_json(folder / record.CONFIG, run.config.model_dump())
    write_text(folder / record.METRICS, "epoch,val/acc\n1,0.5\n")
    write_text(folder / record.CHECKPOINT, "")
    metrics = {"val/acc": 0.5, "val/loss": 1.0, "test/acc": 0.5}
    record.write_summary(folder, {"run_id": run.run_id, "status": status, "epochs": epochs, **metrics, **more})


def tiny_plan(**fields: Any) -> Study:
    """The plan of the study, with other fields."""
    return make_plan(parse_study({**STUDY, **fields}, "tiny"))


def _restore_ctrl_c() -> None:
    """Restore the default action: a shell starts background jobs, and so their children, with Ctrl-C ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
