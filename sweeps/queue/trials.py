"""What the queue stores in a trial of Optuna: the run, the process that trains it, how the attempt ended."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from experiments.study import RunSpec
from sweeps.queue.process import ProcessInfo, is_alive

# User attributes of a trial. The names in the database are kept so that old databases load.
RUN, RUN_ID, VARIANT, SEED = "run", "run_id", "variant", "seed"
PROCESS = "owner"  # the worker and its sweep
STATUS = "status"  # of the record that the attempt left, where Optuna's state does not tell it: "diverged"
REASON, ERROR = (
    "reason",
    "error",
)  # of an attempt that left no record: "failed" or "interrupted", and its error in one line
RECORD = "record"  # where several folders share the database: the token of the record's folder, and the record's digest
# User attributes of the study: what users have asked for.
CANCELLED = "cancelled"  # whether no runs are assigned
RETRIED = "retried"  # run -> number of the first trial whose failure counts


@dataclass(slots=True)
class TrialRow:
    """A trial as the queue reads it: without parameters, values and times."""

    trial_id: int
    number: int
    state: TrialState
    user_attrs: dict[str, Any]


Trial = FrozenTrial | TrialRow


def new_trial(
    run: RunSpec,
    distributions: Mapping[str, BaseDistribution],
    state: TrialState,
    value: float | None,
    notes: Mapping[str, Any],
) -> FrozenTrial:
    """A trial of a run. The seed is an attribute: as a parameter it would take most of the importance."""
    own = {RUN: run.name, RUN_ID: run.run_id, VARIANT: run.variant, SEED: run.seed}
    return create_trial(
        state=state,
        value=value,
        params=dict(run.levels),
        distributions=dict(distributions),
        user_attrs={**notes, **own},
    )


class RunFinder:
    """Finds the run of a trial by its name, or else by its id: another machine's folder may keep an older name of the run.

    `runs`: by name.
    """

    def __init__(self, runs: Mapping[str, RunSpec]) -> None:
        self._runs = runs

    def __call__(self, trial: Trial) -> RunSpec | None:
        """The run; None where it is not one of these."""
        run = self._runs.get(trial.user_attrs.get(RUN, ""))
        return run or self._by_id.get(trial.user_attrs.get(RUN_ID, ""))

    @functools.cached_property
    def _by_id(self) -> dict[str, RunSpec]:
        return {run.run_id: run for run in self._runs.values()}


def factor_distributions(runs: Iterable[RunSpec]) -> dict[str, BaseDistribution]:
    """The levels of each factor, as the choices of a parameter."""
    levels: dict[str, list[Any]] = {}
    for run in runs:
        for path, level in run.levels.items():
            if level not in (known := levels.setdefault(path, [])):
                known.append(level)
    return {path: CategoricalDistribution(known) for path, known in levels.items()}


def has_record(trial: Trial) -> bool:
    """Whether the attempt left a record: the run finished, diverged or was pruned."""
    complete = trial.state in (TrialState.COMPLETE, TrialState.PRUNED)
    return complete or (trial.state == TrialState.FAIL and STATUS in trial.user_attrs)


def record_folder(trial: Trial) -> str | None:
    """The token of the folder in which the attempt left its record; None if that is not stored, or there is none."""
    return trial.user_attrs.get(RECORD, {}).get("folder")


def is_failure(trial: Trial) -> bool:
    """Whether the attempt counts as a failure. An interrupted one does not."""
    return trial.state == TrialState.FAIL and trial.user_attrs.get(REASON) == "failed"


def stored_process(process: ProcessInfo, sweep: ProcessInfo) -> dict[str, Any]:
    """A worker and its sweep, which run on one machine, as a user attribute."""
    own = {"host": process.host, "pid": process.pid, "start": process.start, "beat": process.heartbeat}
    kernel = {"boot": process.boot, "namespace": process.namespace}
    return {**own, **kernel, "sweep": {"pid": sweep.pid, "start": sweep.start}}


def worker_of(trial: Trial) -> ProcessInfo:
    """The worker that trains the run of a trial, or that trained it last."""
    return _process(trial.user_attrs[PROCESS])


def is_assigned(trial: Trial, silence: Callable[[float], float] | None = None) -> bool:
    """Whether the worker of a running trial is alive, or the sweep that will settle it.

    `silence` tells how many seconds have passed since a heartbeat; without it, this machine's clock does.
    """
    stored = trial.user_attrs.get(PROCESS)
    if not stored:  # an earlier version was killed while it added a finished run to the queue
        return False
    return any(is_alive(_process(process), silence) for process in (stored, {**stored, **stored["sweep"]}))


def _process(stored: Mapping[str, Any]) -> ProcessInfo:
    # an earlier version stored neither boot nor namespace
    kernel = stored.get("boot"), stored.get("namespace")
    return ProcessInfo(stored["host"], stored["pid"], stored["start"], stored["beat"], *kernel)
