"""`Driver.run`, with an engine whose events the test gives: who gets which runs, and what counts as an attempt."""

import itertools
import random
from collections import Counter
from unittest.mock import Mock

import pytest
from scripted import KILLED, PAUSE, Scripted
from stubbed import tiny_plan

from experiments.config import load
from experiments.errors import UserError
from sweeps import driver as module
from sweeps.driver import Driver
from sweeps.engines.contract import Task
from sweeps.study_folder import StudyFolder
from sweeps.train_plan import PlanRuns
from sweeps.tuning.trials import Trials
from sweeps.tuning.tuning_plan import RUNS, TuningPlan, make_space


def sweep(folder, script, places=1, cohort=1, asks=False, prune=False):
    """The driver that has trained the study of two heads and three seeds, and its engine."""
    source = PlanRuns(tiny_plan().runs, StudyFolder(folder, tiny_plan(), {}), cohort)
    source.epoch = lambda run, row: prune
    engine = Scripted(places, script)
    driver = Driver(source, engine, Task(folder, folder / "log", asks=asks), Mock(), "test/acc", Mock())
    driver.run()
    assert engine.ended == Counter(run.name for run in tiny_plan().runs) and not driver.failed
    return driver, engine


def said(call):
    return [call.args[0] for call in call.call_args_list]


def test_a_worker_gets_its_next_runs_in_the_last_epoch_of_a_cohort(tmp_path):
    def script(engine):
        (worker,) = engine.started
        yield worker.epoch(1)
        assert len(worker.given) == 1
        yield worker.epoch(2)  # of three
        assert [len(names) for names in worker.given] == [2, 2]
        yield worker.end()
        assert len(worker.given) == 2  # it has its next runs already

    driver, engine = sweep(tmp_path, script, cohort=2)
    assert [run.name for run in said(driver.display.ended)] == [*itertools.chain(*engine.started[0].given)]


@pytest.mark.parametrize("prune", [True, False])
def test_a_worker_that_asks_hears_after_each_epoch_whether_to_prune_and_gets_no_next_run(tmp_path, prune):
    def script(engine):
        (worker,) = engine.started
        for epoch in (1, 2, 3):
            yield worker.epoch(epoch)
        assert worker.answers == [prune] * 3 and len(worker.given) == 1

    sweep(tmp_path, script, asks=True, prune=prune)


def test_runs_that_were_not_begun_have_no_failed_attempt_and_those_that_failed_come_last_and_alone(tmp_path):
    def script(engine):
        yield engine.started[0].epoch(2)
        yield engine.started[0].fail()

    driver, engine = sweep(tmp_path, script, cohort=2)
    (first, second), others = engine.started[0].given, engine.started[1].given
    assert engine.started[0].stopped and driver.attempts == dict.fromkeys(first, 1)
    assert others[0] == second and others[-2:] == [[name] for name in first]


def test_an_idle_worker_that_dies_is_named_and_its_place_is_free_again(tmp_path):
    def script(engine):
        first, second = engine.started
        while len(engine.ended) < 5:
            yield first.end()
        yield first.fail()
        assert first.stopped and engine.room == 1
        yield second.fail()
        assert len(engine.started) == 3

    driver, _ = sweep(tmp_path, script, places=2)
    assert said(driver.display.note) == [f"worker 0 had no run: {KILLED}"] and sum(driver.attempts.values()) == 1


@pytest.mark.parametrize("is_idle", [True, False])
def test_what_the_user_can_mend_ends_a_sweep_also_where_an_idle_worker_says_it(tmp_path, is_idle):
    def script(engine):
        first, _ = engine.started
        while is_idle and len(engine.ended) < 5:
            yield first.end()
        yield first.fail("out: 'sweep.log' cannot be written", users=True)

    with pytest.raises(UserError, match="^out: 'sweep.log' cannot be written" + "$" * is_idle):
        sweep(tmp_path, script, places=2)


def storm(rng):
    """Workers that die at any moment: idle, in a run, at its end, between two."""

    def script(engine):
        epochs = Counter()
        while True:
            worker = rng.choice([worker for worker in engine.started if not worker.stopped])
            death = worker.fail() if rng.random() < 0.2 else []
            if not worker.cohorts or (death and rng.random() < 0.5):
                yield death or PAUSE
                continue
            epochs[worker] += 1
            if epochs[worker] <= worker.cohorts[0][0].config.train.epochs:
                yield worker.epoch(epochs[worker]) + death
                continue
            epochs[worker] = 0
            done = worker.end()
            yield rng.choice([done + death, death or done])

    return script


def of_plan(folder):
    plan = tiny_plan(seeds=6)
    return PlanRuns(plan.runs, StudyFolder(folder, plan, {}), 2), [run.name for run in plan.runs]


def of_tuning(folder):
    plan = tiny_plan(seeds=1)
    tuning = TuningPlan(plan, make_space(None, load(plan.base), plan.runs), 4, "random", "none", seeds=2)
    (folder / RUNS).mkdir()
    return Trials(tuning, folder), None


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("source_of", [of_plan, of_tuning])
def test_workers_that_die_at_any_moment_cost_no_run_and_no_run_ends_twice(source_of, seed, tmp_path, monkeypatch):
    for limit in ("ATTEMPTS", "FAILURES"):
        monkeypatch.setattr(module, limit, 1000)
    source, names = source_of(tmp_path)
    folder = tmp_path / RUNS if names is None else tmp_path
    engine = Scripted(3, storm(random.Random(seed)))
    task = Task(folder, tmp_path / "log", asks=source_of is of_tuning)
    driver = Driver(source, engine, task, Mock(), "val/acc", Mock())
    driver.run()
    runs = [run.name for trial in source.closed() for run in trial.runs] if names is None else names
    assert engine.ended == Counter(runs) and len(runs) in (12, 16) and not driver.failed
