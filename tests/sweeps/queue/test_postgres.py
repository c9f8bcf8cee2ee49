"""The queue on a real PostgreSQL, started by the test on loopback."""

from contention import contend


def test_one_process_at_a_time_has_the_lock_also_when_all_start_on_an_empty_database(postgres, tmp_path):
    assert contend(postgres.new_database(), tmp_path) == ["in", "out"] * 80
