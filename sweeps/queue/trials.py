"""What the queue stores in a trial of Optuna, and what the trials tell about each run. Pure functions, without a database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from experiments.study import RunSpec
from sweeps.queue.process import ProcessInfo, is_alive

# User attributes of a trial
RUN, RUN_ID, VARIANT, SEED = "run", "run_id", "variant", "seed"
PROCESS = "owner"  # the worker, and under "sweep" the pid and the start of its sweep
STATUS = "status"  # of the record that the attempt left, where Optuna's state does not tell it: "diverged"
REASON = "reason"  # why the attempt left no record: "failed" or "interrupted"
ERROR = "error"  # of a failed attempt, in one line
RECORD = "record"  # where several folders share the database: the token of the record's folder, and the record's digest
# User attributes of the study: what users have asked for
CANCELLED = "cancelled"  # whether no runs are assigned
RETRIED = "retried"  # run id -> number of the first trial whose failure counts


def _lists() -> defaultdict[str, list[FrozenTrial]]:
    return defaultdict(list)


@dataclass
class Attempts:
    """The attempts at the runs of a plan by what became of them: the name of a run -> its trials, oldest first."""

    all: defaultdict[str, list[FrozenTrial]] = field(default_factory=_lists)
    running: defaultdict[str, list[FrozenTrial]] = field(default_factory=_lists)  # the first of a run has it; no other
    recorded: defaultdict[str, list[FrozenTrial]] = field(default_factory=_lists)  # finished, diverged or pruned
    failed: defaultdict[str, list[FrozenTrial]] = field(default_factory=_lists)  # since the last retry


def sort_attempts(trials: Iterable[FrozenTrial], names: Mapping[str, str], retried: Mapping[str, int]) -> Attempts:
    """The attempts at runs. `names`: run id -> name; trials of other runs, and of other origin, are left out.

    The folder of another machine may keep an older name of a run, so its id tells which it is.
    """
    attempts = Attempts()
    for trial in trials:
        run_id = trial.user_attrs.get(RUN_ID, "")
        if not (name := names.get(run_id)):
            continue
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


def record_folder(trial: FrozenTrial) -> str | None:
    """The token of the folder in which the attempt left its record; None if that is not stored, or there is none."""
    return trial.user_attrs.get(RECORD, {}).get("folder")


def new_trial(
    run: RunSpec,
    distributions: Mapping[str, BaseDistribution],
    state: TrialState,
    value: float | None,
    attributes: Mapping[str, Any],
) -> FrozenTrial:
    """A trial of a run. The seed is an attribute: as a parameter it would take most of the importance.

    `distributions`: of the parameters, which are levels of the run.
    """
    return create_trial(
        state=state,
        value=value,
        params={path: run.levels[path] for path in distributions},
        distributions=dict(distributions),
        user_attrs={**attributes, RUN: run.name, RUN_ID: run.run_id, VARIANT: run.variant, SEED: run.seed},
    )


def factor_distributions(runs: Iterable[RunSpec]) -> dict[str, BaseDistribution]:
    """The levels of each factor, as the choices of a parameter."""
    levels: dict[str, list[Any]] = {}
    for run in runs:
        for path, level in run.levels.items():
            if level not in (known := levels.setdefault(path, [])):
                known.append(level)
    return {path: CategoricalDistribution(known) for path, known in levels.items()}


def stored_process(worker: ProcessInfo, sweep: ProcessInfo) -> dict[str, Any]:
    """A worker and its sweep, which run on one machine, as a user attribute."""
    return {**asdict(worker), "sweep": {"pid": sweep.pid, "start": sweep.start}}


def worker_of(trial: FrozenTrial) -> ProcessInfo:
    """The worker that trains the run of a trial, or that trained it last."""
    stored = trial.user_attrs[PROCESS]
    return ProcessInfo(**{name: value for name, value in stored.items() if name != "sweep"})


def sweep_of(trial: FrozenTrial) -> ProcessInfo:
    """The sweep that has assigned the run of a trial."""
    stored = trial.user_attrs[PROCESS]
    return ProcessInfo(**{name: stored["sweep"].get(name, stored[name]) for name in stored if name != "sweep"})


def is_assigned(trial: FrozenTrial, silence: Callable[[float], float]) -> bool:
    """Whether the worker of a running trial is alive, or the sweep that will settle it. `silence`: see `is_alive`."""
    return is_alive(worker_of(trial), silence) or is_alive(sweep_of(trial), silence)
