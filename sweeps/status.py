"""The status of every run of a study, from its plan, its records and its locks. It changes nothing."""

import contextlib
import math
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.config import DEFAULTS
from experiments.files import UNUSABLE, read_bytes
from experiments.locks import DRIVER_LOCK, LOCKS, is_locked
from experiments.runs import record
from experiments.runs.resume import NAME as RESUME
from experiments.runs.resume import read_note
from experiments.runs.reused import ReusedRun, reused_runs
from experiments.study import RunSpec, Study

STATES = ("running", "waiting", "interrupted", "failed", "finished", "diverged", "pruned", "unreadable")
ACTIVE = ("running", "waiting", "interrupted")  # states of runs that are left to train


@dataclass(frozen=True)
class RunStatus:
    """One run of a study.

    `state` is one of `STATES`: ended by its record; unreadable where that is damaged or of another run; running where
    its lock is held; failed where an attempt has left error.txt; interrupted where it has begun; else waiting. `error`
    is the last line of error.txt or what is wrong with the record, `last_epoch` is the time since its last epoch in
    seconds; None unless it is running.
    """

    run: str
    variant: str
    seed: int
    state: str
    epochs: int
    epochs_done: int
    error: str | None = None
    last_epoch: float | None = None
    reused_from: str | None = None


@dataclass(frozen=True)
class StudyStatus:
    """All runs of a study in the order of the plan, whether a command trains it, and about the seconds until the last
    run ends; None if not known.
    """

    study: str
    driver: bool
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
    plan = Study.read(study_dir)
    reused, paces = reused_runs(plan), list[float]()
    epochs_of = {label: plan.settings(run).get("train.epochs") for label, run in plan.variants.items()}
    runs = [_run_status(study_dir, run, epochs_of[run.variant], reused.get(run.run_id), paces) for run in plan.runs]
    epochs, seconds = sum(run.epochs - run.epochs_done for run in runs if run.state in ACTIVE), math.nan
    with contextlib.suppress(OverflowError):  # of a plan with as many epochs
        if paces:
            seconds = statistics.median(paces) * epochs / sum(run.state == "running" for run in runs)
    return StudyStatus(plan.name, is_locked(study_dir / DRIVER_LOCK), runs, seconds if math.isfinite(seconds) else None)


def _run_status(study_dir: Path, run: RunSpec, epochs: Any, reused: ReusedRun | None, paces: list[float]) -> RunStatus:
    """The status of a run; of one in training, its seconds an epoch are added to `paces`. `reused`: what a source has
    in its place, if the study has no record of it.
    """
    folder = study_dir / run.name
    planned = epochs if isinstance(epochs, int) else DEFAULTS["train.epochs"]

    def status(state: str, done: int, **more: object) -> RunStatus:
        return RunStatus(run.name, run.variant, run.seed, state, planned, done, **more)  # type: ignore[arg-type]

    try:
        summary = record.read_ended(study_dir, run)
    except record.RecordError as damage:
        return status("unreadable", 0, error=str(damage))
    if known := summary or (reused and reused.summary):
        source = None if summary or not reused else reused.source.name
        return status(known["status"], int(known.get("epochs", planned)), reused_from=source)
    (done, seconds), error = _progress(folder), _last_error(folder)
    if is_locked(study_dir / LOCKS / run.name):
        if done and seconds:
            paces.append(seconds / done)
        return status("running", done, error=error, last_epoch=_since_epoch(folder))
    begun = done or (folder / record.CONFIG).exists()
    return status("failed" if error else "interrupted" if begun else "waiting", done, error=error)


def _last_error(folder: Path) -> str | None:
    """The last line of the traceback of the last failed attempt; None where none failed since the run went on."""
    with contextlib.suppress(record.RecordError):
        lines = read_bytes(folder / record.ERROR).decode(errors="replace").split("\n")
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
