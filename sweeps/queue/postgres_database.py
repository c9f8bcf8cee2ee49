"""The operations of a queue on PostgreSQL, each in one statement, because each waits for the server's answer.

The queue's lock is held during these waits, so they add up over all machines. A statement in AUTOCOMMIT mode is a transaction of its own.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Any

from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.engine import Connection

from sweeps.queue.database import QueueDatabase, not_running, param_rows, utc
from sweeps.queue.trials import PROCESS, TrialRow

# The row of the study is locked as Optuna locks it: other programs may add trials without the queue's lock.
ADD = """
with study as (select study_id from studies where study_id = %(study)s for update),
trial as (
    insert into trials (number, study_id, state, datetime_start, datetime_complete)
    select coalesce((select number + 1 from trials where study_id = %(study)s order by trial_id desc limit 1), 0),
        study_id, %(state)s::trialstate, %(start)s::timestamp, %(complete)s::timestamp
    from study returning trial_id, number
),
attributes as (
    insert into trial_user_attributes (trial_id, key, value_json)
    select trial_id, key, text from trial, unnest(%(keys)s::text[], %(texts)s::text[]) as attribute (key, text)
),
parameters as (
    insert into trial_params (trial_id, param_name, param_value, distribution_json)
    select trial_id, name, stored, distribution
    from trial, unnest(%(names)s::text[], %(stored)s::float8[], %(distributions)s::text[])
        as parameter (name, stored, distribution)
),
result as (
    insert into trial_values (trial_id, objective, value, value_type)
    select trial_id, 0, %(value)s::float8, 'FINITE'::trialvaluetype from trial where %(value)s::float8 is not null
)
select trial_id, number from trial
"""
END = """
with trial as (
    update trials set state = %(state)s::trialstate, datetime_complete = %(complete)s::timestamp
    where trial_id = %(trial)s and state = 'RUNNING' returning trial_id
),
result as (
    insert into trial_values (trial_id, objective, value, value_type)
    select trial_id, 0, %(value)s::float8, 'FINITE'::trialvaluetype from trial where %(value)s::float8 is not null
),
attributes as (
    insert into trial_user_attributes (trial_id, key, value_json)
    select trial_id, key, text from trial, unnest(%(keys)s::text[], %(texts)s::text[]) as attribute (key, text)
    on conflict (trial_id, key) do update set value_json = excluded.value_json
)
select trial_id from trial
"""
# Two reads joined by OR would make the server look at every trial of the study.
CHANGES = """
select null::int as trial_id, null::int as number, null::text as state, key, value_json
from study_user_attributes where study_id = %(study)s
union all
select trial.trial_id, number, state::text, key, value_json
from (
    select trial_id, number, state from trials where study_id = %(study)s and trial_id > %(after)s
    union all
    select trial_id, number, state from trials
    where trial_id = any(%(running)s::int[]) and (%(whole)s or state <> 'RUNNING')
) as trial
left join trial_user_attributes as attribute on attribute.trial_id = trial.trial_id
"""


class PostgresDatabase(QueueDatabase):
    """`QueueDatabase` on PostgreSQL."""

    def _insert(self, study_id: int, trial: FrozenTrial) -> tuple[int, int]:
        params = list(param_rows(trial))
        values = {
            "study": study_id,
            "state": trial.state.name,
            "start": utc(trial.datetime_start),
            "complete": utc(trial.datetime_complete),
            **_attributes(trial.user_attrs),
            "names": [row["param_name"] for row in params],
            "stored": [row["param_value"] for row in params],
            "distributions": [row["distribution_json"] for row in params],
            "value": trial.value,
        }
        with self._autocommit() as connection:
            made = connection.exec_driver_sql(ADD, values).one_or_none()
        if made is None:
            raise KeyError("Record does not exist.")
        return made.trial_id, made.number

    def end_trial(self, trial_id: int, state: TrialState, value: float | None, attrs: Mapping[str, Any]) -> None:
        values = {"trial": trial_id, "state": state.name, "complete": utc(datetime.now()), "value": value}
        with self._autocommit() as connection:
            if connection.exec_driver_sql(END, {**values, **_attributes(attrs)}).one_or_none() is None:
                raise not_running(trial_id)

    def read_changes(
        self, study_id: int, after: int, running: Collection[int], whole: bool
    ) -> tuple[dict[str, Any], list[TrialRow]]:
        values = {"study": study_id, "after": after, "running": list(running), "whole": whole}
        study: dict[str, Any] = {}
        trials: dict[int, TrialRow] = {}
        with self._autocommit() as connection:
            for trial_id, number, state, key, text in connection.exec_driver_sql(CHANGES, values):
                if trial_id is None:
                    study[key] = json.loads(text)
                    continue
                trial = trials.get(trial_id)
                if trial is None:
                    trial = trials[trial_id] = TrialRow(trial_id, number, TrialState[state], {})
                if key is not None and (key != PROCESS or trial.state == TrialState.RUNNING):
                    trial.user_attrs[key] = json.loads(text)
        return study, sorted(trials.values(), key=lambda row: row.number)

    @contextlib.contextmanager
    def _autocommit(self) -> Iterator[Connection]:
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            yield connection


def _attributes(attrs: Mapping[str, Any]) -> dict[str, list[str]]:
    return {"keys": list(attrs), "texts": [json.dumps(value) for value in attrs.values()]}
