"""The driver, with an engine whose events the test gives: who gets which runs, and what counts as an attempt."""

import random
from collections import Counter
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from stubbed import finish, tiny_plan

from experiments.config import load
from experiments.errors import UserError
from experiments.files import write_bytes
from sweeps import driver as module
from sweeps.driver import Driver
from sweeps.engines.contract import Done, Epoch, Failed, Task
from sweeps.study_folder import StudyFolder
from sweeps.train_plan import PlanRuns
from sweeps.tuning.space import make_space
from sweeps.tuning.trials import Trials
from sweeps.tuning.tuning_plan import RUNS, TuningPlan


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
    source = PlanRuns(tiny_plan(**fields).runs, StudyFolder(folder, tiny_plan(**fields), {}), cohort)
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
    said = f"no epoch for {silence / 60:.3g} min; its worker hangs and is stopped"
    assert [said in call.args[0] for call in driver.display.note.call_args_list] == [True] * hangs


class Storm(FakeEngine):
    """An engine whose workers die at any moment: idle, in a run, at its end, between two. The others train."""

    def __init__(self, places, folder, rng):
        super().__init__(places)
        self.folder, self.rng, self.ended = folder, rng, Counter()

    def start(self):
        worker = super().start()
        worker.cohorts, worker.epoch = [], 0
        worker.train = worker.cohorts.append
        return worker

    def events(self, seconds):
        worker = self.rng.choice([worker for worker in self.started if not worker.stopped])
        death = [(worker, Failed("the worker was killed by SIGKILL"))] if self.rng.random() < 0.2 else []
        if not worker.cohorts or (death and self.rng.random() < 0.5):
            return death
        runs = worker.cohorts[0]
        worker.epoch += 1
        if worker.epoch <= runs[0].config.train.epochs:
            row = {"epoch": worker.epoch, "val/acc": 0.5, "val/loss": 1.0}
            return [(worker, Epoch(index, row)) for index in range(len(runs))] + death
        for run in worker.cohorts.pop(0):
            if not (self.folder / run.name / "summary.json").exists():
                finish(self.folder / run.name, run, epochs=run.config.train.epochs)
                self.ended[run.name] += 1
        worker.epoch = 0
        return self.rng.choice([[(worker, Done({})), *death], death or [(worker, Done({}))]])


def of_plan(folder):
    plan = tiny_plan(seeds=6)
    return PlanRuns(plan.runs, StudyFolder(folder, plan, {}), 2), [run.name for run in plan.runs]


def of_tuning(folder):
    plan = tiny_plan(seeds=1)
    tuning = TuningPlan(plan, make_space(None, load(plan.base), plan.runs), 4, "random", "none", seeds=2)
    (folder / RUNS).mkdir()
    return Trials(tuning, folder, print), None


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("source_of", [of_plan, of_tuning])
def test_workers_that_die_at_any_moment_cost_no_run_and_no_run_ends_twice(source_of, seed, tmp_path, monkeypatch):
    for limit in ("ATTEMPTS", "FAILURES"):
        monkeypatch.setattr(module, limit, 1000)
    source, names = source_of(tmp_path)
    folder = tmp_path / RUNS if names is None else tmp_path
    engine = Storm(3, folder, random.Random(seed))
    task = Task(folder, tmp_path / "log", asks=source_of is of_tuning)
    driver = Driver(source, engine, task, Mock(), "val/acc")
    driver.run()
    runs = [run.name for trial in source.closed() for run in trial.runs] if names is None else names
    assert engine.ended == Counter(runs) and len(runs) in (12, 16) and not driver.failed


def test_an_idle_worker_that_dies_is_named_and_its_place_is_free_again(tmp_path):
    driver, (run, *_) = driver_of(tmp_path), tiny_plan().runs
    (worker,) = driver.engine.started
    driver.source.waiting.clear()
    finish(tmp_path / run.name, run)
    driver._take(worker, Done({}))
    driver._take(worker, Failed("the worker was killed by SIGKILL (possibly out of memory)"))
    said = "worker 0 had no run: the worker was killed by SIGKILL (possibly out of memory)"
    assert [call.args[0] for call in driver.display.note.call_args_list] == [said]
    assert worker.stopped and driver.engine.room == 1 and not driver.attempts


def test_what_the_user_can_mend_ends_a_sweep_also_where_an_idle_worker_says_it(tmp_path):
    driver, (run, *_) = driver_of(tmp_path), tiny_plan().runs
    (worker,) = driver.engine.started
    finish(tmp_path / run.name, run)
    driver._take(worker, Done({}))
    with pytest.raises(UserError, match="^out: 'sweep.log' cannot be written$"):
        driver._take(worker, Failed("out: 'sweep.log' cannot be written", users=True))
