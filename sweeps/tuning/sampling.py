"""How Optuna chooses the settings of a trial, and when it stops one early."""

import warnings
from collections.abc import Container, Mapping
from typing import Any, cast

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from experiments.config import SETTINGS
from experiments.tuned import Range

REDUCTION = 3  # a rung of the pruner keeps about a third of the trials; rungs: a ninth and a third of the epochs
LAST_RUNG = 0.5  # of the epochs: a later rung would stop trials that are almost finished, and could be the best
FIRST_RUNG = 3  # epochs that every trial trains at least

Distributions = Mapping[str, BaseDistribution]


def make_sampler(name: str, number: int) -> optuna.samplers.BaseSampler:
    """A sampler for the trial with this number. Interruptions do not change its values.

    All variants get the same random numbers.
    """
    return (optuna.samplers.TPESampler if name == "tpe" else optuna.samplers.RandomSampler)(seed=number)


def qmc_point(distributions: Distributions, number: int) -> dict[str, Any]:
    """The settings of the trial with this number by Optuna's QMC sampler: a function of the number alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.QMCSampler(scramble=True, seed=0)
    study = optuna.create_study(sampler=sampler)
    first = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0)).ask(dict(distributions))
    # The sampler knows the settings from a trial that has ended.
    study.add_trial(create_trial(params=first.params, distributions=dict(distributions), value=0.0))
    return [study.ask(dict(distributions)).params for _ in range(number + 1)][-1]


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


def distribution(path: str, tried: Range) -> BaseDistribution:
    """What Optuna draws a setting from."""
    if tried.choices:
        return CategoricalDistribution(tried.choices)
    low, high = tried.ends
    if SETTINGS[path].annotation is int:
        return IntDistribution(int(low), int(high), log=tried.log)
    return FloatDistribution(low, high, log=tried.log)
