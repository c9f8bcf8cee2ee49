"""How Optuna chooses the settings of a trial, and when it stops one early."""

import warnings
from collections.abc import Container
from typing import Any, cast

import optuna
from optuna.trial import FrozenTrial, Trial, TrialState

from experiments.config import SETTINGS
from experiments.tuned import Range

NUMBER = "number"  # user attribute of Optuna's trial: the trial of the tuning, which an interrupted one shares
REDUCTION = 3  # a rung of the pruner keeps about a third of the trials; rungs: a ninth and a third of the epochs
LAST_RUNG = 0.5  # of the epochs: a later rung would stop trials that are almost finished, and could be the best
FIRST_RUNG = 3  # epochs that every trial trains at least


def make_sampler(name: str, number: int) -> optuna.samplers.BaseSampler:
    """A sampler for the trial with this number. Interruptions do not change its values, but for one: a kill within the
    milliseconds in which a trial of "qmc" gets them.

    All variants get the same random numbers.
    """
    if name == "random":
        return optuna.samplers.RandomSampler(seed=number)
    if name == "qmc":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return optuna.samplers.QMCSampler(scramble=True, seed=0)
    return optuna.samplers.TPESampler(seed=number)


def make_pruner(name: str, epochs: int) -> optuna.pruners.BasePruner:
    """The pruner of trials of so many epochs."""
    first = max(FIRST_RUNG, epochs // REDUCTION**2)
    if name == "halving":
        return _Halving(min_resource=first, reduction_factor=REDUCTION)
    if name == "hyperband" and epochs >= first:
        return optuna.pruners.HyperbandPruner(min_resource=first, max_resource=epochs, reduction_factor=REDUCTION)
    return optuna.pruners.NopPruner()


class _Halving(optuna.pruners.SuccessiveHalvingPruner):
    """Successive halving among the trials of a tuning: one that lost its driver is there again, as another trial."""

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        return super().prune(cast(optuna.Study, _WithoutFailed(study)), trial)


class _WithoutFailed:
    """A study of Optuna without its failed trials."""

    def __init__(self, study: optuna.Study) -> None:
        self._study = study

    def __getattr__(self, name: str) -> Any:
        return getattr(self._study, name)

    def get_trials(self, deepcopy: bool = True, states: Container[TrialState] | None = None) -> list[FrozenTrial]:
        return [trial for trial in self._study.get_trials(deepcopy, states) if trial.state != TrialState.FAIL]


def suggest(trial: Trial, path: str, tried: Range) -> Any:
    """The value of a setting in a trial, which Optuna stores."""
    if tried.choices:
        return trial.suggest_categorical(path, tried.choices)
    low, high = tried.ends
    if SETTINGS[path].annotation is int:
        return trial.suggest_int(path, int(low), int(high), log=tried.log)
    return trial.suggest_float(path, low, high, log=tried.log)
