"""What a sweep does with runs that fail, diverge or finish, and what it prints.

Training is replaced by stub_sweep.py.
"""

import re
import shutil
import time

import pytest
from stubbed import Stubbed, until


def test_a_run_that_always_fails_is_given_up_with_its_reason_and_the_others_finish(stubbed):
    status, out, err = stubbed.run(**{"seed 1": "raise"})
    assert status == 1
    assert "6 runs: 4 finished, 2 failed" in out, err
    (folder,) = stubbed.dir.glob("logits-s1-*")
    assert f"failed: {folder.name}: RuntimeError: out of cheese (see {folder}/error.txt)" in out
    assert "Traceback" in (folder / "error.txt").read_text()
    assert stubbed.started()[folder.name] == 3
    assert stubbed.run()[0] == 0  # the cause is gone; the same command makes three more attempts
    assert set(stubbed.ended().values()) == {1}


def test_modules_of_the_current_folder_are_none_of_the_workers(stubbed):
    for name in ("queue", "socket", "pickle", "safetensors", "vit"):  # of the standard library, of others, and ours
        (stubbed.folder / f"{name}.py").write_text("raise SystemExit('of the current folder')")
    status, out, err = stubbed.run(cwd=stubbed.folder)
    assert status == 0 and "6 runs: 6 finished" in out, err


def test_bad_input_found_by_a_worker_stops_the_sweep(stubbed):
    status, out, err = stubbed.run("--out", str(stubbed.folder / "new" / "place"), **{"seed 0": "refuse"})
    assert status == 2
    assert out.startswith("tiny: 2 variants x 3 seeds, 6 runs to train")  # said before a worker looks at the data
    assert err.startswith("vit-sweep: error: data.root: 'nowhere' holds no images")
    assert err.count("\n") == 1


def test_diverged_runs_are_not_tried_again_and_the_terminal_shows_what_starts_and_each_score(stubbed):
    status, out, err = stubbed.run("--tracking", "off", **{"seed 1": "diverge"})
    assert status == 0, err
    first, *others, last = out.splitlines()
    assert first.startswith("tiny: 2 variants x 3 seeds, 6 runs to train with 2 workers on the CPU; metric test/acc,")
    assert "equivalence margin 1 point" in first
    assert "6 runs: 4 finished, 2 diverged" in "".join(others) and err.count("finished, test/acc 52.0 %") == 2
    assert last == f"next: vit-report {stubbed.dir}"
    assert stubbed.run()[0] == 0
    assert set(stubbed.started().values()) == {1}


def test_a_machine_where_every_run_fails_stops_early_in_one_line_and_leaves_the_others(tmp_path):
    stubbed = Stubbed(tmp_path, seeds=8)
    status, _, err = stubbed.run(**{f"seed {n}": "raise" for n in range(8)})
    assert status == 2 and len(stubbed.started()) <= 8
    line = r"error: 3 runs failed one after another in worker \d+, the last with RuntimeError: out of cheese; it leaves"
    assert len(re.findall(line, err)) == 1
    assert stubbed.run()[0] == 0 and len(stubbed.ended()) == 16  # the cause is gone


@pytest.mark.parametrize("seeds", [2, 20])
def test_a_full_disk_ends_a_sweep_of_any_size_in_one_line(tmp_path, seeds):
    stubbed = Stubbed(tmp_path, seeds=seeds)
    status, _, err = stubbed.run(**{f"seed {n}": "full" for n in range(seeds)})
    assert (status, err.count("\n")) == (2, 1) and len(stubbed.started()) <= 2
    assert re.search(
        r"^vit-sweep: error: .*: cannot be written: No space left on device \(in (logits|softmax)-s0-", err
    ), err
    assert stubbed.run()[0] == 0 and len(stubbed.ended()) == 2 * seeds  # there is space again


def test_a_run_whose_record_is_deleted_meanwhile_is_named_and_the_status_is_1(stubbed):
    sweep = stubbed.start_run(nap=0.5)
    stubbed.wait_for("end")
    (first, _), *_ = stubbed.noted("end")
    until(lambda: (stubbed.dir / first / "summary.json").exists())
    time.sleep(0.2)  # until the driver has settled it
    shutil.rmtree(stubbed.dir / first)
    out, err = sweep.communicate(timeout=60)
    assert sweep.returncode == 1 and "6 runs: 5 finished, 1 deleted" in out, err
    assert f"deleted: {first}: its record was deleted meanwhile" in out
    assert stubbed.run()[0] == 0


def test_a_few_runs_that_all_fail_are_given_up_one_by_one(stubbed):
    status, out, _ = stubbed.run("--seeds", "1", **{"seed 0": "raise"})
    assert status == 1 and "2 runs: 2 failed" in out
    assert set(stubbed.started().values()) == {3}
