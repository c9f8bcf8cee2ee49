"""The status of every run of a study, from its plan, its records and its queue. It changes nothing and makes no sweep wait."""

from __future__ import annotations

import contextlib
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from optuna.trial import FrozenTrial, TrialState

from experiments.runs import record
from experiments.runs.resume_note import read_note
from experiments.study import RunSpec, StudyPlan
from sweeps.queue.snapshot import Snapshot, read_snapshot
from sweeps.queue.trials import (
    ERROR,
    PROCESS,
    RECORD,
    RETRIED,
    RUN,
    RUN_ID,
    STATUS,
    has_record,
    is_assigned,
    is_failure,
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


def read_status(study_dir: Path, attempts: int = 3) -> StudyStatus:
    """The status of a study now. `attempts` is the number of attempts after which a run has failed.

    Raises `RecordError` where study.json or a record cannot be read, and `UserError` where the queue cannot be.
    """
    plan = StudyPlan.read(study_dir)
    queue = read_snapshot(study_dir, plan.name)
    trials, retried = defaultdict(list), queue.attributes.get(RETRIED, {})
    names = {run.run_id: run.name for run in plan.runs}  # another machine may keep older names
    for trial in queue.trials:
        if (name := trial.user_attrs.get(RUN)) and trial.user_attrs.get(PROCESS):
            trials[names.get(trial.user_attrs.get(RUN_ID, ""), name)].append(trial)
    looked = []
    for run in plan.runs:
        own = trials[run.name]
        failures = [trial for trial in own if is_failure(trial) and trial.number >= retried.get(run.name, 0)]
        looked.append(_look(study_dir / run.name, run, _epochs(plan, run), own, failures, attempts, queue))
    runs = _with_time_left(looked)
    rate = _runs_per_hour([trial for own in trials.values() for trial in own])
    return StudyStatus(plan.name, runs, rate, _seconds_left(runs))


def _epochs(plan: StudyPlan, run: RunSpec) -> int:
    """The number of epochs that a run is planned to have."""
    own = {**plan.tuned_for(run.variant), **run.levels}
    return int(own.get("train.epochs", plan.base["train"]["epochs"]))


def _look(
    folder: Path,
    run: RunSpec,
    epochs: int,
    trials: Sequence[FrozenTrial],
    failures: Sequence[FrozenTrial],
    attempts: int,
    queue: Snapshot,
) -> tuple[RunStatus, float | None]:
    """The status of a run without its time left, and the seconds of one of its epochs if they are known.

    `failures` are the trials that count as failed attempts.
    """
    if record.is_finished(folder):
        state, done = _ended(folder, trials, epochs)
        seconds = _trial_seconds(trials)
    elif elsewhere := [trial for trial in trials if _is_elsewhere(trial, queue.folder)]:
        state, done, seconds = elsewhere[-1].user_attrs.get(STATUS, "finished"), epochs, _trial_seconds(trials)
    else:
        done, seconds = _progress(folder)
        if any(trial.state == TrialState.RUNNING and is_assigned(trial, queue.silence) for trial in trials):
            state = "running"
        elif len(failures) >= attempts:
            state = "failed"
        else:
            state = "interrupted" if done or trials else "waiting"
    worker = worker_of(trials[-1]) if trials else None
    status = RunStatus(
        run=run.name,
        variant=run.variant,
        seed=run.seed,
        state=state,
        epochs=epochs,
        epochs_done=done,
        attempts=len(failures) + (state not in ("waiting", "interrupted", "failed")),
        error=_first_line(failures[-1].user_attrs.get(ERROR)) if failures else _error_in(folder, state),
        host=worker.host if worker else None,
        pid=worker.pid if worker else None,
        heartbeat=max(0.0, queue.now - worker.heartbeat) if worker and state == "running" else None,
    )
    return status, seconds / done if seconds and done else None


def _is_elsewhere(trial: FrozenTrial, folder: str | None) -> bool:
    """Whether the attempt left its record in another folder than this one."""
    return has_record(trial) and trial.user_attrs.get(RECORD, {}).get("folder") not in (None, folder)


def _ended(folder: Path, trials: Sequence[FrozenTrial], epochs: int) -> tuple[str, int]:
    """The status in the record of a run, and its number of epochs. Reads the record only where the queue does not say."""
    if any(trial.state == TrialState.COMPLETE for trial in trials):
        return "finished", epochs
    summary = record.read_summary(folder)
    return summary["status"], int(summary.get("epochs", epochs))


def _trial_seconds(trials: Sequence[FrozenTrial]) -> float | None:
    """The time that the only attempt at a run took; None where there were several, or none."""
    duration = trials[0].duration if len(trials) == 1 else None
    return duration.total_seconds() if duration else None


def _progress(folder: Path) -> tuple[int, float | None]:
    """The number of finished epochs of a run that has not ended, and the seconds that they took."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # being written, or by another version
        note = read_note(folder)
        return len(note["rows"]), float(note["seconds"]["wall"])
    with contextlib.suppress(OSError):
        return max(0, (folder / record.METRICS).read_bytes().count(b"\n") - 1), None
    return 0, None


def _error_in(folder: Path, state: str) -> str | None:
    """The error in the folder of a run that has no failed attempt in the queue: the last line of its traceback."""
    if state in record.STATUSES:  # of an attempt before the successful one
        return None
    with contextlib.suppress(OSError):
        lines = (folder / TRACEBACK).read_text(encoding="utf-8", errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), None)
    return None


def _first_line(text: str | None) -> str | None:
    return next(iter((text or "").strip().splitlines()), None)


def _with_time_left(looked: Sequence[tuple[RunStatus, float | None]]) -> list[RunStatus]:
    """The runs, with the time left of those in training or still to train.

    A run without a finished epoch takes as long per epoch as the others of its variant, or as all.
    """
    known = defaultdict(list)
    for status, seconds in looked:
        if seconds:
            known[status.variant].append(seconds)
    paces = {variant: statistics.median(values) for variant, values in known.items()}
    usual = statistics.median(paces.values()) if paces else None
    runs = []
    for status, seconds in looked:
        pace = seconds if seconds and status.state == "running" else paces.get(status.variant, usual)
        left = status.epochs - status.epochs_done
        runs.append(replace(status, seconds_left=left * pace) if pace and status.state in ACTIVE else status)
    return runs


def _seconds_left(runs: Sequence[RunStatus]) -> float | None:
    """The time until the last run ends, if as many runs stay in training at once as now."""
    left = [run.seconds_left for run in runs if run.state in ACTIVE]
    running = [run.seconds_left for run in runs if run.state == "running"]
    if not running or None in left:
        return None
    return max(sum(filter(None, left)) / len(running), max(filter(None, running), default=0.0))


def _runs_per_hour(trials: Sequence[FrozenTrial]) -> float | None:
    """The number of runs that ended in the last hour; in less time, if the first trial began later."""
    starts = [trial.datetime_start for trial in trials if trial.datetime_start]
    if not starts:
        return None
    now = datetime.now()  # Optuna's times are local and without a zone
    window = min(RATE_WINDOW, now - min(starts))
    ends = [trial.datetime_complete for trial in trials if has_record(trial) and trial.datetime_complete]
    recent = sum(now - end <= window for end in ends)
    return recent / (window / timedelta(hours=1)) if recent else None
