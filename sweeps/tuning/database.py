"""Optuna's database of a tuning, in the folder of its trials. One process writes it, the driver: no lock."""

import contextlib
import os
import sqlite3
import warnings
from collections.abc import Callable
from pathlib import Path

import optuna
import sqlalchemy
from optuna.storages import RDBStorage
from optuna.study import StudyDirection
from optuna.trial import TrialState

from experiments.files import open_own
from experiments.metric import Metric

DATABASE = "optuna.db"
UNREADABLE = "optuna.db.unreadable"
# KeyError: a trial or a study that another program has deleted
DatabaseErrors = (sqlalchemy.exc.SQLAlchemyError, sqlite3.Error, optuna.exceptions.OptunaError, KeyError)


def open_storage(folder: Path, say: Callable[[str], None]) -> tuple[RDBStorage, bool]:
    """The database in this folder, and whether it is new.

    A file that is no database is moved away, with a line. Raises `DatabaseErrors` where the file cannot be used.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    path = folder / DATABASE
    is_new = not path.exists()
    for file in folder.glob(f"{DATABASE}*"):  # SQLite would follow a link, also of its journal
        with contextlib.suppress(OSError):
            os.close(open_own(file, os.O_RDWR))
    try:
        return _open(path), is_new
    except DatabaseErrors as error:
        if not isinstance(_cause(error), sqlalchemy.exc.DatabaseError) or "not a database" not in reason(error):
            raise
    path.replace(folder / UNREADABLE)
    say(f"{path}: is no database; it is kept as {UNREADABLE}, and made anew from the records")
    return _open(path), True


def _open(path: Path) -> RDBStorage:
    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(path, timeout=60.0)
        connection.execute("pragma synchronous=off")  # ten times as fast; the records outlive a power cut
        return connection

    return RDBStorage("sqlite://", engine_kwargs={"creator": connect})


def open_study(
    storage: RDBStorage, name: str, metric: Metric, pruner: optuna.pruners.BasePruner | None = None
) -> optuna.Study:
    """Optuna's study of a name, which is made if it does not exist. Its trials that a driver left open are ended.

    A trial that waits would be handed out for another run; one that is running has lost its driver.
    """
    study = optuna.create_study(
        storage=storage,
        study_name=name,
        direction=StudyDirection.MINIMIZE if metric.lower_is_better else StudyDirection.MAXIMIZE,
        sampler=optuna.samplers.RandomSampler(),
        pruner=pruner,
        load_if_exists=True,
    )
    if study.metric_names is None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            study.set_metric_names([metric])
    for trial in study.get_trials(deepcopy=False, states=[TrialState.RUNNING]):
        study.tell(trial.number, state=TrialState.FAIL)
    while study.get_trials(deepcopy=False, states=[TrialState.WAITING]):
        study.tell(study.ask(), state=TrialState.FAIL)
    return study


def reason(error: BaseException) -> str:
    """What the database said, in one line, without the statement."""
    cause = _cause(error)
    text = str(getattr(cause, "orig", None) or cause).partition("(Background on this error")[0]  # a link to a manual
    return " ".join(text.split())


def _cause(error: BaseException) -> BaseException:
    """The error below Optuna's, which only says that there was one."""
    wrapped = isinstance(error, optuna.exceptions.StorageInternalError) and error.__cause__
    return wrapped or error
