"""The status of every run of a study, from its plan, its records and its queue. It changes nothing and takes no lock."""

from __future__ import annotations

import contextlib
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from optuna.trial import FrozenTrial

from experiments.runs import record
from experiments.runs.resume_note import read_note
from experiments.study import RunSpec, StudyPlan
from sweeps.queue.optuna_study import QueueView, read_queue
from sweeps.queue.trials import (
    ERROR,
    PROCESS,
    RETRIED,
    STATUS,
    Attempts,
    has_record,
    is_assigned,
    record_folder,
    sort_attempts,
    worker_of,
)
from sweeps.study_folder import ERROR as TRACEBACK

STATES = ("running", "waiting", "interrupted", "failed", "finished", "diverged", "pruned")
ACTIVE = ("running", "waiting", "interrupted")  # states of runs that a sweep still has to train
RATE_WINDOW = timedelta(hours=1)  # the rate counts the runs that ended in this time


@dataclass(frozen=True)
class RunStatus:
    """One run of a study.

    `state` is one of `STATES`. A waiting run has not begun. An interrupted run has begun, no process trains it, and the next
    sweep continues it. A failed run has used all its attempts. `attempts` counts the failed attempts since the last retry,
    and the present or successful one. `host` and `pid` name the worker of the last attempt. `heartbeat` is the time since its
    last heartbeat, None unless it is running. `seconds_left` is the training that is left, None where the pace is not known.
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
    seconds_left: float | None = None


@dataclass(frozen=True)
class StudyStatus:
    """All runs of a study in the order of the plan, the runs that ended per hour, and the seconds until the last one ends.

    The rate and the time are None where they are not known: without a queue, or while no run is in training.
    """

    study: str
    runs: list[RunStatus]
    runs_per_hour: float | None
    seconds_left: float | None

    @property
    def counts(self) -> dict[str, int]:
        """State -> number of runs, for every state."""
        return {state: sum(run.state == state for run in self.runs) for state in STATES}

    @property
    def is_done(self) -> bool:
        """Whether every run has ended or failed."""
        return not any(run.state in ACTIVE for run in self.runs)


def read_status(study_dir: Path, max_failures: int = 3) -> StudyStatus:
    """The status of a study now. A run has failed after `max_failures` attempts.

    Raises `RecordError` where study.json or a record cannot be read, and `UserError` where the queue cannot be.
    """
    plan = StudyPlan.read(study_dir)
    queue = read_queue(study_dir, plan.name)
    assigned = [trial for trial in queue.trials if PROCESS in trial.user_attrs]  # the others were made from records
    names = {run.run_id: run.name for run in plan.runs}
    attempts = sort_attempts(assigned, names, queue.attributes.get(RETRIED, {}))
    known: dict[str, list[float]] = defaultdict(list)  # variant -> seconds of an epoch
    paces: dict[str, float] = {}  # run -> seconds of one of its epochs
    runs = []
    for run in plan.runs:
        status, seconds = _look(study_dir / run.name, run, _epochs(plan, run), attempts, queue, max_failures)
        runs.append(status)
        if seconds and status.epochs_done:
            paces[run.name] = seconds / status.epochs_done
            known[run.variant].append(paces[run.name])
    medians = {variant: statistics.median(values) for variant, values in known.items()}
    usual = statistics.median(medians.values()) if medians else None
    for i, status in enumerate(runs):
        pace = medians.get(status.variant, usual)
        pace = paces.get(status.run, pace) if status.state == "running" else pace
        if pace and status.state in ACTIVE:
            runs[i] = replace(status, seconds_left=(status.epochs - status.epochs_done) * pace)
    return StudyStatus(plan.name, runs, _runs_per_hour(assigned), _seconds_left(runs))


def _epochs(plan: StudyPlan, run: RunSpec) -> int:
    """The number of epochs that a run is planned to have."""
    settings = {**plan.tuned_for(run.variant), **run.levels}
    return int(settings.get("train.epochs", plan.base["train"]["epochs"]))


def _look(
    folder: Path, run: RunSpec, epochs: int, attempts: Attempts, queue: QueueView, max_failures: int
) -> tuple[RunStatus, float | None]:
    """The status of a run without its time left, and the seconds that its finished epochs took, if that is known."""
    done, tried, failed = epochs, attempts.all[run.name], attempts.failed[run.name]
    seconds = _duration(tried)
    elsewhere = [trial for trial in attempts.recorded[run.name] if record_folder(trial) not in (None, queue.folder)]
    if record.is_finished(folder):
        summary = record.read_summary(folder)
        state, done = summary["status"], int(summary.get("epochs", epochs))
    elif elsewhere:
        state = elsewhere[-1].user_attrs.get(STATUS, "finished")
    else:
        done, seconds = _progress(folder)
        if any(is_assigned(trial, queue.silence) for trial in attempts.running[run.name]):
            state = "running"
        elif len(failed) >= max_failures:
            state = "failed"
        else:
            state = "interrupted" if done or tried else "waiting"
    worker = worker_of(tried[-1]) if tried else None
    error = failed[-1].user_attrs.get(ERROR) if failed else _last_line(folder, state)
    status = RunStatus(
        run=run.name,
        variant=run.variant,
        seed=run.seed,
        state=state,
        epochs=epochs,
        epochs_done=done,
        attempts=len(failed) + (state not in ("waiting", "interrupted", "failed")),
        error=error.strip().partition("\n")[0] if error else None,
        host=worker.host if worker else None,
        pid=worker.pid if worker else None,
        heartbeat=max(0.0, queue.now - worker.heartbeat) if worker and state == "running" else None,
    )
    return status, seconds


def _duration(attempts: Sequence[FrozenTrial]) -> float | None:
    """The seconds that the only attempt at a run took; None where there were several, or none."""
    duration = attempts[0].duration if len(attempts) == 1 else None
    return duration.total_seconds() if duration else None


def _progress(folder: Path) -> tuple[int, float | None]:
    """The number of finished epochs of a run that has not ended, and the seconds that they took."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # being written, or damaged
        note = read_note(folder)
        return len(note["rows"]), float(note["seconds"]["wall"])
    with contextlib.suppress(OSError):
        return max(0, (folder / record.METRICS).read_bytes().count(b"\n") - 1), None
    return 0, None


def _last_line(folder: Path, state: str) -> str | None:
    """The error in the folder of a run that has no failed attempt in the queue: the last line of its traceback."""
    if state in record.STATUSES:  # of an attempt before the successful one
        return None
    with contextlib.suppress(OSError):
        return (folder / TRACEBACK).read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
    return None


def _seconds_left(runs: Sequence[RunStatus]) -> float | None:
    """The time until the last run ends, if as many runs stay in training at once as now."""
    left = [run.seconds_left for run in runs if run.state in ACTIVE]
    running = [run.seconds_left for run in runs if run.state == "running"]
    if not running or None in left:
        return None
    return max(sum(filter(None, left)) / len(running), max(filter(None, running), default=0.0))


def _runs_per_hour(trials: Sequence[FrozenTrial]) -> float | None:
    """The number of runs that ended in the last hour; in less time, if the first trial began later."""
    ages = [datetime.now() - trial.datetime_start for trial in trials if trial.datetime_start]  # local, without a zone
    ends = [trial.datetime_complete for trial in trials if has_record(trial) and trial.datetime_complete]
    window = min(RATE_WINDOW, max(ages, default=RATE_WINDOW))
    recent = sum(datetime.now() - end <= window for end in ends)
    return recent / (window / timedelta(hours=1)) if recent else None
