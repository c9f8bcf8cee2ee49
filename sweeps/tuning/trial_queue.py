"""The queue of a tuning: a trial is a run whose settings a sampler of Optuna chooses. Each variant has an Optuna study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import optuna
from optuna.trial import FrozenTrial, Trial, TrialState

from experiments.errors import UserError
from experiments.metric import Metric
from experiments.runs import record
from experiments.tuned import TunedTrial
from sweeps.queue.optuna_study import open_study
from sweeps.queue.process import ProcessInfo
from sweeps.queue.queue import Assignment, QueueState
from sweeps.queue.storage import QueueStorage, exclusive
from sweeps.queue.trials import ATTEMPTS, PROCESS, RUN, SEED, STATUS, is_assigned, stored_process, sweep_of, worker_of
from sweeps.tuning.sampling import LAST_RUNG, make_pruner, make_sampler, suggest
from sweeps.tuning.tuning_plan import OBJECTIVE, RUNS, TuningPlan, rounded

# User attributes of a trial
FAILURES, PRUNED = "failures", "prune"  # errors of the attempts at its run, and whether it is pruned
RUNS_ENDED, RUNS_DROPPED = "ended", "dropped"  # its runs with a record: name -> `RESULT`; names of those not to train
RESULT = (STATUS, "epochs", "val/acc", "val/loss")  # of a trial that has ended


class TrialQueue:
    """The trials of all variants. A `WorkerPool` gets them here, as it gets the runs of a study from `Queue`.

    A trial belongs to a worker while that worker or its sweep is alive. Then another worker continues it from the last
    epoch in its folder: the number of a trial and its settings, which Optuna stores, determine its runs.

    The runs of a trial, one for each seed, are trained one after another, and any worker trains the next one. The first that
    does not finish ends the trial. Only the first is compared with other trials and may be pruned.
    """

    def __init__(self, plan: TuningPlan, study_dir: Path, sweep: ProcessInfo, storage: QueueStorage) -> None:
        self.plan, self.dir, self.sweep, self.store = plan, study_dir / RUNS, sweep, storage
        self.storage = storage.rdb
        self.variants = {variant.variant: variant for variant in plan.variants}
        self.studies: dict[str, optuna.Study] = {}
        self.trials: dict[str, list[FrozenTrial]] = {}  # variant -> its trials by number, as last read
        self.left = 0  # trials to assign, as last read
        self.cancelled = False  # `vit-sweep cancel` stops the runs of a study only
        self._load()

    @exclusive
    def _load(self) -> None:
        for label, variant in self.variants.items():
            pruner = make_pruner(self.plan.pruner, variant.config.train.epochs)
            self.studies[label] = open_study(self.store, self.plan.name(variant), Metric(OBJECTIVE), pruner)
        self._read()
        made = max(map(len, self.trials.values()))
        if made > self.plan.trials:
            raise UserError(
                f"--trials: {self.plan.trials} is not allowed: there are {made} trials of a variant already"
            )

    @exclusive
    def reconcile(self) -> QueueState:
        """Learn what other processes have done."""
        self._read()
        return self._state

    refresh = reconcile

    def _read(self) -> None:
        self.left, self._state = 0, QueueState([], {}, [], {})
        for label, study in self.studies.items():
            self.trials[label] = study.get_trials(deepcopy=False)
            self.left += max(self.plan.trials - len(self.trials[label]), 0)
            for trial in self.trials[label]:
                if trial.state.is_finished() and RUN not in trial.user_attrs:
                    where = f"{self.store.url}: trial {trial.number} of the Optuna study {study.study_name!r}"
                    raise UserError(f"{where} is of another program; choose another --out, or delete that Optuna study")
                self._state.ended.extend(trial.user_attrs.get(RUNS_ENDED, ()))
                self._state.dropped.extend(trial.user_attrs.get(RUNS_DROPPED, ()))
                if trial.state == TrialState.FAIL:
                    self._state.failed[trial.user_attrs[RUN]] = trial.user_attrs[FAILURES][-1]
                elif trial.state.is_finished():
                    continue
                elif is_assigned(trial, self.store.silence):
                    self._state.running[trial.user_attrs[RUN]] = worker_of(trial)
                else:
                    self.left += 1

    def state(self) -> QueueState:
        """The runs of the trials that have ended or are in training, as last read. Those that are left have no names yet."""
        return self._state

    @exclusive
    def assign(self, process: ProcessInfo, max_runs: int = 1) -> list[Assignment]:
        """Assign a trial to a worker: of the variant with the fewest, one whose worker is dead, else a new one.

        A trial of this worker is assigned again: it has none in training, so the answer was lost with the connection.
        """
        self._read()
        for label, trials in sorted(self.trials.items(), key=lambda item: len(item[1])):
            running = [trial for trial in trials if trial.state == TrialState.RUNNING]
            free = [t.number for t in running if not is_assigned(t, self.store.silence) or worker_of(t) == process]
            if free or len(trials) < self.plan.trials:
                return [self._start(label, free[0] if free else self.studies[label].ask().number, process)]
        return []

    def _start(self, label: str, number: int, process: ProcessInfo) -> Assignment:
        """Assign a trial. It gets its settings, unless a process that died has given it some of them."""
        study, trial_id = self.studies[label], self._trial_id(label, number)
        trial = Trial(study, trial_id)
        study.sampler = make_sampler(self.plan.sampler, number)
        settings = {path: suggest(trial, path, tried) for path, tried in self.plan.space.items()}
        runs, ended = self.plan.trial(self.variants[label], number, settings), trial.user_attrs.get(RUNS_ENDED, {})
        run = next((run for run in runs if ended.get(run.name, {}).get(STATUS) != "finished"), runs[-1])
        assignment = Assignment(run, trial_id, number, process)
        for name, value in ((RUN, run.name), (SEED, runs[0].seed), (PROCESS, self._beat(assignment))):
            trial.set_user_attr(name, value)
        self._read()
        return assignment

    @exclusive
    def report(self, assignment: Assignment, row: Mapping[str, float]) -> bool:
        """Store the objective after an epoch. Returns whether the trial is pruned."""
        trial_id, run, epoch = assignment.trial_id, assignment.run, int(row["epoch"])
        trial = self.storage.get_trial(trial_id)
        if not self._is_ours(trial):
            return False  # `heartbeat` finds that out too
        is_first = run.seed == trial.user_attrs[SEED]
        before = 0 if is_first else sum(ended["epochs"] for ended in trial.user_attrs[RUNS_ENDED].values())
        if before + epoch not in trial.intermediate_values:
            self.storage.set_trial_intermediate_value(trial_id, before + epoch, row[OBJECTIVE])
            trial = self.storage.get_trial(trial_id)
        if epoch == run.config.train.epochs or not is_first:
            return False
        study, may_end = self.studies[run.variant], epoch <= LAST_RUNG * run.config.train.epochs
        if trial.user_attrs.get(PRUNED) or (may_end and study.pruner.prune(study, trial)):
            self.storage.set_trial_user_attr(trial_id, PRUNED, True)  # before the worker hears it: decided once
            return True
        return False

    @exclusive
    def heartbeat(self, assignments: Sequence[Assignment]) -> list[Assignment]:
        """Tell other machines that these trials are in training. Returns those that another process has taken over."""
        lost = []
        for assignment in assignments:
            if self._is_ours(self.storage.get_trial(assignment.trial_id)):
                self.storage.set_trial_user_attr(assignment.trial_id, PROCESS, self._beat(assignment))
            else:
                lost.append(assignment)
        return lost

    @exclusive
    def settle(self, assignment: Assignment, reason: str = "failed", error: str = "") -> str:
        """Close an assignment. Returns the status in the record; without a record, `reason`, or "taken over" if another
        process trains the trial.

        `reason` is "failed", which counts as an attempt, or "interrupted", which does not. The trial is then tried again.
        """
        trial_id = assignment.trial_id
        before = self.trials[assignment.run.variant][assignment.number]  # a lost connection repeats what follows
        failures = [*before.user_attrs.get(FAILURES, []), error]
        trial = self.storage.get_trial(trial_id)
        if not self._is_ours(trial):
            self._read()
            is_stored = not trial.user_attrs.get(PROCESS) and trial.user_attrs.get(FAILURES) == failures
            ended = trial.user_attrs.get(RUNS_ENDED, {}).get(assignment.run.name, {})
            return reason if is_stored else str(ended.get(STATUS, "taken over"))
        if summary := record.read_ended(self.dir, assignment.run):
            reason = summary["status"]
            self._end_run(assignment, trial, summary)
        else:
            if reason == "failed":
                self.storage.set_trial_user_attr(trial_id, FAILURES, failures)
            self.storage.set_trial_user_attr(trial_id, PROCESS, None)
            if reason == "failed" and len(failures) >= ATTEMPTS:
                self._end(assignment, {STATUS: reason, "epochs": trial.last_step or 0})
        self._read()
        return reason

    def _end_run(self, assignment: Assignment, trial: FrozenTrial, summary: Mapping[str, Any]) -> None:
        """Note how a run has ended. Free its trial for the next seed, or end it with the means over its seeds."""
        status = summary[STATUS]
        result = {name: summary[name] for name in RESULT if status != "diverged" or not name.startswith("val/")}
        ended = {**trial.user_attrs.get(RUNS_ENDED, {}), assignment.run.name: {SEED: assignment.run.seed, **result}}
        self.storage.set_trial_user_attr(assignment.trial_id, RUNS_ENDED, ended)
        if status == "finished" and len(ended) < self.plan.seeds:
            self.storage.set_trial_user_attr(assignment.trial_id, FAILURES, [])
            self.storage.set_trial_user_attr(assignment.trial_id, PROCESS, None)
            return
        epochs = sum(run["epochs"] for run in ended.values())
        means = {name: fmean(run[name] for run in ended.values()) for name in result if name.startswith("val/")}
        self._end(assignment, {STATUS: status, "epochs": epochs, **means})

    def _end(self, assignment: Assignment, result: Mapping[str, Any]) -> None:
        """End a trial in Optuna. A pruned or diverged one keeps the last value that was reported."""
        trial = self.storage.get_trial(assignment.trial_id)
        runs = self.plan.trial(self.variants[assignment.run.variant], assignment.number, trial.params)
        dropped = [run.name for run in runs if run.seed > assignment.run.seed]
        for name, value in {RUNS_DROPPED: dropped, **dict.fromkeys(RESULT), **result}.items():
            self.storage.set_trial_user_attr(assignment.trial_id, name, value)
        status = result[STATUS]
        state = {"finished": TrialState.COMPLETE, "failed": TrialState.FAIL}.get(status, TrialState.PRUNED)
        value = result[OBJECTIVE] if status == "finished" else None
        self.studies[assignment.run.variant].tell(assignment.number, value, state)

    @exclusive
    def release(self) -> None:
        """Give up the trials of this sweep. The next process continues them."""
        self._read()
        for label, trials in self.trials.items():
            for trial in filter(self._is_ours, trials):
                self.storage.set_trial_user_attr(self._trial_id(label, trial.number), PROCESS, None)

    @exclusive
    def rows(self) -> dict[str, list[TunedTrial]]:
        """Variant -> its trials that have ended, by number."""
        self._read()
        return {
            label: [self._row(label, trial) for trial in trials if trial.state.is_finished()]
            for label, trials in self.trials.items()
        }

    def _trial_id(self, label: str, number: int) -> int:
        study_id = self.storage.get_study_id_from_name(self.studies[label].study_name)
        return self.storage.get_trial_id_from_study_id_trial_number(study_id, number)

    def _beat(self, assignment: Assignment) -> dict[str, Any]:
        return stored_process(assignment.process, self.sweep, self.store.now())

    def _is_ours(self, trial: FrozenTrial) -> bool:
        """Whether a worker of this sweep trains the trial."""
        is_held = trial.state == TrialState.RUNNING and trial.user_attrs.get(PROCESS)
        return bool(is_held) and sweep_of(trial) == self.sweep

    def _row(self, label: str, trial: FrozenTrial) -> TunedTrial:
        attrs, settings = trial.user_attrs, rounded(trial.params)
        result = {name: attrs.get(name) for name in RESULT}
        if self.plan.seeds > 1:
            result["accuracies"] = {run[SEED]: run.get(OBJECTIVE) for run in attrs.get(RUNS_ENDED, {}).values()}
        return TunedTrial(variant=label, trial=trial.number, seed=attrs[SEED], settings=settings, **result)
