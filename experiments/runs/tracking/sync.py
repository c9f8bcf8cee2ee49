"""Send finished runs to W&B from their records. Again, it sends what is missing; W&B's own files are not used."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from experiments.errors import UserError
from experiments.runs import record
from experiments.runs.tracking import child, send
from experiments.runs.tracking.settings import Tracking
from experiments.study import STUDY, StudyPlan


@dataclass
class Synced:
    """What `sync` did: names of the runs it sent, of those that W&B had already, of those that have not ended; the project."""

    unfinished: list[str]
    sent: list[str] = field(default_factory=list)
    complete: list[str] = field(default_factory=list)
    where: str = ""


def sync(folder: Path, tracking: Tracking, on_run: Callable[[str], None]) -> Synced:
    """Send the finished runs of a folder; `on_run(name)` is called after each. Raises `UserError`.

    `folder`: of a study, or any folder of run folders. If W&B stops answering, the command ends with an error after a
    time limit, and can be run again.
    """
    names = _names(folder)
    finished = [name for name in names if record.is_finished(folder / name)]
    if not finished:
        raise UserError(f"{folder}: holds no finished runs; give the folder of a study, OUT/STUDY")
    done = Synced([name for name in names if name not in finished])
    process = send.start(folder, tracking)
    error = "the process for W&B died"
    try:
        child.write_line(process, "\n".join(finished))
        child.close(process)
        for message in map(json.loads, process.stdout or ()):
            error, done.where = message.get("error", error), message.get("where", done.where)
            if "run" in message:
                (done.sent if message["new"] else done.complete).append(message["run"])
                on_run(message["run"])
    finally:
        child.kill(process)
    if (complete := len(done.sent) + len(done.complete)) < len(finished):
        progress = f"{complete} of {len(finished)} runs are checked or sent; run the same command again for the rest"
        raise UserError(f"W&B cannot be used ({error}); {progress}")
    return done


def _names(folder: Path) -> list[str]:
    """The names of the runs in a folder."""
    if (folder / STUDY).exists():
        plan = StudyPlan.read(folder)
        plan.check_has_folders(str(folder))
        return [run.name for run in plan.runs]
    return sorted(path.parent.name for path in folder.glob(f"*/{record.CONFIG}"))
