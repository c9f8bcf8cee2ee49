"""Optuna's study of a queue: made, opened by a sweep, or only read."""

import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import optuna
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial

from experiments.metric import Metric
from experiments.study import StudyPlan
from sweeps.queue.storage import QueueStorage, open_storage
from sweeps.queue.url import DATABASE, parse_url, read_note

NOTE = "note"  # user attribute of the study, which dashboards show
TEXT = (
    "Each trial is one attempt at one run of an ablation study; its value is the run's validation metric at the end. "
    "The best trial is the best single run: a variant with a lucky seed. vit-report compares the variants. "
    'A trial that failed with the reason "interrupted" lost its worker; a later trial continued its run.'
)


def create_study(store: QueueStorage, plan: StudyPlan) -> optuna.Study:
    """Optuna's study of a plan; see `open_study`."""
    study = open_study(store, plan.name, Metric(plan.metric).on_validation)
    if NOTE not in study.user_attrs:
        study.set_user_attr(NOTE, TEXT)
    return study


def open_study(
    store: QueueStorage, name: str, metric: Metric, pruner: optuna.pruners.BasePruner | None = None
) -> optuna.Study:
    """Optuna's study of a name. It is made if it does not exist. The caller holds the lock.

    Its metric stays as it is made: a reader must not take its values for another metric, nor for one of the test set.
    """
    study = optuna.create_study(
        storage=store.rdb,
        study_name=store.study_name(name),
        direction=StudyDirection.MINIMIZE if metric.lower_is_better else StudyDirection.MAXIMIZE,
        pruner=pruner,
        load_if_exists=True,
    )
    if study.metric_names is None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            study.set_metric_names([metric])
    return study


@dataclass(frozen=True)
class QueueView:
    """A queue at one moment, as a reader without the lock sees it: the trials, and the attributes of Optuna's study."""

    trials: list[FrozenTrial] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    now: float = 0.0  # by the queue's clock
    since: float = 0.0  # heartbeats before this time do not count: the database could not be reached

    def silence(self, heartbeat: float) -> float:
        """For how many seconds a process has been silent although the database could be reached."""
        return self.now - max(heartbeat, self.since)


def read_queue(study_dir: Path, name: str) -> QueueView:
    """Read the queue of a study, wherever its folder says that it is; an empty one where there is none yet.

    It takes no lock and writes nothing. Raises `UserError` where the database cannot be used.
    """
    note = read_note(study_dir)
    url = parse_url(note.storage) if note else None
    file = Path(str(url.database)) if url else study_dir / DATABASE
    if (url is None or url.drivername == "sqlite") and not (file.exists() and file.stat().st_size):
        return QueueView()  # none, or one whose tables are being made
    storage = open_storage(study_dir, note, reading=True)
    with storage.errors():
        try:
            study = optuna.load_study(study_name=storage.study_name(name), storage=storage.rdb)
        except KeyError:  # a sweep has made the database, and not yet the study
            return QueueView()
        trials, attributes = study.get_trials(deepcopy=False), study.user_attrs
        return QueueView(trials, attributes, storage.now(), storage.since)
