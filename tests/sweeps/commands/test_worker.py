"""vit-sweep worker and cell join the sweep of a study that has been started."""

import os
import signal
from collections import Counter

import pytest
from stubbed import Stub, until

from experiments.runs import record
from sweeps.main import main


@pytest.fixture
def stub(tmp_path) -> Stub:
    return Stub(tmp_path)


def test_workers_share_the_runs_with_a_sweep(stub):
    sweep = stub.start("run", stub.study, "--out", stub.folder, "--workers", 1, nap=0.05)
    until((stub.dir / record.STUDY).exists)
    worker = stub.start("worker", stub.dir, "--workers", 1, nap=0.05)
    for process in (sweep, worker):
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert "6 runs: 6 finished" in out
    assert set(stub.noted("start").values()) == set(stub.noted("end").values()) == {1}
    assert len(stub.noted("end")) == 6


def test_a_worker_alone_trains_a_planned_study_and_a_second_one_has_nothing_to_do(stub):
    names = stub.plan()
    assert stub("worker", stub.dir, "--workers", 2)[0] == 0
    assert stub.noted("end") == Counter(names)
    status, out, _ = stub("worker", stub.dir, "--workers", 2)
    assert (status, stub.noted("start")) == (0, Counter(names))
    assert "6 runs: 6 finished" in out


def test_a_worker_gives_up_failed_runs_and_only_retry_makes_new_attempts(stub):
    names = stub.plan()
    failing = {name for name in names if "-s1-" in name}
    status, out, _ = stub("worker", stub.dir, "--workers", 2, **{"seed 1": "raise"})
    assert status == 1
    assert all(f"failed: {name}: RuntimeError: out of cheese" in out for name in failing)
    assert {name: stub.noted("start")[name] for name in failing} == dict.fromkeys(failing, 3)
    assert stub("worker", stub.dir, "--workers", 2)[0] == 1
    assert sum(stub.noted("start").values()) == 10, "it has tried again"
    first, second = sorted(failing)
    assert stub("retry", stub.dir, first)[:2] == (0, f"{first}\n1 failed run can be trained again\n")
    assert stub.states()[first] == "interrupted"
    assert stub("worker", stub.dir, "--workers", 2)[0] == 1
    assert (stub.noted("end")[first], stub.noted("end")[second]) == (1, 0)


def test_cell_trains_the_named_run_once_however_it_is_named(stub):
    names = stub.plan()
    name = names[3]
    for word in (f"run={name}", name):
        status, out, err = stub("cell", stub.dir, word)
        assert status == 0, err
        assert out.endswith(f"{name}: finished, test/acc 51.0 %\n")
    assert stub.noted("start") == stub.noted("end") == {name: 1}
    assert Counter(stub.states().values()) == {"finished": 1, "waiting": 5}


def test_cell_reports_a_run_that_fails(stub):
    name = stub.plan()[0]
    status, out, _ = stub("cell", stub.dir, f"run={name}", **{"seed 0": "raise"})
    assert status == 1
    assert f"failed: {name}: RuntimeError: out of cheese" in out
    assert f"vit-sweep retry {stub.dir} {name}" in out


def test_cell_waits_for_a_run_that_another_process_trains_and_takes_it_over(stub):
    name = stub.plan()[0]
    first = stub.start("cell", stub.dir, f"run={name}", nap=60)
    until(lambda: stub.noted("start")[name] == 1)
    second = stub.start("cell", stub.dir, f"run={name}")
    assert f"waiting for {name}: process" in second.stderr.readline()
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    out, err = second.communicate(timeout=120)
    assert second.returncode == 0, err
    assert f"{name}: finished" in out
    assert stub.noted("end") == {name: 1}


def test_cells_and_a_worker_at_once_train_every_run_once(stub):
    names = stub.plan()
    cells = [stub.start("cell", stub.dir, f"run={name}", nap=0.1) for name in names[:3]]
    worker = stub.start("worker", stub.dir, "--workers", 1, nap=0.1)
    for process in (*cells, worker):
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    assert stub.noted("start") == stub.noted("end") == Counter(names)


def test_cell_hides_the_run_of_a_wandb_agent_from_the_trained_run(stub, monkeypatch):
    """Otherwise every run of the worker would write into the agent's W&B run."""
    name = stub.plan()[0]
    monkeypatch.setenv("WANDB_RUN_ID", "agents")
    monkeypatch.setenv("WANDB_SWEEP_ID", "agents")
    monkeypatch.setenv("WANDB_SWEEP_PARAM_PATH", str(stub.folder / "none.yaml"))
    assert stub("cell", stub.dir, f"run={name}", environment=str(stub.folder / "seen"))[0] == 0
    seen = (stub.folder / "seen").read_text().splitlines()
    assert "STUB" in seen
    assert not {"WANDB_RUN_ID", "WANDB_SWEEP_ID", "WANDB_SWEEP_PARAM_PATH"} & set(seen)


@pytest.mark.parametrize("command", ["worker", "cell"])
def test_a_signal_ends_it_and_releases_its_run(stub, command):
    names = stub.plan()
    words = ["worker", stub.dir, "--workers", 1] if command == "worker" else ["cell", stub.dir, names[0]]
    process = stub.start(*words, nap=60)
    until(lambda: stub.noted("start")[names[0]] == 1)
    process.send_signal(signal.SIGUSR2)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGUSR2, err
    assert stub.states()[names[0]] == "interrupted"


@pytest.mark.parametrize(
    "words, said",
    [
        (["worker", "nowhere"], "STUDY_DIR: 'nowhere' holds no study.json"),
        (["worker", "tiny", "--workers", "0"], "--workers: '0' is not allowed"),
        (["worker", "tiny", "--device", "tpu9"], "device: 'tpu9' is not available"),
        (["cell", "tiny", "run=logits-s1-0000"], "did you mean 'logits-s"),
        (["worker", "tiny", "--storage", "mysql://host/queue"], "'mysql' is not allowed"),
        (["worker", "tiny", "--seeds", "3"], "--seeds: no such flag"),
        (["cell", "tiny"], "run=NAME"),
        (["cell", "tiny", "run=logits-s1"], "RUN: 'logits-s1' is not a run of tiny; did you mean 'logits-s1-"),
        (["cell", "tiny", "run="], "`vit-sweep status tiny --all` lists them"),
        (["cell", "nowhere", "run=a"], "STUDY_DIR: 'nowhere'"),
    ],
)
def test_bad_input_gives_one_line_and_status_2_and_leaves_nothing(stub, capsys, monkeypatch, words, said):
    stub.plan()
    monkeypatch.chdir(stub.folder)
    before = sorted(stub.folder.rglob("*"))
    with pytest.raises(SystemExit) as exited:
        main(words)
    out, err = capsys.readouterr()
    assert (exited.value.code, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert sorted(stub.folder.rglob("*")) == before
