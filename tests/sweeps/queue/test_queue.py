"""The queue: which runs are assigned, to whom, and when an assignment ends."""

import subprocess
import time
from dataclasses import replace

import optuna
import pytest
from stubbed import finish, tiny_plan

from experiments.errors import UserError
from experiments.runs import resume
from sweeps.queue.process import LEASE_TIMEOUT, ProcessInfo, current_process, process_info
from sweeps.queue.queue import Queue
from sweeps.queue.storage import LockLost
from sweeps.study_folder import write_plan


def test_reconciling_twice_is_the_same_as_once(queue):
    queue.assign(current_process())
    first, count = queue.reconcile(), len(queue.study.get_trials())
    assert queue.reconcile() == first
    assert len(queue.study.get_trials()) == count == 1  # a trial is made when its run is assigned


def test_an_assignment_of_another_machine_ends_at_the_lease_timeout(queue):
    remote = ProcessInfo("elsewhere", 1, "1", time.time())
    other = Queue(tiny_plan(), queue.dir, remote)
    (assignment,) = other.assign(remote)
    assert list(queue.reconcile().running) == [assignment.run.name]
    stored = queue.study.get_trials()[0].user_attrs["owner"]
    silent = {name: {**each, "heartbeat": each["heartbeat"] - 2 * LEASE_TIMEOUT} for name, each in stored.items()}
    queue.store.rdb.set_trial_user_attr(assignment.trial_id, "owner", silent)
    assert other.heartbeat([assignment]) == []
    assert list(queue.reconcile().running) == [assignment.run.name]
    queue.store.rdb.set_trial_user_attr(assignment.trial_id, "owner", silent)
    assert len(queue.reconcile().waiting) == 6
    assert other.heartbeat([assignment]) == [assignment]
    (again,) = queue.assign(current_process())
    assert again.run == assignment.run
    queue.heartbeat([again])
    assert list(queue.reconcile().running) == [assignment.run.name]


def test_an_assignment_starts_with_a_heartbeat(queue):
    """A worker that started long ago gets its next run: its heartbeat is not the time of its start."""
    remote = ProcessInfo("elsewhere", 1, "1", time.time() - 2 * LEASE_TIMEOUT)
    (assignment,) = Queue(tiny_plan(), queue.dir, remote).assign(remote)
    assert list(queue.reconcile().running) == [assignment.run.name]


def test_a_run_that_something_else_has_trained_is_not_assigned(queue):
    first, second = queue.reconcile().waiting[:2]
    finish(queue.dir / first, queue.runs[first])
    assert [assignment.run.name for assignment in queue.assign(current_process())] == [second]
    assert queue.reconcile().ended == [first]


def test_runs_that_failed_as_a_cohort_are_tried_alone(queue):
    queue.reconcile()
    together = queue.assign(current_process(), 3)
    assert len(together) == 3
    for assignment in together:
        queue.settle(assignment, "failed", "no memory")
    queue.reconcile()
    # in the order of the plan, after the other variant, which has never failed
    assignments = [queue.assign(current_process(), 3) for _ in range(4)]
    assert [len(taken) for taken in assignments] == [3, 1, 1, 1]
    assert [taken[0].run for taken in assignments if len(taken) == 1] == [assignment.run for assignment in together]


def test_runs_interrupted_as_a_cohort_are_assigned_together_whatever_the_size_of_new_cohorts(queue):
    """The others are not added to them, so that a cohort on a GPU goes on with the numbers it would have had."""
    queue.reconcile()
    heads = [[run for run in queue.runs.values() if run.levels["model.head"] == head] for head in ("logits", "softmax")]
    members = [run.run_id for run in heads[0][:2]]
    for run in heads[0][:2]:
        (queue.dir / run.name).mkdir()
        resume.write(queue.dir / run.name, {"run_id": run.run_id, "rows": [], "members": members}, {}, durable=False)
    for size in (1, 5):
        taken = [queue.assign(current_process(), size) for _ in range(3)]
        assert [assignment.run for assignment in taken[0]] == heads[0][:2]
        assert [len(part) for part in taken[1:]] == ([1, 1] if size == 1 else [3, 1])
        for assignment in [assignment for part in taken for assignment in part]:
            queue.settle(assignment, "interrupted")
        queue.reconcile()


def test_a_queue_that_cannot_be_written_is_one_line(queue):
    queue.reconcile()
    (queue.dir / "optuna.db").chmod(0o444)
    with queue.store.rdb.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA query_only = ON")
    with pytest.raises(UserError, match=r"optuna\.db: cannot be used \(attempt to write a readonly database\)"):
        queue.assign(current_process())


def test_the_sweep_of_a_dead_worker_settles_its_assignment(queue, tmp_path):
    queue.reconcile()
    worker = subprocess.Popen(["sleep", "600"])
    (assignment,) = queue.assign(process_info(worker.pid))
    worker.kill()
    worker.wait()
    other = Queue(tiny_plan(), tmp_path, current_process())
    for one in (queue, other):  # this process is the sweep, and it is alive
        assert list(one.reconcile().running) == [assignment.run.name]
    assert queue.settle(assignment, "failed", "no memory") == "failed"
    assert len(other.reconcile().waiting) == 6


def test_an_assignment_that_was_taken_over_is_not_changed(queue):
    queue.reconcile()
    (assignment,) = queue.assign(current_process())
    # as another machine does after the lease timeout
    queue.study.tell(assignment.number, state=optuna.trial.TrialState.FAIL)
    assert queue.heartbeat([assignment]) == [assignment]
    assert queue.settle(assignment, "failed", "late") == "taken over"
    assert len(queue.reconcile().waiting) == 6


def test_a_cohort_has_runs_of_one_variant(tmp_path):
    plan = tiny_plan(factors={"model.head": ["logits", "softmax"]}, seeds=4)
    write_plan(plan, tmp_path, "here")
    queue = Queue(plan, tmp_path, current_process())
    queue.reconcile()
    first, second, third = (queue.assign(current_process(), max_runs=3) for _ in range(3))
    heads = [[assignment.run.levels["model.head"] for assignment in part] for part in (first, second, third)]
    assert heads == [["logits"] * 3, ["softmax"] * 3, ["logits"]]  # in the order of the plan, seed by seed
    assert len({assignment.run.name for assignment in first + second + third}) == 7


def fail(queue, error="RuntimeError: no memory"):
    """Fail at the first run of the plan that waits, on a host where nothing has failed yet."""
    (assignment,) = queue.assign(replace(current_process(), host=f"host {len(queue.study.get_trials())}"))
    queue.settle(assignment, "failed", error)
    return assignment.run.name


def test_failures_count_whichever_sweep_had_them_until_a_retry(queue):
    others = [Queue(tiny_plan(), queue.dir, replace(current_process(), start=start)) for start in "12"]
    names = {fail(each) for each in (queue, *others)}
    (name,) = names  # it is the first in the plan
    for each in (queue, *others):
        assert each.reconcile().failed == {name: "RuntimeError: no memory"}
    assert others[0].retry() == [name]
    for each in (queue, *others):
        assert each.reconcile().failed == {}
    assert fail(queue) == name
    assert others[1].retry([list(queue.runs)[1]]) == []
    assert (fail(queue), fail(queue)) == (name, name)
    assert list(others[1].reconcile().failed) == [name]


def test_a_cancelled_queue_assigns_nothing_until_a_retry(queue):
    other = Queue(tiny_plan(), queue.dir, current_process())
    (assignment,) = queue.assign(current_process())
    other.cancel()
    assert queue.assign(current_process()) == []
    assert queue.heartbeat([assignment]) == [] and queue.cancelled
    queue.settle(assignment, "interrupted")
    other.retry()
    assert queue.assign(current_process())[0].run == assignment.run
    assert not queue.cancelled


def test_a_run_that_was_assigned_as_the_connection_was_lost_is_assigned_once(queue, monkeypatch):
    """The database has the trial, and the answer never arrives: the operation is repeated."""
    create, lost = queue.store.rdb.create_new_trial, []

    def create_and_lose(study_id, trial):
        create(study_id, trial)
        if not lost:
            lost.append(trial)
            raise LockLost("the connection was lost")

    monkeypatch.setattr(queue.store, "temporary", (LockLost,))  # as with PostgreSQL
    monkeypatch.setattr(queue.store.rdb, "create_new_trial", create_and_lose)
    (assignment,) = queue.assign(current_process())
    assert [trial.state.name for trial in queue.study.get_trials()] == ["RUNNING"]
    assert list(queue.reconcile().running) == [assignment.run.name]
    (other,) = queue.assign(current_process())
    assert other.run != assignment.run
