"""What a sweep does with runs that fail, diverge or finish, and what it prints.

Training is replaced by stub_sweep.py.
"""

import re

from stubbed import Stubbed


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
    diverged = [trial for trial in stubbed.trials() if trial.user_attrs.get("status") == "diverged"]
    assert [trial.state.name for trial in diverged] == ["FAIL", "FAIL"]
    assert stubbed.run()[0] == 0
    assert set(stubbed.started().values()) == {1}


def test_a_machine_where_every_run_fails_stops_early_in_one_line_and_leaves_the_others(tmp_path):
    stubbed = Stubbed(tmp_path, seeds=8)
    status, _, err = stubbed.run(**{f"seed {n}": "raise" for n in range(8)})
    assert status == 2 and len(stubbed.started()) <= 8
    line = r"error: 3 runs failed one after another in worker \d+, the last with RuntimeError: out of cheese; it leaves"
    assert len(re.findall(line, err)) == 1
    assert stubbed.run()[0] == 0 and len(stubbed.ended()) == 16  # the cause is gone


def test_a_few_runs_that_all_fail_are_given_up_one_by_one(stubbed):
    status, out, _ = stubbed.run("--seeds", "1", **{"seed 0": "raise"})
    assert status == 1 and "2 runs: 2 failed" in out
    assert set(stubbed.started().values()) == {3}
