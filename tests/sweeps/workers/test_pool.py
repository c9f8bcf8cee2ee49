"""The pool of workers, with workers whose messages the test gives."""

import contextlib
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import optuna
import pytest
from stubbed import finish, tiny_plan

from sweeps.queue.process import current_process
from sweeps.queue.queue import Queue
from sweeps.workers.pool import StudyCancelled, WorkerPool


class FakeWorker:
    """A worker whose messages the test gives."""

    def __init__(self, config):
        self.config, self.info, self.pipe = config, current_process(), None
        self.assignments, self.upcoming, self.submitted, self.stopped, self.failed = [], [], [], False, set()

    def send(self, message):
        runs, _ = message
        self.submitted.append([run.name for run in runs])

    def receive(self):
        return self.message

    def stop(self, timeout=0.0):
        self.stopped = True


@pytest.fixture
def pool(queue):
    """A pool with one worker, which has the first cohort: two runs of three epochs."""
    display = Mock()
    pool = WorkerPool(queue, [], display, 2, "test/acc")
    pool.workers = [FakeWorker(SimpleNamespace(tuning=False))]
    queue.reconcile()
    pool._assign()
    return pool


def tell(pool, *message):
    (worker,) = pool.workers
    worker.message = message
    pool._receive(worker)


def test_a_worker_gets_its_next_runs_in_the_last_epoch_of_a_cohort(pool):
    (worker,), names = pool.workers, [run.name for run in pool.queue.runs.values()]
    tell(pool, "row", 0, {"epoch": 1})
    assert len(worker.submitted) == 1
    for job in (0, 1):
        tell(pool, "row", job, {"epoch": 2})  # two of three epochs are done
    assert len(worker.submitted) == 2
    first, second = worker.submitted
    assert [a.run.name for a in worker.assignments] == first and [a.run.name for a in worker.upcoming] == second
    assert set(pool.queue.reconcile().running) == {*first, *second}
    for name in first:
        finish(pool.queue.dir / name, pool.queue.runs[name])
    tell(pool, "done")
    assert [a.run.name for a in worker.assignments] == second and worker.upcoming == []
    assert pool.idle == []
    assert set(pool.queue.reconcile().waiting) == {*names} - {*first, *second}


@pytest.mark.parametrize("prune", [True, False])
def test_a_worker_that_trains_a_trial_hears_after_each_epoch_whether_to_prune_it_and_gets_no_next_one(
    pool, monkeypatch, prune
):
    (worker,), sent = pool.workers, []
    worker.config, worker.send = SimpleNamespace(tuning=True), sent.append
    monkeypatch.setattr(pool.queue, "report", lambda assignment, row: prune)
    for epoch in (1, 2, 3):
        tell(pool, "row", 0, {"epoch": epoch})
    assert sent == [prune] * 3 and worker.upcoming == []


def test_runs_that_were_not_begun_are_not_failed_with_those_that_were(pool):
    (worker,) = pool.workers
    tell(pool, "row", 0, {"epoch": 2})
    first, second = worker.submitted
    tell(pool, "died", "the worker was killed by SIGKILL")
    assert worker.stopped and pool.workers == []
    reasons = {
        t.user_attrs["run"]: t.user_attrs["reason"] for t in pool.queue.study.get_trials() if "reason" in t.user_attrs
    }
    assert reasons == {**dict.fromkeys(first, "failed"), **dict.fromkeys(second, "interrupted")}
    assert {*first, *second} <= set(pool.queue.reconcile().waiting)


def test_a_worker_whose_run_was_taken_over_is_stopped_and_its_other_runs_are_enqueued(queue):
    queue.reconcile()
    notes: list[str] = []
    worker = FakeWorker(None)
    worker.assignments = queue.assign(current_process(), 2)
    pool = WorkerPool(queue, [], Mock(note=notes.append), 2, "test/acc")
    pool.workers = [worker]
    lost, kept = worker.assignments
    queue.study.tell(lost.number, state=optuna.trial.TrialState.FAIL)  # as another machine does after the lease timeout
    pool._heartbeat()
    assert worker.stopped and pool.workers == []
    assert notes == [f"{lost.run.name}: another sweep has taken it over"]
    assert kept.run.name in queue.reconcile().waiting


@pytest.mark.parametrize(
    "epoch, silence, hangs", [(1, 590, False), (1, 610, True), (100, 990, False), (100, 1010, True)]
)
def test_a_worker_without_an_epoch_for_ten_of_its_longest_is_stopped_and_no_attempt_counts(
    queue, pool, monkeypatch, epoch, silence, hangs
):
    (worker,), clock = pool.workers, Mock(side_effect=lambda: now)
    monkeypatch.setattr("sweeps.workers.pool.time", SimpleNamespace(monotonic=clock))
    now = 10_000.0 + worker.since
    pool._stop_hung()  # the first epoch has no limit: it downloads the images
    pool._begin(worker, worker.assignments)
    now += epoch
    tell(pool, "row", 0, {"epoch": 1})
    now += silence
    pool._stop_hung()
    assert worker.stopped == hangs
    state = queue.reconcile()
    assert len(state.running) == (0 if hangs else 2) and len(state.waiting) == (6 if hangs else 4)
    said = f"no epoch for {round(silence / 60)} min; its worker hangs and is stopped"
    assert [said in call.args[0] for call in pool.display.note.call_args_list] == [True] * hangs
    assert all(trial.user_attrs.get("reason") != "failed" for trial in queue.study.get_trials())


def test_few_of_the_epochs_of_a_long_run_are_stored_as_intermediate_values(pool, monkeypatch):
    stored, clock = [], [0.0]
    monkeypatch.setattr(pool.queue, "report", lambda assignment, row: stored.append(row["epoch"]))
    monkeypatch.setattr("sweeps.workers.pool.time", SimpleNamespace(monotonic=lambda: clock[0]))
    (worker,), config = pool.workers, SimpleNamespace(train=SimpleNamespace(epochs=300))
    for number, seconds in ((98, 10.0), (99, 0.001)):  # an epoch; the second run is over within a value's interval
        stored.clear()
        worker.assignments = [replace(worker.assignments[0], number=number, run=SimpleNamespace(config=config))]
        for epoch in range(1, 301):
            clock[0] += seconds
            tell(pool, "row", 0, {"epoch": epoch})
        assert (15 <= len(stored) <= 20 and stored[-1] == 300) if number == 98 else stored == []


def test_a_cancelled_sweep_ends_at_a_heartbeat(pool):
    Queue(tiny_plan(), pool.dir, current_process()).cancel()
    pool._heartbeat()
    with pytest.raises(StudyCancelled):
        pool.run()


@pytest.mark.parametrize("error", [None, KeyboardInterrupt])
def test_workers_end_with_the_pool_and_are_killed_after_an_error(pool, error):
    (worker,), sent, begun = pool.workers, [], set(pool.queue.state.running)
    worker.process, worker.send = Mock(), sent.append
    with contextlib.suppress(KeyboardInterrupt), pool:
        assert pool.queue.store.notify is pool.display.note
        if error:
            raise error
    assert worker.stopped and (worker.process.kill.called, sent) == (bool(error), [] if error else [None])
    assert begun and set(pool.queue.reconcile().running) == (set() if error else begun)  # released for the next sweep
