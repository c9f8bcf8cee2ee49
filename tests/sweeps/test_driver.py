"""The driver, with an engine whose events the test gives: who gets which runs, and what counts as an attempt."""

from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from stubbed import finish, tiny_plan

from experiments.runs.record import write_bytes
from sweeps import driver as module
from sweeps.driver import Driver
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
