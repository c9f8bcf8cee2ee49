"""The URL of a storage, the lock and the clock, on SQLite."""

import os
import sys
import time
from unittest.mock import Mock

import pytest
from contention import contend
from stubbed import STUDY, tiny_plan

from experiments.errors import UserError
from sweeps.plan import make_plan
from sweeps.queue import storage as module
from sweeps.queue.connect import connect
from sweeps.queue.storage import open_storage
from sweeps.queue.url import QueueNote, parse_url
from sweeps.study import parse_study
from sweeps.workers.pool import run_sweep


@pytest.mark.parametrize(
    "url, said",
    [
        ("mysql://host/db", "'mysql' is not allowed: expected postgresql+psycopg://HOST/DATABASE or sqlite:///FILE"),
        ("not a url", "cannot be read; expected postgresql"),
        ("postgresql://me:hunter2@host/db", "PGPASSFILE"),
        ("postgresql://host/db?password=hunter2", "PGPASSFILE"),
        ("postgresql://me:hunter2@host:notaport/db", "cannot be read"),
    ],
)
def test_urls_that_are_refused(url, said):
    with pytest.raises(UserError) as caught:
        parse_url(url)
    assert said in str(caught.value)
    assert str(caught.value).startswith("storage: ")
    assert "hunter2" not in str(caught.value)


def test_both_forms_of_a_postgresql_url_use_psycopg():
    for url in ("postgresql://me@host:5433/db", "postgresql+psycopg://me@host:5433/db?passfile=/etc/pass"):
        assert parse_url(url).drivername == "postgresql+psycopg"


def test_a_missing_driver_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(UserError, match=r'pip install "vit-ablation\[postgres\]"'):
        parse_url("postgresql://host/db")


@pytest.mark.parametrize("name", ["plain", "with {braces}", "50%", "a b?c#d"])
def test_any_folder_can_hold_the_default_database(tmp_path, name):
    (tmp_path / name).mkdir()
    storage = open_storage(tmp_path / name)
    assert storage.rdb.get_all_studies() == []
    assert (tmp_path / name / "optuna.db").stat().st_size > 0
    assert storage.url == str(tmp_path / name / "optuna.db")
    assert sorted(path.name for path in tmp_path.rglob("*")) == sorted([name, ".lock", "optuna.db"])


def test_the_url_of_a_file_is_not_the_file_in_the_folder(tmp_path):
    (tmp_path / "study").mkdir()
    storage = open_storage(tmp_path / "study", QueueNote(f"sqlite:///{tmp_path}/shared.db", "0"))
    assert storage.rdb.get_all_studies() == []
    assert (tmp_path / "shared.db").exists()
    assert list((tmp_path / "study").iterdir()) == []


def test_a_shared_database_tells_studies_apart_before_a_run_has_started(tmp_path):
    """By their runs, not by names that are alike. A second folder of the same runs is refused."""
    url = f"sqlite:///{tmp_path}/shared.db"
    connect(tiny_plan(), tmp_path / "tiny", url)
    connect(tiny_plan(base={"train.epochs": 4}), tmp_path / "tuned" / "tiny", url)  # same name, other runs
    longer = make_plan(parse_study({**STUDY, "name": "tiny-sizes", "base": {"train.epochs": 5}}, "tiny-sizes"))
    connect(longer, tmp_path / "tiny-sizes", url)
    connect(tiny_plan(base={"train.epochs": 6}), tmp_path / "other" / "tiny", url)
    with pytest.raises(UserError, match=f"of the folder {tmp_path}/tiny on"):
        connect(tiny_plan(seeds=5), tmp_path / "again" / "tiny", url)


def test_the_storage_of_a_folder_cannot_change(tmp_path):
    folder, other = tmp_path / "tiny", f"sqlite:///{tmp_path}/other.db"
    connect(tiny_plan(), folder)
    with pytest.raises(UserError, match=f"^--storage: the queue of {folder} is in sqlite:///{folder}/optuna.db; "):
        connect(tiny_plan(), folder, other)
    (folder / "optuna.db").rename(tmp_path / "away")
    connect(tiny_plan(), folder, other)
    with pytest.raises(UserError, match=f"is in {other}; "):
        connect(tiny_plan(), folder, f"sqlite:///{folder}/optuna.db")
    assert connect(tiny_plan(), folder).url == connect(tiny_plan(), folder, other).url


def test_a_queue_that_is_not_a_database_is_one_line(tmp_path):
    (tmp_path / "optuna.db").write_text("something else, and long enough to be looked at" * 100)
    with pytest.raises(UserError, match=r"optuna\.db: cannot be used "):
        open_storage(tmp_path)


@pytest.mark.parametrize("content", [b"x", b"the notes of a user"])
def test_a_file_that_is_no_database_stays_as_it_is(tmp_path, content):
    (tmp_path / "mine").write_bytes(content)
    with pytest.raises(UserError, match="mine' is not allowed: expected an SQLite database, or a new file"):
        connect(tiny_plan(), tmp_path / "tiny", f"sqlite:///{tmp_path}/mine")
    assert (tmp_path / "mine").read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_storage_that_cannot_be_made_is_not_waited_for_and_leaves_no_plan(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "RETRY_TIMEOUT", 3.0)
    with pytest.raises(UserError, match=r"^/proc/q\.db\.lock: cannot be used \(No such file or directory\)$"):
        run_sweep(tiny_plan(), tmp_path / "tiny", [], command="vit-sweep run tiny", storage="sqlite:////proc/q.db")
    assert not (tmp_path / "tiny" / "study.json").exists()


def test_one_process_at_a_time_has_the_lock(tmp_path):
    assert contend(None, tmp_path) == ["in", "out"] * 80


def test_the_clock_is_that_of_the_file_system(tmp_path, monkeypatch):
    storage = open_storage(tmp_path)
    true = time.time()
    monkeypatch.setattr(time, "time", lambda: true - 3600)  # the clock of this host is an hour slow
    assert abs(storage.now() - true) < 60
    assert abs(storage.run(storage.now) - true) < 60
    assert abs(storage.silence(true - 100) - 100) < 60


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "study").write_text("a file")
    with pytest.raises(UserError, match=r"\.lock: cannot be used "):
        open_storage(tmp_path / "study")


def test_an_error_of_the_operation_itself_is_passed_on(tmp_path):
    storage = open_storage(tmp_path)
    with pytest.raises(FileNotFoundError):
        storage.run(Mock(side_effect=FileNotFoundError(os.strerror(2))))
    assert storage.run(lambda: "free") == "free"  # and so is the lock
