"""How Optuna chooses the settings of a trial, and when it stops one early."""

import warnings
from typing import Any

import optuna
from optuna.trial import Trial

from experiments.config import SETTINGS
from experiments.tuned import Range

REDUCTION = 3  # a rung of the pruner keeps about a third of the trials; rungs: a ninth and a third of the epochs
LAST_RUNG = 0.5  # of the epochs: a later rung would stop trials that are almost finished, and could be the best
FIRST_RUNG = 3  # epochs that every trial trains at least


def make_sampler(name: str, number: int) -> optuna.samplers.BaseSampler:
    """A sampler for the trial with this number. Interruptions do not change its values, but for one: a kill within the
    milliseconds in which the first trials of "qmc" get theirs.

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
        return optuna.pruners.SuccessiveHalvingPruner(min_resource=first, reduction_factor=REDUCTION)
    if name == "hyperband" and epochs >= first:
        return optuna.pruners.HyperbandPruner(min_resource=first, max_resource=epochs, reduction_factor=REDUCTION)
    return optuna.pruners.NopPruner()


def suggest(trial: Trial, path: str, tried: Range) -> Any:
    """The value of a setting in a trial. Optuna stores it, so a trial that was interrupted keeps its value."""
    if path in trial.params and path not in trial.relative_params:  # later values depend on the same random numbers
        study, drawn = trial.study, trial.study.get_trials(deepcopy=False)[trial.number]
        study.sampler.sample_independent(study, drawn, path, trial.distributions[path])
    if tried.choices:
        return trial.suggest_categorical(path, tried.choices)
    low, high = tried.ends
    if SETTINGS[path].annotation is int:
        return trial.suggest_int(path, int(low), int(high), log=tried.log)
    return trial.suggest_float(path, low, high, log=tried.log)
