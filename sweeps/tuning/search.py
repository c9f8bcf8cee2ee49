"""The trials of one variant: an Optuna study in the storage of the sweep. Every change is made under the storage's lock.

A running trial is assigned to a process. If that process is dead, another process takes the trial over and continues from
the last epoch in its folder: the number of a trial and its parameters determine its run.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import optuna
from optuna.distributions import CategoricalDistribution, IntDistribution
from optuna.trial import FrozenTrial, Trial, TrialState

from experiments.errors import TakenOver
from experiments.study import RunSpec
from experiments.tuned import Range, TunedTrial
from sweeps.queue.process import ProcessInfo, is_alive
from sweeps.queue.storage import QueueStorage, exclusive
from sweeps.tuning.space import distribution_of
from sweeps.tuning.tuning_plan import OBJECTIVE, TuningPlan, rounded

REDUCTION = 3  # a rung of the pruner keeps about a third of the trials; rungs: a ninth and a third of the epochs
LAST_RUNG = 0.5  # of the epochs: a later rung would stop trials that are almost finished, and could be the best
FIRST_RUNG = 3  # epochs that every trial trains at least
ATTEMPTS = 3  # at a trial; then it counts as failed
PROCESS, STATUS, FAILURES, PRUNE = "process", "status", "failures", "prune"  # user attributes of a trial


@dataclass(frozen=True)
class AssignedTrial:
    """A trial that this process trains."""

    search: Search
    number: int
    run: RunSpec


class Search:
    """The trials of one variant."""

    def __init__(self, plan: TuningPlan, variant: RunSpec, store: QueueStorage, process: ProcessInfo) -> None:
        self.plan, self.variant, self.store, self.process = plan, variant, store, process
        self.epochs = variant.config.train.epochs
        self.study = self._load()

    @exclusive
    def _load(self) -> optuna.Study:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        study = optuna.create_study(
            storage=self.store.rdb,
            study_name=self.store.study_name(self.plan.name(self.variant)),
            direction="maximize",
            pruner=_pruner(self.plan.pruner, self.epochs),
            load_if_exists=True,
        )
        if study.metric_names != [OBJECTIVE]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                study.set_metric_names([OBJECTIVE])
        return study

    @exclusive
    def counts(self) -> tuple[int, int]:
        """How many trials have ended, and how many are running."""
        trials = self._trials()
        running = sum(trial.state == TrialState.RUNNING for trial in trials)
        return sum(trial.state.is_finished() for trial in trials), running

    @exclusive
    def next(self) -> AssignedTrial | None:
        """A trial to train: one whose process is dead, else a new one; None if all trials of the budget are assigned."""
        trials = self._trials()
        for trial in trials:
            if trial.state == TrialState.RUNNING and not self._is_assigned(trial):
                return self._assign(trial.number)
        return self._assign(self.study.ask().number) if len(trials) < self.plan.trials else None

    @exclusive
    def report(self, assignment: AssignedTrial, row: Mapping[str, float]) -> bool:
        """Report an epoch. Returns whether the trial is pruned. Raises `TakenOver` if another process has taken it over."""
        trial, epoch = self._trial(assignment), int(row["epoch"])
        if epoch not in self._frozen(assignment).intermediate_values:
            trial.report(row[OBJECTIVE], epoch)
        may_end = epoch <= LAST_RUNG * self.epochs
        if epoch < self.epochs and (trial.user_attrs.get(PRUNE) or (may_end and trial.should_prune())):
            trial.set_user_attr(PRUNE, True)  # stored before the worker gets it, so that the decision is made once
            return True
        return False

    @exclusive
    def heartbeat(self, assignment: AssignedTrial) -> None:
        """Tell other machines that this trial is in training. Raises `TakenOver`."""
        self._trial(assignment).set_user_attr(PROCESS, self._stored())

    @exclusive
    def settle(self, assignment: AssignedTrial, summary: Mapping[str, Any]) -> None:
        """Close a trial whose run has ended."""
        trial, status = self._trial(assignment), summary["status"]
        for name in (STATUS, "epochs", "val/acc", "val/loss"):
            trial.set_user_attr(name, None if status == "diverged" and name.startswith("val/") else summary[name])
        if status == "finished":
            self.study.tell(assignment.number, summary[OBJECTIVE])
        else:  # in Optuna a pruned or diverged trial keeps the last value that was reported
            self.study.tell(assignment.number, state=TrialState.PRUNED)

    @exclusive
    def fail(self, assignment: AssignedTrial, reason: str) -> bool:
        """Record a failed attempt; the trial is then tried again. Returns whether this was the last attempt."""
        trial = self._trial(assignment)
        failures = [*trial.user_attrs.get(FAILURES, []), reason]
        trial.set_user_attr(FAILURES, failures)
        trial.set_user_attr(PROCESS, None)
        if len(failures) < ATTEMPTS:
            return False
        trial.set_user_attr("epochs", self._frozen(assignment).last_step or 0)
        trial.set_user_attr(STATUS, "failed")
        self.study.tell(assignment.number, state=TrialState.FAIL)
        return True

    @exclusive
    def release(self, assignment: AssignedTrial) -> None:
        """Give up a trial, so that the next process continues it."""
        self._trial(assignment).set_user_attr(PROCESS, None)

    @exclusive
    def rows(self) -> list[TunedTrial]:
        """The trials that have ended, by number."""
        return [self._row(trial) for trial in self._trials() if trial.state.is_finished()]

    def _trials(self) -> list[FrozenTrial]:
        return self.study.get_trials(deepcopy=False)

    def _frozen(self, assignment: AssignedTrial) -> FrozenTrial:
        return self.study.get_trials(deepcopy=False)[assignment.number]

    def _assign(self, number: int) -> AssignedTrial:
        trial = self._open(number)
        self.study.sampler = _sampler(self.plan.sampler, number)
        run = self.plan.trial(
            self.variant, number, {path: _suggest(trial, path, tried) for path, tried in self.plan.space.items()}
        )
        for name, value in ((PROCESS, self._stored()), ("run", run.name), ("seed", run.seed)):
            trial.set_user_attr(name, value)
        return AssignedTrial(self, number, run)

    def _open(self, number: int) -> Trial:
        """Optuna's object for a running trial. It is made anew each time, because another process may continue a trial."""
        study_id = self.store.rdb.get_study_id_from_name(self.study.study_name)
        trial_id = self.store.rdb.get_trial_id_from_study_id_trial_number(study_id, number)
        return Trial(self.study, trial_id)

    def _trial(self, assignment: AssignedTrial) -> Trial:
        frozen = self._frozen(assignment)
        if frozen.state != TrialState.RUNNING or not self._is_ours(frozen):
            raise TakenOver(f"{assignment.run.name}: another process has taken it over")
        return self._open(assignment.number)

    def _stored(self) -> dict[str, Any]:
        return asdict(replace(self.process, heartbeat=self.store.now()))

    def _is_ours(self, trial: FrozenTrial) -> bool:
        stored: dict[str, Any] | None = trial.user_attrs.get(PROCESS)
        own = asdict(self.process)
        return stored is not None and all(stored[name] == own[name] for name in own if name != "heartbeat")

    def _is_assigned(self, trial: FrozenTrial) -> bool:
        """Whether the process of a running trial is alive."""
        stored: dict[str, Any] | None = trial.user_attrs.get(PROCESS)
        return stored is not None and is_alive(ProcessInfo(**stored), self.store.silence)

    def _row(self, trial: FrozenTrial) -> TunedTrial:
        attrs = trial.user_attrs
        run = self.plan.trial(self.variant, trial.number, trial.params)
        return TunedTrial(
            variant=self.variant.variant,
            trial=trial.number,
            seed=run.seed,
            status=attrs[STATUS],
            epochs=attrs["epochs"],
            val_acc=attrs.get("val/acc"),
            val_loss=attrs.get("val/loss"),
            settings=rounded(trial.params),
        )


def _suggest(trial: Trial, path: str, tried: Range) -> Any:
    """The value of a setting in a trial. Optuna stores it, so a trial that was interrupted keeps its value."""
    distribution = distribution_of(path, tried)
    if isinstance(distribution, CategoricalDistribution):
        return trial.suggest_categorical(path, distribution.choices)
    if isinstance(distribution, IntDistribution):
        return trial.suggest_int(path, distribution.low, distribution.high, log=distribution.log)
    return trial.suggest_float(path, distribution.low, distribution.high, log=distribution.log)


def _pruner(name: str, epochs: int) -> optuna.pruners.BasePruner:
    first = max(FIRST_RUNG, epochs // REDUCTION**2)
    if name == "halving":
        return optuna.pruners.SuccessiveHalvingPruner(min_resource=first, reduction_factor=REDUCTION)
    if name == "hyperband" and epochs >= first:
        return optuna.pruners.HyperbandPruner(min_resource=first, max_resource=epochs, reduction_factor=REDUCTION)
    return optuna.pruners.NopPruner()


def _sampler(name: str, number: int) -> optuna.samplers.BaseSampler:
    """A sampler for the trial with this number. Interruptions do not change its values.

    All variants get the same random numbers.
    """
    if name == "random":
        return optuna.samplers.RandomSampler(seed=number)
    if name == "qmc":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return optuna.samplers.QMCSampler(scramble=True, seed=0)
    return optuna.samplers.TPESampler(seed=number)
