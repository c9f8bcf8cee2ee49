"""A queue that is lost, damaged, or older than its study. Training is replaced by stub_sweep.py."""

import json
from collections import Counter

import pytest


@pytest.mark.slow
def test_finished_runs_are_skipped_when_the_queue_is_lost(stubbed):
    stubbed.run("--seeds", "2")
    (stubbed.dir / "optuna.db").unlink()
    status, _, err = stubbed.run()  # and with more seeds
    assert status == 0
    assert "4 of 6 runs are already done" in err
    assert set(stubbed.ended().values()) == {1}
    assert Counter(trial.state.name for trial in stubbed.trials()) == {"COMPLETE": 6}
    assert json.loads((stubbed.dir / "study.json").read_text())["seeds"] == [0, 1, 2]
    before = len(stubbed.trials())
    assert stubbed.run("--seeds", "1")[0] == 0
    assert len(stubbed.trials()) == before


@pytest.mark.slow
def test_a_run_whose_record_was_deleted_is_trained_again(stubbed):
    stubbed.run()
    (folder,) = stubbed.dir.glob("softmax-s2-*")
    (folder / "summary.json").unlink()
    assert stubbed.run()[0] == 0
    assert stubbed.ended()[folder.name] == 2
    assert sum(stubbed.ended().values()) == 7
