"""What a sweep does with runs that fail, diverge or finish, and what it prints. The workers train nothing."""

import errno
import re

import pytest
from stubbed import Stubbed

from experiments.errors import UserError
from experiments.files import RecordError

CHEESE = RuntimeError("out of cheese")
FULL = RecordError("metrics.csv: cannot be written: No space left on device")
FULL.__cause__ = OSError(errno.ENOSPC, "")


@pytest.fixture
def sweep(tmp_path, scripted, vit_sweep):
    """Run the study of two heads and three seeds with an engine of these options: it, and what the command prints."""

    def run(*words, seeds=3, places=2, out=tmp_path, **options):
        study, engine = Stubbed(tmp_path, seeds=seeds), scripted(places=places, **options)
        return engine, *vit_sweep("run", study.study, "--out", out, "--tracking", "off", *words)

    return run


def of_seeds(fates):
    return lambda run: fates.get(run.seed, {})


def test_a_run_that_always_fails_is_given_up_with_its_reason_and_the_others_finish(sweep, tmp_path):
    engine, status, out, err = sweep(fate=of_seeds({1: CHEESE}))
    assert status == 1 and "6 runs: 4 finished, 2 failed" in out, err
    (folder,) = tmp_path.glob("tiny/logits-s1-*")
    assert f"failed: {folder.name}: RuntimeError: out of cheese (see {folder}/error.txt)" in out
    assert "RuntimeError: out of cheese" in err and "out of cheese" in (folder / "error.txt").read_text()
    assert engine.tried[folder.name] == 3
    again, status, *_ = sweep()  # the cause is gone; the same command makes three more attempts
    assert status == 0 and len(again.ended) == 2 and {*engine.ended, *again.ended} == {*engine.tried}


def test_bad_input_found_by_a_worker_stops_the_sweep(sweep, tmp_path):
    bad = UserError("data.root: 'nowhere' holds no images")
    _, status, out, err = sweep(out=tmp_path / "new" / "place", fate=of_seeds({0: bad}))
    assert status == 2
    assert out.startswith("tiny: 2 variants x 3 seeds, 6 runs to train")  # said before a worker looks at the data
    assert err.startswith("vit-sweep: error: data.root: 'nowhere' holds no images") and err.count("\n") == 1


def test_diverged_runs_are_not_tried_again_and_the_terminal_shows_what_starts_and_each_score(sweep, tmp_path):
    engine, status, out, err = sweep(fate=of_seeds({1: {"status": "diverged"}}))
    assert status == 0, err
    first, *others, last = out.splitlines()
    assert first.startswith("tiny: 2 variants x 3 seeds, 6 runs to train with 2 workers on the CPU; metric test/acc,")
    assert "equivalence margin 1 point" in first
    assert "6 runs: 4 finished, 2 diverged" in "".join(others) and err.count("finished, test/acc 50.0 %") == 4
    assert last == f"next: vit-report {tmp_path / 'tiny'}"
    again, status, *_ = sweep()
    assert status == 0 and not again.tried and set(engine.tried.values()) == {1}


def test_a_machine_where_every_run_fails_stops_early_in_one_line_and_leaves_the_others(sweep):
    engine, status, _, err = sweep(seeds=8, fate=lambda run: CHEESE)
    assert status == 2 and len(engine.tried) <= 8
    line = r"error: 3 runs failed one after another in worker \d+, the last with RuntimeError: out of cheese; it leaves"
    assert len(re.findall(line, err)) == 1
    again, status, *_ = sweep(seeds=8)
    assert status == 0 and len(again.ended) == 16  # the cause is gone


@pytest.mark.parametrize("seeds", [2, 20])
def test_a_full_disk_ends_a_sweep_of_any_size_in_one_line(sweep, seeds):
    engine, status, _, err = sweep(seeds=seeds, fate=lambda run: FULL)
    assert (status, err.count("\n")) == (2, 1) and len(engine.tried) <= 2
    line = r"^vit-sweep: error: .*: cannot be written: No space left on device \(in (logits|softmax)-s0-"
    assert re.search(line, err), err
    again, status, *_ = sweep(seeds=seeds)
    assert status == 0 and len(again.ended) == 2 * seeds  # there is space again
