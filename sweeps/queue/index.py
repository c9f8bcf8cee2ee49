"""The state of every run of a plan, in memory, kept up to date from the trials that changed. It reads no files."""

from __future__ import annotations

import bisect
import functools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from optuna.trial import TrialState

from experiments.config import cohort_key
from experiments.study import RunSpec
from sweeps.queue.trials import ERROR, RUN, RunFinder, TrialRow, has_record, is_failure, record_folder


class RunIndex:
    """Which runs have ended, are in training, were given up, or are left to train, in the order of the plan.

    Reading the trials takes time in proportion to those that changed. A run has ended if a trial says that it left a record,
    or if `set_record` says that there is one. Trials of other origin, without a run, are ignored.
    """

    def __init__(self, runs: Sequence[RunSpec], attempts: int) -> None:
        self.runs = {run.name: run for run in runs}
        self._find = RunFinder(self.runs)
        self.attempts = attempts
        self.running: dict[str, TrialRow] = {}
        self.failed: dict[str, str] = {}  # run given up -> error of its last attempt
        self.ended: set[str] = set()
        self.newly_ended: list[str] = []  # since the reader of this list has cleared it
        self.retried: Mapping[str, int] = {}  # run -> the number of the first trial whose failure counts
        self.running_trials: dict[int, TrialRow] = {}  # running trials, also of runs outside the plan
        self.read_trials = 0  # their number
        self.last_id = 0  # the highest id of a trial
        self._trials: defaultdict[str, dict[int, TrialRow]] = defaultdict(dict)
        self._records: dict[
            str, tuple[bool, int]
        ] = {}  # run -> whether it has a record, and up to which trial that holds
        self._places = {name: place for place, name in enumerate(self.runs)}
        self._names = list(self.runs)
        self._left = list(range(len(self.runs)))  # places, sorted

    @property
    def left(self) -> int:
        """The number of runs left to train."""
        return len(self._left)

    def names_left(self) -> list[str]:
        """The runs left to train, in the order of the plan."""
        return [self._names[place] for place in self._left]

    def first_left(self) -> RunSpec | None:
        """The first run that is left to train."""
        return self.runs[self._names[self._left[0]]] if self._left else None

    def left_like(self, run: RunSpec) -> Iterator[RunSpec]:
        """The runs left to train that can be stacked with a run and have never failed, in the order of the plan."""
        for place in self._left_by_cohort[self._cohorts[self._places[run.name]]]:
            if not self.failures(self._names[place]):
                yield self.runs[self._names[place]]

    def failures(self, name: str) -> list[TrialRow]:
        """The failed attempts that count."""
        first = self.retried.get(name, 0)
        return [trial for number, trial in self._trials[name].items() if number >= first and is_failure(trial)]

    def read(self, trials: Iterable[TrialRow]) -> None:
        """Take in the trials that are new or have changed, by number."""
        for trial in trials:
            self.read_trials = max(self.read_trials, trial.number + 1)
            self.last_id = max(self.last_id, trial.trial_id)
            self.update(trial)

    def update(self, trial: TrialRow) -> None:
        """Take in one trial, new or changed."""
        if RUN not in trial.user_attrs:
            return
        if trial.state == TrialState.RUNNING:
            self.running_trials[trial.number] = trial
        else:
            self.running_trials.pop(trial.number, None)
        if run := self._find(trial):
            self._trials[run.name][trial.number] = trial
            self._classify(run.name)

    def close(self, number: int, state: TrialState, notes: Mapping[str, Any]) -> None:
        """Take in the end of a running trial: its state, and user attributes that it gets."""
        trial = self.running_trials[number]
        self.update(replace(trial, state=state, user_attrs={**trial.user_attrs, **notes}))

    def set_record(self, name: str, exists: bool) -> None:
        """State whether a run has a record. It holds until a later trial of the run leaves one."""
        self._records[name] = exists, self.read_trials
        self._classify(name)

    def has_trial_of_record(self, name: str) -> bool:
        """Whether a trial says that the run has a record."""
        return any(map(has_record, self._trials[name].values()))

    def lies_elsewhere(self, name: str, folder: str | None) -> bool:
        """Whether the record of a run lies in another folder than the one with this token."""
        folders = {record_folder(trial) for trial in self._trials[name].values() if has_record(trial)}
        return folder is not None and bool(folders - {None, folder})

    def set_retried(self, retried: Mapping[str, int]) -> None:
        """State which failures no longer count: those of trials before the number given for the run."""
        if retried != self.retried:
            changed = {name for name in (*self.retried, *retried) if self.retried.get(name) != retried.get(name)}
            self.retried = dict(retried)
            for name in changed & self.runs.keys():
                self._classify(name)

    def _classify(self, name: str) -> None:
        """Put a run where it belongs: running, ended, failed or left."""
        trials = self._trials[name]
        running = next((trial for trial in trials.values() if trial.state == TrialState.RUNNING), None)
        failures = self.failures(name)
        for known in (self.running, self.failed):
            known.pop(name, None)
        was_ended = name in self.ended
        self.ended.discard(name)
        is_left = False
        if running:
            self.running[name] = running
        elif self._has_ended(name):
            self.ended.add(name)
            if not was_ended:
                self.newly_ended.append(name)
        elif len(failures) >= self.attempts:
            self.failed[name] = failures[-1].user_attrs.get(ERROR, "")
        else:
            is_left = True
        self._set_left(self._places[name], is_left)

    def _has_ended(self, name: str) -> bool:
        exists, since = self._records.get(name, (False, 0))
        return exists or any(number >= since and has_record(trial) for number, trial in self._trials[name].items())

    @functools.cached_property
    def _cohorts(self) -> list[bytes]:
        """By place: what the runs of one stack have in common."""
        return [cohort_key(run.config) for run in self.runs.values()]

    @functools.cached_property
    def _left_by_cohort(self) -> defaultdict[bytes, list[int]]:
        """The places of the runs left to train, by cohort. Made at its first use: a sweep without stacks needs none."""
        places: defaultdict[bytes, list[int]] = defaultdict(list)
        for place in self._left:
            places[self._cohorts[place]].append(place)
        return places

    def _set_left(self, place: int, is_left: bool) -> None:
        at = bisect.bisect_left(self._left, place)
        if is_left == (self._left[at : at + 1] == [place]):
            return
        lists = [self._left]
        if "_left_by_cohort" in vars(self):
            lists.append(self._left_by_cohort[self._cohorts[place]])
        for places in lists:
            if is_left:
                bisect.insort(places, place)
            else:
                del places[bisect.bisect_left(places, place)]
