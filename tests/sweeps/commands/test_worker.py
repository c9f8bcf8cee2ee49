"""vit-sweep worker and cell join the sweep of a study that has been started."""

import os
import signal
from collections import Counter

import pytest
from stubbed import until

from experiments.runs import record


def test_workers_share_the_runs_with_a_sweep(stubbed):
    sweep = stubbed.start("run", stubbed.study, "--out", stubbed.folder, "--workers", 1, nap=0.05)
    until((stubbed.dir / record.STUDY).exists)
    worker = stubbed.start("worker", stubbed.dir, "--workers", 1, nap=0.05)
    for process in (sweep, worker):
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert "6 runs: 6 finished" in out
    assert set(stubbed.started().values()) == set(stubbed.ended().values()) == {1}
    assert len(stubbed.ended()) == 6


def test_a_worker_alone_trains_a_planned_study_and_a_second_one_has_nothing_to_do(stubbed):
    names = stubbed.write_plan()
    assert stubbed("worker", stubbed.dir, "--workers", 2)[0] == 0
    assert stubbed.ended() == Counter(names)
    status, out, _ = stubbed("worker", stubbed.dir, "--workers", 2)
    assert (status, stubbed.started()) == (0, Counter(names))
    assert "6 runs: 6 finished" in out


@pytest.mark.slow
def test_a_worker_gives_up_failed_runs_and_only_retry_makes_new_attempts(stubbed):
    names = stubbed.write_plan()
    failing = {name for name in names if "-s1-" in name}
    status, out, _ = stubbed("worker", stubbed.dir, "--workers", 2, **{"seed 1": "raise"})
    assert status == 1
    assert all(f"failed: {name}: RuntimeError: out of cheese" in out for name in failing)
    assert {name: stubbed.started()[name] for name in failing} == dict.fromkeys(failing, 3)
    assert stubbed("worker", stubbed.dir, "--workers", 2)[0] == 1
    assert sum(stubbed.started().values()) == 10, "it has tried again"
    first, second = sorted(failing)
    assert stubbed("retry", stubbed.dir, first)[:2] == (0, f"{first}\n1 failed run can be trained again\n")
    assert stubbed.states()[first] == "interrupted"
    assert stubbed("worker", stubbed.dir, "--workers", 2)[0] == 1
    assert (stubbed.ended()[first], stubbed.ended()[second]) == (1, 0)


@pytest.mark.slow
def test_cell_trains_the_named_run_once_however_it_is_named(stubbed):
    names = stubbed.write_plan()
    name = names[3]
    for word in (f"run={name}", name):
        status, out, err = stubbed("cell", stubbed.dir, word)
        assert status == 0, err
        assert out.endswith(f"{name}: finished, test/acc 51.0 %\n")
    assert stubbed.started() == stubbed.ended() == {name: 1}
    assert Counter(stubbed.states().values()) == {"finished": 1, "waiting": 5}


@pytest.mark.slow
def test_cell_reports_a_run_that_fails(stubbed):
    name = stubbed.write_plan()[0]
    status, out, _ = stubbed("cell", stubbed.dir, f"run={name}", **{"seed 0": "raise"})
    assert status == 1
    assert f"failed: {name}: RuntimeError: out of cheese" in out
    assert f"vit-sweep retry {stubbed.dir} {name}" in out


@pytest.mark.slow
def test_cell_waits_for_a_run_that_another_process_trains_and_takes_it_over(stubbed):
    name = stubbed.write_plan()[0]
    first = stubbed.start("cell", stubbed.dir, f"run={name}", nap=60)
    until(lambda: stubbed.started()[name] == 1)
    second = stubbed.start("cell", stubbed.dir, f"run={name}")
    assert f"waiting for {name}: process" in second.stderr.readline()
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    out, err = second.communicate(timeout=120)
    assert second.returncode == 0, err
    assert f"{name}: finished" in out
    assert stubbed.ended() == {name: 1}


@pytest.mark.slow
def test_cells_and_a_worker_at_once_train_every_run_once(stubbed):
    names = stubbed.write_plan()
    cells = [stubbed.start("cell", stubbed.dir, f"run={name}", nap=0.1) for name in names[:3]]
    worker = stubbed.start("worker", stubbed.dir, "--workers", 1, nap=0.1)
    for process in (*cells, worker):
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    assert stubbed.started() == stubbed.ended() == Counter(names)


@pytest.mark.parametrize("command", ["worker", "cell"])
def test_a_signal_ends_it_and_releases_its_run(stubbed, command):
    names = stubbed.write_plan()
    words = ["worker", stubbed.dir, "--workers", 1] if command == "worker" else ["cell", stubbed.dir, names[0]]
    process = stubbed.start(*words, nap=60)
    until(lambda: stubbed.started()[names[0]] == 1)
    process.send_signal(signal.SIGUSR2)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGUSR2, err
    assert stubbed.states()[names[0]] == "interrupted"
