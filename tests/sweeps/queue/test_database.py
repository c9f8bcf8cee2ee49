"""The queue's own statements, against Optuna's: both leave the same trials. On SQLite and on PostgreSQL."""

import functools
from collections import Counter
from datetime import timedelta

import optuna
import pytest
import sqlalchemy
from optuna.distributions import CategoricalDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from sweeps.queue.storage import open_storage
from sweeps.queue.trials import TrialRow

LEVELS = {
    "model.head": CategoricalDistribution(["logits", "softmax"]),
    "model.pool": CategoricalDistribution([None, 2]),
}
FIELDS = ("number", "state", "values", "params", "distributions", "user_attrs", "system_attrs", "intermediate_values")
FIELDS += ("datetime_start", "datetime_complete")
ATTRS = {"run": "a-s1", "seed": 1, "owner": {"host": "here", "pid": 7, "start": None}}


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/queue.db"
    return request.getfixturevalue("postgres").new_database()


@pytest.fixture
def rdb(url, tmp_path):
    return open_storage(url, tmp_path).rdb


def trial(state: TrialState, value: float | None = None, **attrs) -> FrozenTrial:
    levels = {"model.head": "softmax", "model.pool": None}
    return create_trial(state=state, value=value, params=levels, distributions=LEVELS, user_attrs={**ATTRS, **attrs})


def seen(url: str, name: str) -> list[dict]:
    """The trials of a study as a program without this project reads them; without their ids."""
    study = optuna.load_study(study_name=name, storage=optuna.storages.RDBStorage(url))
    return [{field: getattr(one, field) for field in FIELDS} for one in study.get_trials()]


def test_a_trial_is_stored_as_optuna_stores_it_and_in_fewer_statements(rdb, url):
    trials = [
        trial(TrialState.RUNNING),
        trial(TrialState.COMPLETE, 0.5),
        trial(TrialState.FAIL, reason="failed"),
        create_trial(state=TrialState.COMPLETE, value=1.0),
        create_trial(state=TrialState.COMPLETE, value=float("inf")),  # Optuna's own code stores this one
        trial(TrialState.COMPLETE, 0.25),
    ]
    statements = Counter()
    for name, storage in {"ours": rdb, "theirs": optuna.storages.RDBStorage(url)}.items():
        count = functools.partial(lambda name, *_: statements.update([name]), name)
        sqlalchemy.event.listen(storage.engine, "before_cursor_execute", count)
        study = optuna.create_study(storage=storage, study_name=name, direction="maximize")
        for one in trials:
            statements[name] = 0
            study.add_trial(one)
    ours, theirs = seen(url, "ours"), seen(url, "theirs")
    assert ours == theirs
    assert [one["number"] for one in ours] == list(range(6))
    assert statements["ours"] < statements["theirs"] / 2  # so that Optuna still calls what the queue replaces


def test_programs_with_and_without_this_project_number_the_trials_of_one_study(rdb, url):
    ours = optuna.create_study(storage=rdb, study_name="both")
    optuna.create_study(storage=rdb, study_name="another").add_trial(trial(TrialState.RUNNING))
    theirs = optuna.load_study(storage=optuna.storages.RDBStorage(url), study_name="both")
    ours.add_trial(trial(TrialState.RUNNING))
    theirs.enqueue_trial({"model.head": "softmax"})
    ours.add_trial(trial(TrialState.RUNNING))
    theirs.ask()
    assert [(one["number"], one["state"].name) for one in seen(url, "both")] == [
        (0, "RUNNING"),
        (1, "RUNNING"),  # the one that was enqueued
        (2, "RUNNING"),
    ]


def test_a_trial_ends_as_optuna_ends_it(rdb, url):
    study = optuna.create_study(storage=rdb, study_name="own")
    for _ in range(3):
        study.add_trial(trial(TrialState.RUNNING))
    first, second, _ = (one._trial_id for one in study.get_trials())
    rdb.set_trial_user_attr(second, "error", "of an earlier version that was killed here")
    rdb.end_trial(first, TrialState.COMPLETE, 0.75, {})
    rdb.end_trial(second, TrialState.FAIL, None, {"reason": "failed", "error": "out of cheese"})
    for _ in range(2):
        with pytest.raises(optuna.exceptions.UpdateFinishedTrialError):
            rdb.end_trial(second, TrialState.COMPLETE, 0.5, {"reason": "another"})
    with pytest.raises(optuna.exceptions.UpdateFinishedTrialError):
        rdb.end_trial(10**6, TrialState.COMPLETE, 0.5, {})
    optuna.load_study(storage=optuna.storages.RDBStorage(url), study_name="own").tell(2, 0.75)
    ours, failed, theirs = seen(url, "own")
    assert abs(ours.pop("datetime_complete") - theirs.pop("datetime_complete")) < timedelta(minutes=1)
    for one in (ours, theirs):
        one.pop("number"), one.pop("datetime_start")
    assert ours == theirs
    assert failed["state"] == TrialState.FAIL and failed["values"] is None
    assert failed["user_attrs"] == {**ATTRS, "reason": "failed", "error": "out of cheese"}


def test_only_trials_that_are_new_or_have_changed_are_read(rdb):
    study = optuna.create_study(storage=rdb, study_name="own")
    optuna.create_study(storage=rdb, study_name="another").add_trial(trial(TrialState.RUNNING))
    study.set_user_attr("cancelled", True)
    for state in (TrialState.RUNNING, TrialState.FAIL, TrialState.RUNNING):
        study.add_trial(trial(state))
    study_id, ids = study._study_id, [one._trial_id for one in study.get_trials()]
    ended = {key: value for key, value in ATTRS.items() if key != "owner"}  # nobody asks for it
    first = TrialRow(ids[0], 0, TrialState.RUNNING, ATTRS)
    failed = TrialRow(ids[1], 1, TrialState.FAIL, ended)
    third = TrialRow(ids[2], 2, TrialState.RUNNING, ATTRS)
    assert rdb.read_changes(study_id, 0, (), False) == ({"cancelled": True}, [first, failed, third])
    assert rdb.read_changes(study_id, ids[1], [ids[0]], False)[1] == [third]
    assert rdb.read_changes(study_id, ids[2], [ids[0], ids[2]], False)[1] == []
    assert rdb.read_changes(study_id, ids[2], [ids[0], ids[2]], True)[1] == [first, third]
    rdb.set_trial_state_values(ids[0], TrialState.COMPLETE, [1.0])
    (changed,) = rdb.read_changes(study_id, ids[2], [ids[0], ids[2]], False)[1]
    assert changed == TrialRow(ids[0], 0, TrialState.COMPLETE, ended)
    assert rdb.set_processes({ids[0]: {"pid": 8}, ids[2]: {"pid": 9}}) == {ids[2]}
    (after,) = rdb.read_changes(study_id, ids[2], [ids[2]], True)[1]
    assert after.user_attrs == {**ATTRS, "owner": {"pid": 9}}


def test_a_long_study_is_read_as_a_short_one(rdb, monkeypatch):
    study = optuna.create_study(storage=rdb, study_name="own")
    for number in range(5):
        study.add_trial(trial(TrialState.FAIL, place=number))
    own = rdb.read_changes(study._study_id, 0, (), True)
    monkeypatch.setattr("sweeps.queue.database.LISTED", 2)
    assert rdb.read_changes(study._study_id, 0, (), True) == own
    assert [row.user_attrs["place"] for row in own[1]] == list(range(5))


def test_other_parameters_of_any_trial_are_found(rdb):
    study = optuna.create_study(storage=rdb, study_name="own")
    assert rdb.has_only(study._study_id, LEVELS)
    study.add_trial(trial(TrialState.RUNNING))
    assert rdb.has_only(study._study_id, LEVELS)
    assert not rdb.has_only(study._study_id, {"model.head": LEVELS["model.head"]})
    assert not rdb.has_only(study._study_id, {**LEVELS, "model.head": CategoricalDistribution(["logits"])})
    study.add_trial(create_trial(state=TrialState.RUNNING))
    assert not rdb.has_only(study._study_id, LEVELS)
