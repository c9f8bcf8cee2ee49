"""What a driver expects of every engine, with real workers that train a tiny model."""

import os
import signal

import tiny
from driving import pid_of, runs
from stubbed import lives, until

from experiments.files import lock_runs
from experiments.runs import record, resume
from sweeps.engines.contract import Done, Epoch, Failed


def test_rows_of_a_stack_arrive_in_order_and_the_next_runs_follow(driving):
    driving.begin()
    worker, (first, second, third) = driving.worker(), runs(3)
    worker.train([first, second])
    worker.train([third])
    *epochs, done = driving.to_end()
    assert [(event.index, event.row["epoch"]) for event in epochs] == [
        (i, epoch) for epoch in (1, 2, 3) for i in (0, 1)
    ]
    assert done == Done([])
    assert [event.row["epoch"] for event in driving.to_end()[:-1]] == [1, 2, 3]
    assert all(record.read_ended(driving.folder, run)["status"] == "finished" for run in (first, second, third))


def test_an_answer_prunes_and_a_lost_one_is_asked_for_again(driving):
    driving.begin(asks=True)
    worker, (run,) = driving.worker(), runs(1, train__epochs=4)
    worker.train([run])
    assert driving.next().row["epoch"] == 1
    worker.answer(False)
    assert driving.next().row["epoch"] == 2
    until(lambda: len(resume.read_note(driving.folder / run.name)["rows"]) == 2)
    worker.stop()  # while it waits for the answer
    worker = driving.worker()
    worker.train([run])
    assert driving.next().row["epoch"] == 2
    worker.answer(False)
    assert driving.next().row["epoch"] == 3
    worker.answer(True)
    assert driving.to_end() == [Done([])]
    assert record.read_ended(driving.folder, run)["status"] == "pruned"


def test_a_killed_worker_is_seen_and_replaced_and_one_that_was_stopped_is_dead(driving):
    driving.begin()
    places = driving.engine.places
    worker, (run,) = driving.worker(), runs(1, train__epochs=400)
    worker.train([run])
    assert [isinstance(driving.next(), Epoch) for _ in range(3)] == [True] * 3
    os.kill(pid_of(worker), signal.SIGKILL)
    failed = driving.to_end()[-1]
    assert isinstance(failed, Failed) and not failed.users
    assert "died" in failed.reason or "killed by SIGKILL" in failed.reason
    worker.stop()
    other = driving.worker()
    assert pid_of(other) != pid_of(worker) and driving.engine.places == places
    other.train([run])
    assert driving.next().row["epoch"] > 1
    other.stop(replace=False)
    until(lambda: not lives(pid_of(other)), seconds=1.0)
    assert driving.engine.places == places - 1


def test_an_idle_worker_that_is_killed_says_so_and_is_replaced(driving):
    """At the latest where it gets its next run: Ray tells nothing of an actor that does nothing."""
    driving.begin()
    worker, (run, other) = driving.worker(), runs(2)
    worker.train([run])
    assert driving.to_end()[-1] == Done([])
    os.kill(pid_of(worker), signal.SIGKILL)
    worker.train([other])
    assert isinstance(driving.next(), Failed)
    worker.stop()
    driving.told.clear()
    driving.worker().train([other])
    assert driving.to_end()[-1] == Done([])


def test_bad_input_and_a_failure_are_told_apart(driving):
    driving.begin()
    worker = driving.worker()
    worker.train(runs(1, data__name="cifar10", data__root=str(driving.folder), data__download=False))
    (failed,) = driving.to_end()
    assert failed.users and "data.root" in failed.reason
    worker.stop()
    worker, (run,) = driving.worker(), runs(1)
    tiny.run(driving.folder / run.name)
    (driving.folder / run.name / record.CHECKPOINT).write_bytes(b"")
    worker.train([run])
    (failed,) = driving.to_end()
    assert not failed.users and failed.trace


def test_a_run_that_another_process_trains_is_left_out_and_its_process_named(driving):
    driving.begin()
    worker, (first, second) = driving.worker(), runs(2)
    with lock_runs(driving.folder, [first.name], 0.0):
        worker.train([first, second])
        *epochs, done = driving.to_end()
    assert {event.index for event in epochs} == {1}
    assert done.locked == [first.name]
