"""The queue of a tuning: a queue of runs whose settings a sampler of Optuna proposes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from optuna.trial import FrozenTrial, Trial, TrialState

from experiments.errors import UserError
from experiments.metric import Metric
from experiments.runs.record import read_ended
from experiments.study import RunSpec, StudyPlan
from experiments.tuned import TunedTrial
from sweeps.queue.optuna_study import open_study
from sweeps.queue.process import ProcessInfo
from sweeps.queue.queue import Assignment, Queue
from sweeps.queue.storage import QueueStorage, exclusive
from sweeps.queue.trials import RUN, SEED, STATUS
from sweeps.tuning.sampling import LAST_RUNG, make_pruner, make_sampler, suggest
from sweeps.tuning.tuning_plan import OBJECTIVE, RUNS, TuningPlan, rounded

# User attributes of a trial
FAILURES, PRUNED = "failures", "prune"  # the error of the run that failed for good, and whether its run is pruned
RUNS_ENDED, RUNS_DROPPED = "ended", "dropped"  # its runs with a record: name -> `RESULT`; names of those not to train
RESULT = (STATUS, "epochs", "val/acc", "val/loss")  # of a trial that has ended


class TuningQueue(Queue):
    """The runs of the trials that have not ended.

    Each variant has an Optuna study, which holds the settings of its trials. A trial has a run for each seed, which are
    trained one after another. The first that does not finish ends the trial. Only the first is compared with other
    trials and may be pruned. The number of a trial and its settings determine its runs, so their records tell what has
    become of it.
    """

    def __init__(self, plan: TuningPlan, study_dir: Path, sweep: ProcessInfo, storage: QueueStorage) -> None:
        self.plan = plan
        self.variants = plan.study.variants
        self.trials: dict[str, list[FrozenTrial]] = {}  # variant -> its trials by number, as last read
        self._trial_of: dict[str, tuple[str, int, int]] = {}  # run -> variant, number of its trial, place in it
        queued = {"name": f"{plan.study.name} tuning", "metric": OBJECTIVE, "runs": []}
        super().__init__(plan.study.model_copy(update=queued), study_dir / RUNS, sweep, storage)

    @exclusive
    def _open(self, plan: StudyPlan) -> None:
        self.studies = {
            label: open_study(
                self.store,
                self.plan.name(variant),
                Metric(OBJECTIVE),
                make_pruner(self.plan.pruner, variant.config.train.epochs),
            )
            for label, variant in self.variants.items()
        }
        super()._open(plan)
        made = max(map(len, self.trials.values()))
        if made > self.plan.trials:
            raise UserError(
                f"--trials: {self.plan.trials} is not allowed: there are {made} trials of a variant already"
            )

    def _read(self) -> None:
        """Read the trials, and find the run of each that is to be trained next. End the trials without one."""
        self.runs = {}
        for label, study in self.studies.items():
            self.trials[label] = study.get_trials(deepcopy=False)
            for trial in list(self.trials[label]):
                if not trial.state.is_finished():
                    self._add_next_run(label, trial)
                elif RUN not in trial.user_attrs:
                    where = f"{self.store.url}: trial {trial.number} of the Optuna study {study.study_name!r}"
                    raise UserError(f"{where} is of another program; choose another --out, or delete that Optuna study")
        self._by_id = {run.run_id: run for run in self.runs.values()}
        super()._read()
        given_up = [(self.runs[name], error) for name, error in self.state.failed.items() if name in self.runs]
        for run, error in given_up:
            label, number, _ = self._trial_of[run.name]
            trial = self.trials[label][number]
            runs = self._runs_of(label, trial)
            result = {STATUS: "failed", "epochs": trial.last_step or 0, RUN: run.name, FAILURES: [error]}
            self._end(label, trial, runs, self._ended_runs(runs), result)
        if given_up:
            self._read()

    def _sort(self) -> None:
        """Find the state of each run. Those of trials that have ended are not in the queue any more."""
        super()._sort()
        for trial in (trial for trials in self.trials.values() for trial in trials if trial.state.is_finished()):
            self.state.ended.extend(trial.user_attrs.get(RUNS_ENDED, ()))
            self.state.dropped.extend(trial.user_attrs.get(RUNS_DROPPED, ()))
            if trial.state == TrialState.FAIL:
                self.state.failed[trial.user_attrs[RUN]] = trial.user_attrs[FAILURES][-1]

    def _add_next_run(self, label: str, trial: FrozenTrial) -> None:
        """Queue the first run of a trial that has no record. Where a run did not finish, or all did, end the trial."""
        runs = self._runs_of(label, trial)
        ended = self._ended_runs(runs)
        status = next((run[STATUS] for run in ended.values() if run[STATUS] != "finished"), "finished")
        if status == "finished" and len(ended) < len(runs):
            run = runs[len(ended)]
            self.runs[run.name], self._trial_of[run.name] = run, (label, trial.number, len(ended))
            return
        measured = [key for key in RESULT if status != "diverged" and key.startswith("val/")]
        means = {key: fmean(run[key] for run in ended.values()) for key in measured}
        epochs = sum(run["epochs"] for run in ended.values())
        self._end(label, trial, runs, ended, {STATUS: status, "epochs": epochs, **means})

    def _ended_runs(self, runs: Sequence[RunSpec]) -> dict[str, dict[str, Any]]:
        """Those of a trial's runs with a record, up to the first that did not finish: name -> its seed and `RESULT`."""
        ended: dict[str, dict[str, Any]] = {}
        for run in runs:
            summary = read_ended(self.dir, run)
            if summary is None:
                break
            result = {
                key: summary[key] for key in RESULT if summary[STATUS] != "diverged" or not key.startswith("val/")
            }
            ended[run.name] = {SEED: run.seed, **result}
            if summary[STATUS] != "finished":
                break
        return ended

    def _runs_of(self, label: str, trial: FrozenTrial) -> list[RunSpec]:
        """The runs of a trial. It gets its settings here, unless a process that died has given it some of them."""
        settings: Mapping[str, Any] = trial.params
        if len(settings) < len(self.plan.space) or RUN not in trial.user_attrs:
            study = self.studies[label]
            live = Trial(study, self._trial_id(label, trial.number))
            study.sampler = make_sampler(self.plan.sampler, trial.number)
            settings = {path: suggest(live, path, tried) for path, tried in self.plan.space.items()}
            first = self.plan.trial(self.variants[label], trial.number, settings)[0]
            live.set_user_attr(SEED, first.seed)
            live.set_user_attr(RUN, first.name)
        return self.plan.trial(self.variants[label], trial.number, settings)

    def _end(
        self,
        label: str,
        trial: FrozenTrial,
        runs: Sequence[RunSpec],
        ended: Mapping[str, Mapping[str, Any]],
        result: Mapping[str, Any],
    ) -> None:
        """End a trial in Optuna. A pruned or diverged one keeps the last value that was reported."""
        status = result[STATUS]
        begun = len(ended) + (status == "failed")
        dropped = [run.name for run in runs[begun:]]
        attributes = {**dict.fromkeys(RESULT), **result, RUNS_ENDED: ended, RUNS_DROPPED: dropped}
        for name, value in attributes.items():
            self.store.rdb.set_trial_user_attr(self._trial_id(label, trial.number), name, value)
        state = {"finished": TrialState.COMPLETE, "failed": TrialState.FAIL}.get(status, TrialState.PRUNED)
        value = result[OBJECTIVE] if status == "finished" else None
        self.trials[label][trial.number] = self.studies[label].tell(trial.number, value, state)

    @property
    def left(self) -> int:
        """The number of runs and of trials to assign, as last read."""
        return len(self.state.waiting) + sum(self.plan.trials - len(trials) for trials in self.trials.values())

    def assign(self, process: ProcessInfo, max_runs: int = 1) -> list[Assignment]:
        """Assign a run to a worker: one that waits, else that of a new trial."""
        self._propose()
        return super().assign(process, 1)

    @exclusive
    def _propose(self) -> None:
        """Begin a trial of the variant with the fewest, if no run waits. Those of dead processes go first."""
        self.refresh()
        label = min(self.trials, key=lambda label: len(self.trials[label]))
        if not self.state.waiting and len(self.trials[label]) < self.plan.trials:
            self.studies[label].ask()
            self._read()

    @exclusive
    def report(self, assignment: Assignment, row: Mapping[str, float]) -> bool:
        """Store the objective after an epoch. Returns whether the run is pruned."""
        label, number, place = self._trial_of[assignment.run.name]
        epoch, epochs = int(row["epoch"]), assignment.run.config.train.epochs
        study, trial_id = self.studies[label], self._trial_id(label, number)
        trial = self.store.rdb.get_trial(trial_id)
        if trial.state.is_finished():
            return False  # another process has ended it; `heartbeat` finds that out too
        step = place * epochs + epoch
        if step not in trial.intermediate_values:
            self.store.rdb.set_trial_intermediate_value(trial_id, step, row[OBJECTIVE])
            trial = self.store.rdb.get_trial(trial_id)
        if place or epoch > LAST_RUNG * epochs:
            return False
        if trial.user_attrs.get(PRUNED) or study.pruner.prune(study, trial):
            self.store.rdb.set_trial_user_attr(trial_id, PRUNED, True)  # before the worker hears it: decided once
            return True
        return False

    @exclusive
    def rows(self) -> dict[str, list[TunedTrial]]:
        """Variant -> its trials that have ended, by number."""
        self._read()
        return {
            label: [self._row(label, trial) for trial in trials if trial.state.is_finished()]
            for label, trials in self.trials.items()
        }

    def _row(self, label: str, trial: FrozenTrial) -> TunedTrial:
        attrs, settings = trial.user_attrs, rounded(trial.params)
        result = {name: attrs.get(name) for name in RESULT}
        if self.plan.seeds > 1:
            result["accuracies"] = {run[SEED]: run.get(OBJECTIVE) for run in attrs.get(RUNS_ENDED, {}).values()}
        return TunedTrial(variant=label, trial=trial.number, seed=attrs[SEED], settings=settings, **result)

    def _trial_id(self, label: str, number: int) -> int:
        study_id = self.store.rdb.get_study_id_from_name(self.studies[label].study_name)
        return self.store.rdb.get_trial_id_from_study_id_trial_number(study_id, number)
