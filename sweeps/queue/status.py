"""The status of every run of a study, from its plan, its records and its queue.

It changes nothing and takes no lock.
"""

import contextlib
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.config import DEFAULTS
from experiments.runs import record
from experiments.runs.resume import NAME as RESUME
from experiments.runs.resume import read_note
from experiments.study import RunSpec, StudyPlan
from sweeps.queue import trials as stored
from sweeps.queue.optuna_study import QueueView, read_queue

STATES = ("running", "waiting", "interrupted", "failed", "finished", "diverged", "pruned")
ACTIVE = ("running", "waiting", "interrupted")  # states of runs that a sweep still has to train


@dataclass(frozen=True)
class RunStatus:
    """One run of a study.

    `state` is one of `STATES`. A waiting run has not begun. An interrupted run has begun, no process trains it, and the
    next sweep continues it. A failed run has used all its attempts. `attempts` counts the failed attempts since the
    last retry, and the present or successful one. `host` and `pid` name the worker of the last attempt. `heartbeat` is
    the time since its last heartbeat, and `last_epoch` since its last epoch; None unless it is running.
    """

    run: str
    variant: str
    seed: int
    state: str
    epochs: int
    epochs_done: int
    attempts: int = 0
    error: str | None = None  # first line of the error of the last failed attempt
    host: str | None = None
    pid: int | None = None
    heartbeat: float | None = None
    last_epoch: float | None = None


@dataclass(frozen=True)
class StudyStatus:
    """All runs of a study in the order of the plan, and about the seconds until the last one ends; None if not known.

    `cancelled`: no worker begins a run until the next `vit-sweep run` or `retry`.
    """

    study: str
    runs: list[RunStatus]
    seconds_left: float | None
    cancelled: bool = False

    @property
    def counts(self) -> dict[str, int]:
        """State -> number of runs, for every state."""
        return {state: sum(run.state == state for run in self.runs) for state in STATES}

    @property
    def is_done(self) -> bool:
        """Whether every run has ended or failed; of a cancelled study, whether none is in training."""
        return not any(run.state in (("running",) if self.cancelled else ACTIVE) for run in self.runs)


def read_status(study_dir: Path) -> StudyStatus:
    """The status of a study now.

    Raises `RecordError` where study.json or a record cannot be read, and `UserError` where the queue cannot be.
    """
    plan = StudyPlan.read(study_dir)
    queue = read_queue(study_dir, plan.name)
    assigned = [trial for trial in queue.trials if stored.PROCESS in trial.user_attrs]  # others are made from records
    by_id = {run.run_id: run for run in plan.runs}
    attempts = stored.sort_attempts(assigned, by_id, queue.attributes.get(stored.RETRIED, {}))
    runs = [_run_status(study_dir / run.name, run, attempts, queue) for run in plan.runs]
    cancelled = bool(queue.attributes.get(stored.CANCELLED))
    return StudyStatus(plan.name, runs, None if cancelled else _seconds_left(study_dir, runs), cancelled)


def _run_status(folder: Path, run: RunSpec, attempts: stored.Attempts, queue: QueueView) -> RunStatus:
    """The status of a run."""
    planned = int(run.settings.get("train.epochs", DEFAULTS["train.epochs"]))
    tried, failed, running = (trials.get(run.name, []) for trials in (attempts.all, attempts.failed, attempts.running))
    if summary := record.read_ended(folder.parent, run):
        state, done = summary["status"], int(summary.get("epochs", planned))
    else:
        done = _progress(folder)[0]
        if any(stored.is_assigned(trial, queue.silence) for trial in running):
            state = "running"
        elif len(failed) >= stored.ATTEMPTS:
            state = "failed"
        else:
            state = "interrupted" if done or tried else "waiting"
    worker = stored.worker_of(tried[-1]) if tried else None
    return RunStatus(
        run=run.name,
        variant=run.variant,
        seed=run.seed,
        state=state,
        epochs=planned,
        epochs_done=done,
        attempts=len(failed) + (state not in ("waiting", "interrupted", "failed")),
        error=failed[-1].user_attrs.get(stored.ERROR, "").strip().partition("\n")[0] or None if failed else None,
        host=worker.host if worker else None,
        pid=worker.pid if worker else None,
        heartbeat=max(0.0, queue.now - worker.heartbeat) if worker and state == "running" else None,
        last_epoch=_since_epoch(folder) if state == "running" else None,
    )


def _since_epoch(folder: Path) -> float | None:
    """The time since the last epoch of a run in training was saved; None before the first."""
    with contextlib.suppress(OSError):
        return max(0.0, time.time() - (folder / RESUME).stat().st_mtime)
    return None


def _progress(folder: Path) -> tuple[int, float | None]:
    """The number of finished epochs of a run that has not ended, and the seconds that they took."""
    with contextlib.suppress(ValueError, KeyError, TypeError):  # none, being written, or damaged
        note = read_note(folder)
        return len(note["rows"]), float(note["seconds"]["wall"])
    with contextlib.suppress(record.RecordError), record.reading(folder / record.METRICS):
        return max(0, (folder / record.METRICS).read_bytes().count(b"\n") - 1), None
    return 0, None


def _seconds_left(study_dir: Path, runs: Sequence[RunStatus]) -> float | None:
    """The time until the last run ends, if as many runs stay in training, and all epochs take as long as theirs."""
    running = [_progress(study_dir / run.run) for run in runs if run.state == "running"]
    paces = [seconds / done for done, seconds in running if done and seconds]
    epochs = sum(run.epochs - run.epochs_done for run in runs if run.state in ACTIVE)
    return statistics.median(paces) * epochs / len(running) if paces else None
