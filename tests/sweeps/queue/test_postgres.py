"""The queue on a real PostgreSQL, which the tests start on loopback: its lock, its clock, and what happens when it
is lost.
"""

import threading
import time

import pytest
from contention import contend
from postgres import free_port

from experiments.errors import UserError
from sweeps.queue import storage as module
from sweeps.queue.storage import open_storage
from sweeps.queue.url import QueueNote


@pytest.fixture
def url(postgres):
    """The URL of an empty database."""
    return postgres.new_database()


@pytest.fixture
def storage(url, tmp_path):
    opened = open_storage(tmp_path, QueueNote(url, "0"))
    opened.lines = []
    opened.notify = opened.lines.append
    return opened


def other_port(url: str, port: int) -> str:
    before, _, database = url.rpartition("/")
    return f"{before.rpartition(':')[0]}:{port}/{database}"


def end_connections(postgres) -> None:
    """End every connection to the server but the one that asks."""
    postgres.query("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'vit-sweep'")


def test_one_process_at_a_time_has_the_lock_also_when_all_start_on_an_empty_database(url, tmp_path):
    assert contend(url, tmp_path) == ["in", "out"] * 80


def test_the_clock_is_that_of_the_server(storage, monkeypatch):
    true = time.time()
    monkeypatch.setattr(time, "time", lambda: true - 3600)  # the clock of this host is an hour slow
    assert abs(storage.now() - true) < 60
    assert abs(storage.run(storage.now) - true) < 60


def test_silence_does_not_count_while_the_server_was_down(postgres, storage):
    beat = storage.now() - 1000
    assert storage.silence(beat) < 1000  # the server has not been up for so long


def test_an_operation_whose_connection_is_lost_is_repeated_and_says_nothing(postgres, storage):
    calls = []

    def operation():
        calls.append(1)
        if len(calls) == 1:
            end_connections(postgres)
        return len(storage.rdb.get_all_studies())

    assert storage.run(operation) == 0
    assert len(calls) == 2 and storage.lines == []


def test_nothing_is_written_after_the_lock_was_lost(postgres, storage):
    """The lock ends with its connection: another process may have it, so the rest of the operation must not happen."""
    calls, caught = [], []

    def operation():
        calls.append(1)
        if len(calls) > 1:
            return
        end_connections(postgres)
        for name in ("first", "second"):  # the pool would make a new connection for the second
            try:
                storage.rdb.create_new_study([1], name)
            except Exception as error:
                caught.append(error)
        raise caught[-1]

    storage.run(operation)
    assert len(caught) == 2
    assert storage.rdb.get_all_studies() == []


def test_a_server_that_restarts_is_waited_for_with_one_line(postgres, storage, monkeypatch):
    monkeypatch.setattr(module, "RETRY_INTERVAL", 0.1)
    storage.run(storage.rdb.get_all_studies)
    postgres.stop()
    back = threading.Timer(2.0, postgres.start)
    back.start()
    started = time.time()
    assert storage.run(storage.rdb.get_all_studies) == []
    back.join()
    assert time.time() - started >= 2.0
    (line,) = storage.lines
    assert line.startswith(storage.url) and line.endswith("; trying again for 10 min, training continues")
    assert "refused" in line or "closed" in line or "shutting down" in line
    assert storage.silence(started - 1000) < 60  # heartbeats could not be written meanwhile


def test_a_server_that_does_not_come_back_is_one_error(postgres, storage, monkeypatch):
    monkeypatch.setattr(module, "RETRY_INTERVAL", 0.1)
    monkeypatch.setattr(module, "RETRY_TIMEOUT", 1.0)
    postgres.stop()
    try:
        with pytest.raises(UserError, match="cannot be used .*; run the same command again when it can be used"):
            storage.run(storage.rdb.get_all_studies)
    finally:
        postgres.start()
    assert storage.run(storage.rdb.get_all_studies) == []


@pytest.mark.parametrize("in_transaction", [False, True])
def test_the_lock_of_a_suspended_process_is_given_to_others(url, tmp_path, monkeypatch, in_transaction):
    other = open_storage(tmp_path, QueueNote(url, "0"))
    monkeypatch.setattr(module, "IDLE_TIMEOUT", "3s")
    suspended = open_storage(tmp_path, QueueNote(url, "0"))
    monkeypatch.setattr(module, "RETRY_TIMEOUT", 0.0)

    def write():
        if in_transaction:
            suspended.rdb.engine.connect().exec_driver_sql("select 1")
        other.run(lambda: other.rdb.create_new_study([1], "of the other"))
        suspended.rdb.create_new_study([1], "of the one that was suspended")

    with pytest.raises(UserError):
        suspended.run(write)
    assert [study.study_name for study in other.rdb.get_all_studies()] == ["of the other"]


def test_a_lock_that_another_process_keeps_is_not_waited_for_without_limit(url, tmp_path, monkeypatch):
    holder = open_storage(tmp_path, QueueNote(url, "0"))
    monkeypatch.setattr(module, "IDLE_TIMEOUT", "3s")
    other = open_storage(tmp_path, QueueNote(url, "0"))
    monkeypatch.setattr(module, "RETRY_TIMEOUT", 0.0)
    with pytest.raises(UserError, match="lock timeout"):
        holder.run(lambda: other.run(other.rdb.get_all_studies))


@pytest.mark.parametrize("fault", ["down", "full"])
def test_a_server_that_takes_no_connections_yet_is_waited_for_with_one_line(
    postgres, url, tmp_path, monkeypatch, capfd, fault
):
    import psycopg

    monkeypatch.setattr(module, "RETRY_INTERVAL", 0.1)
    monkeypatch.setattr(module, "RETRY_TIMEOUT", 60.0)
    postgres.stop()
    if fault == "full":
        postgres.start(max_connections=10, superuser_reserved_connections=0, max_wal_senders=0)
    place = {"host": "127.0.0.1", "port": postgres.port, "user": "tester", "dbname": "postgres"}
    held = [psycopg.connect(**place) for _ in range(10)] if fault == "full" else []
    back = threading.Timer(2.0, lambda: [held.pop().close() for _ in range(10)] if held else postgres.start())
    back.start()
    try:
        assert open_storage(tmp_path, QueueNote(url, "0")).rdb.get_all_studies() == []
    finally:
        back.join()
        postgres.stop()
        postgres.start()
    (line,) = capfd.readouterr().err.splitlines()
    assert ("too many clients" if fault == "full" else "refused") in line
    assert line.startswith(url) and line.endswith("; trying again for 1 min")


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda url: other_port(url, free_port()), "refused"),
        (lambda url: url + "missing", r'database "\w+missing" does not exist'),
        (lambda url: url.replace("tester@", "nobody@"), 'role "nobody" does not exist'),
        (lambda url: url.replace("127.0.0.1", "no-such-host.invalid"), "failed to resolve host 'no-such-host.invalid'"),
    ],
)
def test_a_database_that_cannot_be_opened_is_one_line(url, tmp_path, monkeypatch, change, said):
    if said == "refused":  # the only one that is tried again
        monkeypatch.setattr(module, "RETRY_TIMEOUT", 0.0)
    with pytest.raises(UserError, match=f"cannot be used .*{said}"):
        open_storage(tmp_path, QueueNote(change(url), "0"))


def test_a_password_comes_from_a_file_and_is_never_said(postgres, url, tmp_path, monkeypatch):
    postgres.query("create role careful login password 'hunter2'")
    passwords = tmp_path / "passwords"
    passwords.write_text("*:*:*:careful:wrong")
    passwords.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    own = url.replace("tester@", "careful@")
    with pytest.raises(UserError, match='authentication failed for user "careful"') as caught:
        open_storage(tmp_path, QueueNote(own, "0"))
    assert "wrong" not in str(caught.value)
    passwords.write_text("*:*:*:careful:hunter2")
    postgres.query("grant all on schema public to careful", url.rpartition("/")[2])
    assert "hunter2" not in repr(vars(open_storage(tmp_path, QueueNote(own, "0"))))
