"""vit-sweep in processes of its own, with training replaced by stub_sweep.py, on a study of two heads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

SUPPORT = Path(__file__).resolve().parent
STUDY = {"name": "tiny", "factors": {"model.head": ["logits", "softmax"]}, "base": {"train.epochs": 4}, "seeds": 3}


class Stub:
    """Commands on the study; `log` is what the workers noted. `dir` is the study's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log, self.dir = folder, folder / "log", folder / "tiny"
        self.study = folder / "tiny.yaml"
        self.study.write_text(json.dumps(STUDY))

    def environment(self, **stub: Any) -> dict[str, str]:
        """The environment of a command. `stub`: see stub_sweep.py."""
        settings = json.dumps({"log": str(self.log), **stub})
        return {**os.environ, "STUB": settings, "PYTHONPATH": str(SUPPORT.parents[1])}

    def start(self, *words: object, **stub: Any) -> subprocess.Popen[str]:
        """Start `vit-sweep WORDS` in a session of its own."""
        return subprocess.Popen(
            [sys.executable, str(SUPPORT / "stub_sweep.py"), *map(str, words)],
            env=self.environment(**stub),
            text=True,
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def __call__(self, *words: object, **stub: Any) -> tuple[int, str, str]:
        """Exit status, stdout and stderr of `vit-sweep WORDS`."""
        process = self.start(*words, **stub)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def plan(self) -> list[str]:
        """Write the plan, and train nothing. The names of the runs."""
        from sweeps.plan import make_plan
        from sweeps.study import parse_study
        from sweeps.study_folder import write_plan

        plan = make_plan(parse_study(STUDY, "tiny"))
        write_plan(plan, self.dir, "vit-sweep run tiny")
        return [run.name for run in plan.runs]

    def noted(self, word: str) -> Counter[str]:
        """Run -> how often workers noted that word for it: start or end."""
        lines = [line.split() for line in self.log.read_text().splitlines()] if self.log.exists() else []
        return Counter(name for kind, name, _ in lines if kind == word)

    def states(self) -> dict[str, str]:
        """Run -> its state, as `vit-sweep status` tells it."""
        status, out, err = self("status", self.dir, "--json")
        assert (status, err) == (0, "")
        return {run["run"]: run["state"] for run in json.loads(out)["runs"]}


def until(condition: Callable[[], Any], seconds: float = 120.0) -> None:
    """Wait for a condition."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)
