"""vit-sweep worker and cell join the sweep of a study that has been started."""

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
