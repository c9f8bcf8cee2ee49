"""What the queue stores in a trial of Optuna, and what the trials tell about each run.

Pure functions, without a database.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from experiments.study import RunSpec
from sweeps.queue.process import ProcessInfo, is_alive

ATTEMPTS = 3  # at a run; then it has failed
# User attributes of a trial
RUN, RUN_ID, VARIANT, SEED = "run", "run_id", "variant", "seed"
PROCESS = "owner"  # the worker, and its sweep
STATUS = "status"  # of the record that the attempt left, where Optuna's state does not tell it: "diverged"
REASON = "reason"  # why the attempt left no record: "failed" or "interrupted"
ERROR = "error"  # of a failed attempt, in one line
# User attributes of the study: what users have asked for
CANCELLED = "cancelled"  # whether no runs are assigned
RETRIED = "retried"  # run id -> number of the first trial whose failure counts


@dataclass
class Attempts:
    """The attempts at the runs of a plan by what became of them: the name of a run -> its trials, oldest first."""

    all: dict[str, list[FrozenTrial]] = field(default_factory=lambda: defaultdict(list))
    running: dict[str, list[FrozenTrial]] = field(default_factory=lambda: defaultdict(list))  # the first has the run
    recorded: dict[str, list[FrozenTrial]] = field(default_factory=lambda: defaultdict(list))  # the run has ended
    failed: dict[str, list[FrozenTrial]] = field(default_factory=lambda: defaultdict(list))  # since the last retry


def sort_attempts(trials: Iterable[FrozenTrial], runs: Mapping[str, RunSpec], retried: Mapping[str, int]) -> Attempts:
    """The attempts at runs. `runs`: by run id; trials of other runs, and of other origin, are left out."""
    attempts = Attempts()
    for trial in trials:
        run_id = trial.user_attrs.get(RUN_ID, "")
        if run_id not in runs:
            continue
        name = runs[run_id].name
        attempts.all[name].append(trial)
        if trial.state == TrialState.RUNNING:
            attempts.running[name].append(trial)
        elif has_record(trial):
            attempts.recorded[name].append(trial)
        elif trial.user_attrs.get(REASON) == "failed" and trial.number >= retried.get(run_id, 0):
            attempts.failed[name].append(trial)
    return attempts


def has_record(trial: FrozenTrial) -> bool:
    """Whether the attempt left a record. Optuna has no state for a diverged run, which has no value."""
    complete = trial.state in (TrialState.COMPLETE, TrialState.PRUNED)
    return complete or (trial.state == TrialState.FAIL and STATUS in trial.user_attrs)


def stored_process(worker: ProcessInfo, sweep: ProcessInfo, now: float) -> dict[str, Any]:
    """A worker and its sweep, which run on one machine, with a heartbeat now, as a user attribute."""
    return {"worker": asdict(replace(worker, heartbeat=now)), "sweep": asdict(replace(sweep, heartbeat=now))}


def worker_of(trial: FrozenTrial) -> ProcessInfo:
    """The worker that trains the run of a trial, or that trained it last."""
    return ProcessInfo(**trial.user_attrs[PROCESS]["worker"])


def sweep_of(trial: FrozenTrial) -> ProcessInfo:
    """The sweep that has assigned the run of a trial."""
    return ProcessInfo(**trial.user_attrs[PROCESS]["sweep"])


def is_assigned(trial: FrozenTrial, silence: Callable[[float], float]) -> bool:
    """Whether a trial is running and its worker is alive, or the sweep that will settle it.

    `silence`: see `is_alive`.
    """
    is_ours = trial.state == TrialState.RUNNING and bool(trial.user_attrs.get(PROCESS))
    return is_ours and (is_alive(worker_of(trial), silence) or is_alive(sweep_of(trial), silence))
