"""The driver, with an engine whose events the test gives: who gets which runs, and what counts as an attempt."""

from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from stubbed import finish, tiny_plan

from experiments.errors import UserError
from experiments.runs.record import write_bytes
from sweeps import driver as module
from sweeps.driver import ATTEMPTS, Driver
from sweeps.engines.contract import Done, Epoch, Failed, Task
from sweeps.plan_runs import PlanRuns


class FakeWorker:
    """A worker that notes what it is given."""

    def __init__(self, engine, place):
        self.engine, self.place, self.name = engine, place, f"worker {place}"
        self.given, self.answers, self.stopped = [], [], False

    def train(self, runs):
        self.given.append([run.name for run in runs])

    def answer(self, prune):
        self.answers.append(prune)

    def stop(self, seconds=0.0, replace=True):
        self.stopped = True
        if replace:
            self.engine.room += 1
        else:
            self.engine.places -= 1


class FakeEngine:
    """An engine with so many places."""

    def __init__(self, places):
        self.room = self.places = places
        self.started = []

    def begin(self, task):
        self.task = task

    def start(self):
        self.room -= 1
        self.started.append(FakeWorker(self, self.places - self.room - 1))
        return self.started[-1]


def driver_of(folder, places=1, cohort=1, asks=False, **fields):
    """A driver of the study of two heads and three seeds, whose workers have their first runs."""
    source = PlanRuns(tiny_plan(**fields).runs, folder, cohort)
    driver = Driver(source, FakeEngine(places), Task(folder, folder / "log", asks=asks), Mock(), "test/acc")
    driver._assign()
    return driver


def names(driver):
    return [run.name for run in driver.source.waiting]


def test_a_worker_gets_its_next_runs_in_the_last_epoch_of_a_cohort(tmp_path):
    driver = driver_of(tmp_path, cohort=2)
    (worker,), plan = driver.engine.started, {run.name: run for run in tiny_plan().runs}
    driver._take(worker, Epoch(0, {"epoch": 1}))
    assert len(worker.given) == 1
    for index in (0, 1):
        driver._take(worker, Epoch(index, {"epoch": 2}))  # two of three epochs are done
    assert len(worker.given) == 2 and len(names(driver)) == 2
    first, second = worker.given
    for name in first:
        finish(tmp_path / name, plan[name])
    driver._take(worker, Done({}))
    assert [call.args[0].name for call in driver.display.ended.call_args_list] == first
    driver._assign()
    assert worker.given == [first, second]


@pytest.mark.parametrize("prune", [True, False])
def test_a_worker_that_asks_hears_after_each_epoch_whether_to_prune_and_gets_no_next_run(tmp_path, monkeypatch, prune):
    driver = driver_of(tmp_path, asks=True)
    (worker,) = driver.engine.started
    monkeypatch.setattr(driver.source, "epoch", lambda run, row: prune)
    for epoch in (1, 2, 3):
        driver._take(worker, Epoch(0, {"epoch": epoch}))
    assert worker.answers == [prune] * 3 and len(worker.given) == 1


def test_runs_that_were_not_begun_have_no_failed_attempt_and_those_that_failed_come_last_and_alone(tmp_path):
    driver = driver_of(tmp_path, cohort=2)
    (worker,) = driver.engine.started
    driver._take(worker, Epoch(0, {"epoch": 2}))
    first, second = worker.given
    driver._take(worker, Failed("the worker was killed by SIGKILL"))
    assert worker.stopped and driver.attempts == dict.fromkeys(first, 1)
    assert names(driver)[:2] == second and names(driver)[-2:] == first
    driver._assign()
    while driver.source.left:
        driver._give_next(driver.engine.started[-1])
    assert driver.engine.started[-1].given[-2:] == [[name] for name in first]


def test_a_run_is_given_up_after_three_attempts_and_its_traceback_is_kept(tmp_path):
    driver = driver_of(tmp_path, seeds=1)
    (name,) = driver.engine.started[0].given[0]
    for _ in range(ATTEMPTS):
        worker = driver.engine.started[-1]
        while worker.given[-1] != [name]:  # the other run
            finish(tmp_path / worker.given[-1][0], driver.assigned[worker].cohorts[0][0])
            driver._take(worker, Done({}))
            driver._assign()
        driver._take(worker, Failed("RuntimeError: boom", "the trace"))
        driver._assign()
    assert driver.failed == {name: "RuntimeError: boom"} and (tmp_path / name / "error.txt").read_text() == "the trace"
    assert not driver.source.left


def test_a_run_that_another_process_trains_comes_back_and_is_no_failed_attempt(tmp_path):
    driver = driver_of(tmp_path)
    (worker,) = driver.engine.started
    (name,) = worker.given[0]
    driver._take(worker, Done({name: "process 7 on node1"}))
    assert names(driver)[-1] == name and not driver.attempts
    driver.display.note.assert_called_once_with(f"waiting for {name}: process 7 on node1 trains it")


def test_a_run_that_ended_just_before_its_worker_died_has_ended(tmp_path):
    driver = driver_of(tmp_path, cohort=2)
    (worker,) = driver.engine.started
    (first, second), plan = worker.given[0], {run.name: run for run in tiny_plan().runs}
    finish(tmp_path / first, plan[first])
    driver._take(worker, Failed("the worker was killed by SIGKILL"))
    assert driver.attempts == {second: 1} and not (tmp_path / first / "error.txt").exists()
    driver.display.ended.assert_called_once()


def test_a_record_that_cannot_be_read_costs_its_run_an_attempt(tmp_path):
    driver = driver_of(tmp_path)
    (worker,) = driver.engine.started
    (name,) = worker.given[0]
    (tmp_path / name).mkdir()
    write_bytes(tmp_path / name / "summary.json", b"{")
    driver._take(worker, Done({}))
    assert driver.attempts == {name: 1} and names(driver)[-1] == name


def test_bad_input_of_the_user_ends_the_sweep(tmp_path):
    driver = driver_of(tmp_path)
    with pytest.raises(UserError, match=r"data\.root: 'x' holds no images \(in logits-s0"):
        driver._take(driver.engine.started[0], Failed("data.root: 'x' holds no images", users=True))


def test_three_runs_that_fail_one_after_another_end_a_worker_for_good_and_the_last_one_the_sweep(tmp_path):
    driver = driver_of(tmp_path, places=2, seeds=6)
    for place in (0, 1):
        for count in range(3):
            worker = next(worker for worker in driver.assigned if worker.place == place)
            if (place, count) == (1, 2):
                with pytest.raises(UserError, match="3 runs failed one after another in worker 1, the last with boom"):
                    driver._take(worker, Failed("boom"))
                return
            driver._take(worker, Failed("boom"))
            driver.engine.places, restarted = driver.engine.places, driver.engine.room
            assert restarted == (0 if count == 2 else 1)
            if restarted:
                driver.engine.room, replacement = 0, FakeWorker(driver.engine, place)
                driver.assigned[replacement] = module.Assigned()
                driver._give_next(replacement)


@pytest.mark.parametrize(
    "epoch, silence, hangs", [(1, 590, False), (1, 610, True), (100, 990, False), (100, 1010, True)]
)
def test_a_worker_without_an_epoch_for_ten_of_its_longest_is_stopped_and_no_attempt_counts(
    tmp_path, monkeypatch, epoch, silence, hangs
):
    now = 10_000.0
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    driver = driver_of(tmp_path, cohort=2)
    (worker,) = driver.engine.started
    now += 5_000
    driver._stop_hung()  # the first epoch has no limit: it downloads the images
    driver._begin(worker)
    now += epoch
    driver._take(worker, Epoch(0, {"epoch": 1}))
    now += silence
    driver._stop_hung()
    assert worker.stopped == hangs and not driver.attempts
    assert names(driver)[:2] == worker.given[0] if hangs else len(names(driver)) == 4
    said = f"no epoch for {round(silence / 60)} min; its worker hangs and is stopped"
    assert [said in call.args[0] for call in driver.display.note.call_args_list] == [True] * hangs
