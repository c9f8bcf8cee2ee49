"""Optuna's study of a queue: made, made again where the plan has changed since, or only read."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from experiments.metric import Metric
from experiments.study import StudyPlan
from sweeps.queue.folder_note import new_token, read_note
from sweeps.queue.storage import QueueStorage, open_storage
from sweeps.queue.trials import RETRIED, RUN_ID, factor_distributions, has_record, is_assigned, new_trial
from sweeps.queue.url import DATABASE, parse_url

TOKEN = "token"  # user attribute of the study: another one each time that it is made
NOTE = "note"  # user attribute of the study, which dashboards show
TEXT = (
    "Each trial is one attempt at one run of an ablation study; its value is the run's validation metric at the end. "
    "The best trial is the best single run: a variant with a lucky seed. vit-report compares the variants. "
    'A trial that failed with the reason "interrupted" lost its worker; a later trial continued its run.'
)


@dataclass(frozen=True)
class QueueView:
    """A queue at one moment, as a reader without the lock sees it: the trials, and the attributes of Optuna's study."""

    trials: list[FrozenTrial] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    now: float = 0.0  # by the queue's clock
    since: float = 0.0  # heartbeats before this time do not count: the database could not be reached
    folder: str | None = None  # the token of the study's folder, where several share the database

    def silence(self, heartbeat: float) -> float:
        """For how many seconds a process has been silent although the database could be reached."""
        return self.now - max(heartbeat, self.since)


def read_queue(study_dir: Path, name: str) -> QueueView:
    """Read the queue of a study, wherever its folder says that it is; an empty one where there is none yet.

    It takes no lock and writes nothing. Raises `UserError` where the database cannot be used.
    """
    note = read_note(study_dir)
    url = parse_url(note.storage) if note and note.storage else None
    file = None if url and url.drivername != "sqlite" else Path(str(url.database)) if url else study_dir / DATABASE
    if file and not file.exists():
        return QueueView()
    storage = open_storage(None, study_dir, reading=True)
    with storage.errors():
        try:
            study = optuna.load_study(study_name=storage.study_name(name), storage=storage.rdb)
            trials, attributes = study.get_trials(deepcopy=False), study.user_attrs
        except KeyError:  # a sweep has made the database, and not yet the study
            return QueueView()
        return QueueView(trials, attributes, storage.now(), storage.since, storage.folder)


def load_study(store: QueueStorage, plan: StudyPlan) -> tuple[optuna.Study, dict[str, BaseDistribution]]:
    """Optuna's study of a plan, and the parameters that a trial added to it must have. The caller holds the lock.

    Optuna refuses other levels of a parameter than those of the first trial. So the study is made again, with the trials
    that left a record, where the plan has gained a level or a factor; and without trials where its metric is another one.
    Not while a process trains its runs: until then, the study keeps its metric and new trials have no parameters.
    """
    name, metric = store.study_name(plan.name), Metric(plan.metric).on_validation
    distributions = factor_distributions(plan.runs)
    study = create_study(store, name, plan)
    trials, attributes = study.get_trials(deepcopy=False), study.user_attrs
    same_metric = study.metric_names == [metric]
    if same_metric and all(trial.distributions == distributions for trial in trials):
        return study, distributions
    if any(trial.state == TrialState.RUNNING and is_assigned(trial, store.silence) for trial in trials):
        return study, {}
    optuna.delete_study(study_name=name, storage=store.rdb)
    study = create_study(store, name, plan)
    for trial in _kept(trials, plan, distributions) if same_metric else []:
        study.add_trial(trial)
    for key, value in {**attributes, NOTE: TEXT, TOKEN: new_token(), RETRIED: {}}.items():
        study.set_user_attr(key, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study.set_metric_names([metric])  # a reader must not take the values for the study's own metric
    return study, distributions


def create_study(store: QueueStorage, name: str, plan: StudyPlan) -> optuna.Study:
    """Optuna's study of a plan, under a name. It is made if it does not exist."""
    metric = Metric(plan.metric).on_validation
    direction = StudyDirection.MINIMIZE if metric.lower_is_better else StudyDirection.MAXIMIZE
    return optuna.create_study(storage=store.rdb, study_name=name, direction=direction, load_if_exists=True)


def _kept(
    trials: list[FrozenTrial], plan: StudyPlan, distributions: Mapping[str, BaseDistribution]
) -> list[FrozenTrial]:
    """The trials that left a record, with the levels that their runs have now. A run without a record is trained again."""
    runs, kept = {run.run_id: run for run in plan.runs}, []
    for trial in filter(has_record, trials):
        if run := runs.get(trial.user_attrs.get(RUN_ID, "")):
            copy = new_trial(run, distributions, trial.state, trial.value, trial.user_attrs)
            copy.intermediate_values = trial.intermediate_values
            copy.datetime_start, copy.datetime_complete = trial.datetime_start, trial.datetime_complete
            kept.append(copy)
    return kept
