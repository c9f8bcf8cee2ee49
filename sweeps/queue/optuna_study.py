"""Optuna's study of a queue: made, loaded, and made again where the plan has changed since."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping

import optuna
from optuna.distributions import BaseDistribution
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from experiments.errors import UserError
from experiments.metric import Metric
from experiments.study import RunSpec
from sweeps.queue.storage import QueueStorage
from sweeps.queue.trials import RETRIED, VARIANT, RunFinder, Trial, is_assigned, new_trial

NOTE = "note"  # user attribute of the study, which dashboards show
TEXT = (
    "Each trial is one attempt at one run of an ablation study; its value is the run's validation metric at the end. "
    "The best trial is the best single run: a variant with a lucky seed. vit-report compares the variants. "
    'A trial that failed with the reason "interrupted" lost its worker; a later trial continued its run.'
)
IN_TRAINING = (
    "{}: another sweep is training this study with other levels, or with an earlier version; wait until it has ended"
)


def load_study(
    storage: BaseStorage,
    name: str,
    metric: Metric,
    find: RunFinder,
    distributions: Mapping[str, BaseDistribution],
    store: QueueStorage,
) -> optuna.Study:
    """Optuna's study. It is made again, with its finished trials, where they have other parameters: the study has gained
    a level or a factor, or an earlier version stored the seed as a parameter. Where the metric was changed to one of
    another direction, it is made again without trials. Raises `UserError` while another process trains its runs.
    `storage` is that of `store`, as `optuna.get_storage` wraps it.
    """
    study = _create(storage, name, metric)
    study_id = storage.get_study_id_from_name(name)
    _, rows = store.rdb.read_changes(study_id, 0, (), whole=True)
    running = any(row.state == TrialState.RUNNING and is_assigned(row, store.silence) for row in rows)
    outdated = any(is_renamed(row, find) for row in rows) or (
        not store.rdb.has_only(study_id, distributions)
        and any(trial.distributions != distributions for trial in study.get_trials(deepcopy=False))
    )
    if outdated and running:
        raise UserError(IN_TRAINING.format(name))
    turned = study.direction != _direction(metric)
    if outdated or (turned and not running):
        kept = [] if turned else _kept(study.get_trials(deepcopy=False), find)
        attributes = study.user_attrs
        optuna.delete_study(study_name=name, storage=storage)
        study = _create(storage, name, metric)
        for trial, run in kept:
            study.add_trial(_updated(trial, run, distributions))
        retried = {
            name: sum(trial.number < first for trial, _ in kept) for name, first in attributes.get(RETRIED, {}).items()
        }
        for key, value in {**attributes, **({RETRIED: retried} if retried else {})}.items():
            study.set_user_attr(key, value)
    if NOTE not in study.user_attrs:
        study.set_user_attr(NOTE, TEXT)
    if study.direction == _direction(metric) and study.metric_names != [metric]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            study.set_metric_names([metric])  # a reader must not take the values for the study's own metric
    return study


def _create(storage: BaseStorage, name: str, metric: Metric) -> optuna.Study:
    return optuna.create_study(
        storage=storage,
        study_name=name,
        direction=_direction(metric),
        pruner=optuna.pruners.NopPruner(),  # a variant that is stopped early has no final accuracy
        load_if_exists=True,
    )


def _direction(metric: Metric) -> StudyDirection:
    return StudyDirection.MINIMIZE if metric.lower_is_better else StudyDirection.MAXIMIZE


def is_renamed(trial: Trial, find: RunFinder) -> bool:
    """Whether the variant of a trial's run has another name now: the study has gained a level or a factor, or names."""
    run = find(trial)
    return run is not None and run.variant != trial.user_attrs[VARIANT]


def _kept(trials: Iterable[FrozenTrial], find: RunFinder) -> list[tuple[FrozenTrial, RunSpec]]:
    """The trials that have finished and are of a run of the plan, with this run.

    The others are not needed: a run without a record is trained again, and one with a record gets a trial.
    """
    found = ((trial, find(trial)) for trial in trials if trial.state.is_finished())
    return [(trial, run) for trial, run in found if run]


def _updated(trial: FrozenTrial, run: RunSpec, distributions: Mapping[str, BaseDistribution]) -> FrozenTrial:
    """A trial with the levels that its run has now."""
    copy = new_trial(run, distributions, trial.state, trial.value, trial.user_attrs)
    copy.intermediate_values = trial.intermediate_values
    copy.datetime_start, copy.datetime_complete = trial.datetime_start, trial.datetime_complete
    return copy
