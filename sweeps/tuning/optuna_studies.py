"""Optuna's studies of a tuning: their journal, their spread points and their pruner.

The journal is JSON lines in the folder of the trials. One process writes it, the only driver.
"""

import copy
import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState, create_trial

from experiments.config import SETTINGS
from experiments.errors import UserError
from experiments.files import UNUSABLE, open_own
from experiments.runs.record import CONFIG
from experiments.tuned import Range
from sweeps.tuning.tuning_plan import JOURNAL

NUMBER = "number"  # user attribute of Optuna's trial: the trial of the tuning, which an interrupted one shares
RUN = "run"  # user attribute: its first run. It is set last, so a trial that has it has all settings
BUDGET = "trials"  # user attribute of Optuna's study: the trials that its variant gets
ENDED = (TrialState.COMPLETE, TrialState.PRUNED)
REDUCTION = 3  # a rung of the pruner keeps about a third of the trials; rungs: a ninth and a third of the epochs
LAST_RUNG = 0.5  # of the epochs: a later rung would stop trials that are almost finished, and could be the best
FIRST_RUNG = 3  # epochs that every trial trains at least

Distributions = Mapping[str, BaseDistribution]


def open_journal(folder: Path) -> JournalStorage:
    """The journal in this folder, of which the caller is the only driver. What a dead one has left is removed: its
    lock, and half a line. Raises `UserError` where the file cannot be used, or is missing beside trained trials.
    """
    path = folder / JOURNAL
    with os.fdopen(open_own(path), "r+b") as file:
        body = file.read()
        if not body and any(folder.glob(f"*/{CONFIG}")):
            raise UserError(f"{path}: is missing, and there are trials beside it; restore it, or give another --out")
        file.truncate(body.rfind(b"\n") + 1)
    path.with_name(f"{JOURNAL}.lock").unlink(missing_ok=True)
    return read_journal(path)


def read_journal(path: Path) -> JournalStorage:
    """The journal, to be read. Raises `UserError` where it is none."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        return JournalStorage(JournalFileBackend(str(path)))
    except (*UNUSABLE, AttributeError, AssertionError, optuna.exceptions.OptunaError) as error:
        raise UserError(f"{path}: is no journal of Optuna: {error!r}") from error


def trials_in(storage: JournalStorage, name: str) -> dict[int, FrozenTrial]:
    """The trials of Optuna's study of this name by their numbers in the tuning; none where there is no such study."""
    if name not in optuna.get_all_study_names(storage):
        return {}
    study = optuna.load_study(storage=storage, study_name=name)
    return dict(sorted((trial.user_attrs[NUMBER], trial) for trial in _known(study)))


def _known(study: optuna.Study) -> Iterator[FrozenTrial]:
    return (trial for trial in study.get_trials(deepcopy=False) if RUN in trial.user_attrs)


def open_study(storage: JournalStorage, name: str, pruner: optuna.pruners.BasePruner) -> optuna.Study:
    """Optuna's study of a name, which is made if it does not exist. Its trials that a driver left open are ended.

    A trial that waits would be handed out for another run; one that is running has lost its driver.
    """
    study = optuna.create_study(
        storage=storage, study_name=name, direction="maximize", pruner=pruner, load_if_exists=True
    )
    for trial in study.get_trials(deepcopy=False, states=[TrialState.RUNNING]):
        study.tell(trial.number, state=TrialState.FAIL)
    while study.get_trials(deepcopy=False, states=[TrialState.WAITING]):
        study.tell(study.ask(), state=TrialState.FAIL)
    return study


def tuning_status(path: Path) -> list[dict[str, object]]:
    """For each variant of the tunings in a journal: its trials that are done, pruned and left, and the best accuracy.

    Raises `UserError` where it is no journal.
    """
    storage, rows = read_journal(path), []
    for name in optuna.get_all_study_names(storage):
        study = optuna.load_study(storage=storage, study_name=name)
        ended = {trial.user_attrs[NUMBER]: trial for trial in _known(study) if trial.state in ENDED}
        done = [trial.value or 0.0 for trial in ended.values() if trial.state == TrialState.COMPLETE]
        left, best = int(study.user_attrs.get(BUDGET, 0)) - len(ended), f"{100 * max(done):.1f} %" if done else ""
        counts = {"tuning": name, "trials done": len(done), "pruned": len(ended) - len(done), "left": left}
        rows.append({**counts, "best val/acc": best})
    return rows


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
    return optuna.pruners.NopPruner()


class _Halving(optuna.pruners.SuccessiveHalvingPruner):
    """Successive halving among the trials of a tuning: one that lost its driver is there again, as another trial."""

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        others: Any = copy.copy(study)
        others.get_trials = lambda **of: [one for one in study.get_trials(**of) if one.state != TrialState.FAIL]
        return super().prune(others, trial)


def distribution(path: str, tried: Range) -> BaseDistribution:
    """What Optuna draws a setting from."""
    if tried.choices:
        return CategoricalDistribution(tried.choices)
    low, high = tried.ends
    if SETTINGS[path].annotation is int:
        return IntDistribution(int(low), int(high), log=tried.log)
    return FloatDistribution(low, high, log=tried.log)
