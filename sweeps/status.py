"""The status of every run of a study, from its plan, its records and its locks. It changes nothing."""

import contextlib
import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.config import DEFAULTS
from experiments.files import UNUSABLE, read_bytes
from experiments.locks import DRIVER_LOCK, LOCKS, Holder, holder
from experiments.runs import record
from experiments.runs.resume import NAME as RESUME
from experiments.runs.resume import read_note
from experiments.runs.reused import ReusedRun, reused_runs
from experiments.study import RunSpec, StudyPlan

STATES = ("running", "waiting", "interrupted", "failed", "finished", "diverged", "pruned", "unreadable")
ACTIVE = ("running", "waiting", "interrupted")  # states of runs that are left to train


@dataclass(frozen=True)
class RunStatus:
    """One run of a study.

    `state` is one of `STATES`: ended by its record; unreadable where that is damaged or of another run; running where
    its lock is held; failed where an attempt has left error.txt; interrupted where it has begun; else waiting. `host`
    and `pid` name the process that trains it, `error` is the last line of error.txt or what is wrong with the record,
    `last_epoch` is the time since its last epoch in seconds; None unless it is running.
    """

    run: str
    variant: str
    seed: int
    state: str
    epochs: int
    epochs_done: int
    error: str | None = None
    host: str | None = None
    pid: int | None = None
    last_epoch: float | None = None
    reused_from: str | None = None


@dataclass(frozen=True)
class StudyStatus:
    """All runs of a study in the order of the plan, the command that trains it, if there is one, and about the seconds
    until the last run ends; None if not known.
    """

    study: str
    driver: Holder | None
    runs: list[RunStatus]
    seconds_left: float | None

    @property
    def counts(self) -> dict[str, int]:
        """State -> number of runs, for every state."""
        return {state: sum(run.state == state for run in self.runs) for state in STATES}

    @property
    def is_done(self) -> bool:
        """Whether every run has ended, or failed in a command that has ended."""
        return not any(run.state in ACTIVE or (run.state == "failed" and self.driver) for run in self.runs)


def read_status(study_dir: Path) -> StudyStatus:
    """The status of a study now. Raises `UserError` where study.json cannot be read or its runs have no folders, and
    where a source of runs that it reuses is missing or was changed.
    """
    plan = StudyPlan.read(study_dir)
    reused = reused_runs(plan)
    runs = [run_status(study_dir, run, reused.get(run.run_id)) for run in plan.runs]
    return StudyStatus(plan.name, holder(study_dir / DRIVER_LOCK), runs, _seconds_left(study_dir, runs))


def run_status(study_dir: Path, run: RunSpec, reused: ReusedRun | None = None) -> RunStatus:
    """The status of a run. `reused`: the one that a source has in its place, if the study has no record of it."""
    folder, holding, source = study_dir / run.name, None, None
    stated = run.settings.get("train.epochs")
    planned = stated if isinstance(stated, int) else DEFAULTS["train.epochs"]
    summary = error = None
    try:
        summary = record.read_ended(study_dir, run)
    except record.RecordError as damage:
        error = str(damage)
    if reused and not (summary or error):
        summary, source = reused.summary, reused.source.name
    if error:
        state, done = "unreadable", 0
    elif summary:
        state, done = summary["status"], int(summary.get("epochs", planned))
    else:
        done, holding, error = _progress(folder)[0], holder(study_dir / LOCKS / run.name), _last_error(folder)
        begun = done or (folder / record.CONFIG).exists()
        state = "running" if holding else "failed" if error else "interrupted" if begun else "waiting"
    return RunStatus(
        run=run.name,
        variant=run.variant,
        seed=run.seed,
        state=state,
        epochs=planned,
        epochs_done=done,
        error=error,
        host=holding.host if holding else None,
        pid=holding.pid if holding else None,
        last_epoch=_since_epoch(folder) if holding else None,
        reused_from=source,
    )


def _last_error(folder: Path) -> str | None:
    """The last line of the traceback of the last failed attempt; None where none failed since the run went on."""
    with contextlib.suppress(record.RecordError):
        lines = read_bytes(folder / record.ERROR).decode(errors="replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "unknown")
    return None


def _since_epoch(folder: Path) -> float | None:
    """The time since the last epoch of a run in training was saved; None before the first."""
    with contextlib.suppress(OSError):
        return max(0.0, time.time() - (folder / RESUME).stat().st_mtime)
    return None


def _progress(folder: Path) -> tuple[int, float | None]:
    """The number of finished epochs of a run that has not ended, and the seconds that they took."""
    with contextlib.suppress(*UNUSABLE, ArithmeticError):  # none, being written, or damaged
        note = read_note(folder)
        return len(note["rows"]), float(note["seconds"]["wall"])
    with contextlib.suppress(record.RecordError):
        return max(0, read_bytes(folder / record.METRICS).count(b"\n") - 1), None
    return 0, None


def _seconds_left(study_dir: Path, runs: Sequence[RunStatus]) -> float | None:
    """The time until the last run ends, if as many runs stay in training, and all epochs take as long as theirs."""
    running = [_progress(study_dir / run.run) for run in runs if run.state == "running"]
    paces = [seconds / done for done, seconds in running if done and seconds]
    epochs = sum(run.epochs - run.epochs_done for run in runs if run.state in ACTIVE)
    with contextlib.suppress(OverflowError):  # of a plan with as many epochs
        if paces and math.isfinite(seconds := statistics.median(paces) * epochs / len(running)):
            return seconds
    return None
