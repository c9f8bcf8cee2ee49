"""Optuna's database with the operations of a queue in few statements.

Optuna reads and writes each attribute of a trial with statements of its own: 30 for a new trial. Here they go together. The
tables are those of Optuna, which checks their version when a database is opened, so every tool for Optuna reads the trials.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import optuna
import sqlalchemy
from optuna.distributions import BaseDistribution, distribution_to_json
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy import Column, DateTime, Enum, Float, Integer, MetaData, String, Table, Text, select
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import Connection

from sweeps.queue.trials import PROCESS, TrialRow

_META = MetaData()
_STUDIES = Table("studies", _META, Column("study_id", Integer, primary_key=True))
_STUDY_ATTRS = Table(
    "study_user_attributes",
    _META,
    Column("study_user_attribute_id", Integer, primary_key=True),
    Column("study_id", Integer),
    Column("key", String),
    Column("value_json", Text),
)
_TRIALS = Table(
    "trials",
    _META,
    Column("trial_id", Integer, primary_key=True),
    Column("number", Integer),
    Column("study_id", Integer),
    Column("state", Enum(TrialState)),
    Column("datetime_start", DateTime),  # UTC, without a zone
    Column("datetime_complete", DateTime),
)
_ATTRS = Table(
    "trial_user_attributes",
    _META,
    Column("trial_user_attribute_id", Integer, primary_key=True),
    Column("trial_id", Integer),
    Column("key", String),
    Column("value_json", Text),
)
_PARAMS = Table(
    "trial_params",
    _META,
    Column("param_id", Integer, primary_key=True),
    Column("trial_id", Integer),
    Column("param_name", String),
    Column("param_value", Float(53)),
    Column("distribution_json", Text),
)
_VALUES = Table(
    "trial_values",
    _META,
    Column("trial_value_id", Integer, primary_key=True),
    Column("trial_id", Integer),
    Column("objective", Integer),
    Column("value", Float(53)),
    Column("value_type", Enum("FINITE", "INF_POS", "INF_NEG", name="trialvaluetype")),
)
LISTED = 500  # trials that a statement names one by one, at most


class QueueDatabase(optuna.storages.RDBStorage):
    """An Optuna storage whose trials can be added, ended and followed in few statements. Its caller holds the queue's lock.

    This class is for SQLite, which answers at once. `PostgresDatabase` puts each operation into one statement.
    """

    def _create_new_trial(self, study_id: int, template_trial: FrozenTrial | None = None) -> FrozenTrial:
        """`create_new_trial`, through which `optuna.Study.add_trial` adds a trial. `optuna.get_storage` calls this one."""
        if template_trial is None or not _is_plain(template_trial):
            return super()._create_new_trial(study_id, template_trial)
        trial_id, number = self._insert(study_id, template_trial)
        return FrozenTrial(
            number=number,
            state=template_trial.state,
            value=template_trial.value,
            datetime_start=template_trial.datetime_start,
            datetime_complete=template_trial.datetime_complete,
            params=template_trial.params,
            distributions=template_trial.distributions,
            user_attrs=template_trial.user_attrs,
            system_attrs={},
            intermediate_values={},
            trial_id=trial_id,
        )

    def _insert(self, study_id: int, trial: FrozenTrial) -> tuple[int, int]:
        """Add a trial. Returns its id and its number. Raises `KeyError` where the study does not exist."""
        with self.engine.begin() as connection:
            trial_id, number = _insert_row(connection, study_id, trial)
            own = {"trial_id": trial_id}
            if trial.user_attrs:
                rows = [{"key": key, "value_json": json.dumps(value)} for key, value in trial.user_attrs.items()]
                connection.execute(_ATTRS.insert(), [{**own, **row} for row in rows])
            if trial.params:
                connection.execute(_PARAMS.insert(), [{**own, **row} for row in param_rows(trial)])
            if trial.value is not None:
                _insert_value(connection, trial_id, trial.value)
        return trial_id, number

    def end_trial(self, trial_id: int, state: TrialState, value: float | None, attrs: Mapping[str, Any]) -> None:
        """End a running trial, with its value and more user attributes, in one transaction.

        Raises `UpdateFinishedTrialError` where the trial is not running.
        """
        ended = _TRIALS.update().where(_TRIALS.c.trial_id == trial_id, _TRIALS.c.state == TrialState.RUNNING)
        with self.engine.begin() as connection:
            if not connection.execute(ended.values(state=state, datetime_complete=utc(datetime.now()))).rowcount:
                raise not_running(trial_id)
            if value is not None:
                _insert_value(connection, trial_id, value)
            if attrs:
                insert = sqlite.insert(_ATTRS)
                upsert = insert.on_conflict_do_update(
                    index_elements=["trial_id", "key"], set_={"value_json": insert.excluded.value_json}
                )
                rows = [{"trial_id": trial_id, "key": key, "value_json": json.dumps(v)} for key, v in attrs.items()]
                connection.execute(upsert, rows)

    def set_processes(self, processes: Mapping[int, Any]) -> set[int]:
        """Set the process of each trial by its id. Returns the ids of those that are running; the others do not change."""
        with self.engine.begin() as connection:
            states = select(_TRIALS.c.trial_id).where(_TRIALS.c.state == TrialState.RUNNING)
            running = set(connection.execute(states.where(_TRIALS.c.trial_id.in_(processes))).scalars())
            if running:
                one = (_ATTRS.c.trial_id == sqlalchemy.bindparam("trial")) & (_ATTRS.c.key == PROCESS)
                update = _ATTRS.update().where(one).values(value_json=sqlalchemy.bindparam("process"))
                rows = [{"trial": trial, "process": json.dumps(processes[trial])} for trial in running]
                connection.execute(update, rows)
        return running

    def read_changes(
        self, study_id: int, after: int, running: Collection[int], whole: bool
    ) -> tuple[dict[str, Any], list[TrialRow]]:
        """The user attributes of a study, and its trials that changed, oldest first: those with an id above `after`, and
        those of `running` that run no more. `whole`: all of `running`, for their heartbeats.
        """
        columns = _TRIALS.c.trial_id, _TRIALS.c.number, _TRIALS.c.state
        new = select(*columns).where(_TRIALS.c.study_id == study_id, _TRIALS.c.trial_id > after)
        known = select(*columns).where(_TRIALS.c.trial_id.in_(running))
        if not whole:
            known = known.where(_TRIALS.c.state != TrialState.RUNNING)
        attributes = select(_STUDY_ATTRS.c.key, _STUDY_ATTRS.c.value_json).where(_STUDY_ATTRS.c.study_id == study_id)
        with self.engine.begin() as connection:
            study = {key: json.loads(value) for key, value in connection.execute(attributes)}
            # two reads joined by OR would make the database look at every trial of the study
            found = connection.execute(sqlalchemy.union_all(new, known) if running else new).all()
            attrs = self._read_attrs(connection, study_id, {row.trial_id: row.state for row in found})
        rows = [TrialRow(row.trial_id, row.number, row.state, attrs.get(row.trial_id, {})) for row in found]
        return study, sorted(rows, key=lambda row: row.number)

    def _read_attrs(
        self, connection: Connection, study_id: int, states: Mapping[int, TrialState]
    ) -> dict[int, dict[str, Any]]:
        """The user attributes of trials whose ids and states are given. Those of ended trials lack the process."""
        if not states:
            return {}
        query = select(_ATTRS.c.trial_id, _ATTRS.c.key, _ATTRS.c.value_json)
        if len(states) <= LISTED:
            query = query.where(_ATTRS.c.trial_id.in_(states))
        else:
            query = query.join(_TRIALS, _TRIALS.c.trial_id == _ATTRS.c.trial_id)
            query = query.where(_TRIALS.c.study_id == study_id, _ATTRS.c.trial_id >= min(states))
        attrs: dict[int, dict[str, Any]] = {}
        for trial_id, key, value in connection.execute(query):
            if key != PROCESS or states.get(trial_id) == TrialState.RUNNING:
                attrs.setdefault(trial_id, {})[key] = json.loads(value)
        return attrs

    def has_only(self, study_id: int, distributions: Mapping[str, BaseDistribution]) -> bool:
        """Whether every trial of a study has these parameters and no others. False also where that is not certain."""
        of_study = _TRIALS.c.study_id == study_id
        query = select(_PARAMS.c.param_name, _PARAMS.c.distribution_json, sqlalchemy.func.count())
        query = query.join(_TRIALS, _TRIALS.c.trial_id == _PARAMS.c.trial_id).where(of_study)
        with self.engine.begin() as connection:
            trials = connection.execute(
                select(sqlalchemy.func.count()).select_from(_TRIALS).where(of_study)
            ).scalar_one()
            found = connection.execute(query.group_by(_PARAMS.c.param_name, _PARAMS.c.distribution_json)).all()
        wanted = {(name, distribution_to_json(one), trials) for name, one in distributions.items()}
        return not trials or {tuple(row) for row in found} == wanted


def _is_plain(trial: FrozenTrial) -> bool:
    """Whether a trial has nothing that only Optuna's own code stores: Optuna's attributes, several values, infinite ones."""
    values: Sequence[float] = trial.values or ()
    return not (trial.system_attrs or trial.intermediate_values or len(values) > 1) and all(map(math.isfinite, values))


def param_rows(trial: FrozenTrial) -> Iterable[dict[str, Any]]:
    """The parameters of a trial as rows of their table, without the trial's id."""
    for name, value in trial.params.items():
        distribution = trial.distributions[name]
        stored = distribution.to_internal_repr(value)
        yield {"param_name": name, "param_value": stored, "distribution_json": distribution_to_json(distribution)}


def _insert_row(connection: Connection, study_id: int, trial: FrozenTrial) -> tuple[int, int]:
    """Add the row of a trial without its attributes. Returns its id and its number."""
    study = select(_STUDIES.c.study_id).where(_STUDIES.c.study_id == study_id)
    if connection.execute(study).scalar_one_or_none() is None:
        raise KeyError("Record does not exist.")
    newest = select(_TRIALS.c.number).where(_TRIALS.c.study_id == study_id)
    last = connection.execute(newest.order_by(_TRIALS.c.trial_id.desc()).limit(1)).scalar_one_or_none()
    number = 0 if last is None else last + 1
    times = {"datetime_start": utc(trial.datetime_start), "datetime_complete": utc(trial.datetime_complete)}
    row = _TRIALS.insert().values(number=number, study_id=study_id, state=trial.state, **times)
    key = connection.execute(row).inserted_primary_key
    assert key is not None  # one row has been added
    return key[0], number


def _insert_value(connection: Connection, trial_id: int, value: float) -> None:
    row = {"trial_id": trial_id, "objective": 0, "value": value, "value_type": "FINITE"}
    connection.execute(_VALUES.insert(), row)


def utc(time: datetime | None) -> datetime | None:
    """A local time without a zone, as Optuna stores it."""
    return time and time.astimezone(UTC).replace(tzinfo=None)


def not_running(trial_id: int) -> Exception:
    """The error of Optuna for a trial that has ended."""
    return optuna.exceptions.UpdateFinishedTrialError(f"Trial {trial_id} is not running.")
