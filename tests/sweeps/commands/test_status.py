"""vit-sweep status: every run in its state, whatever a sweep is doing."""

import json
import os
import re
import time
from pathlib import Path

import pytest
from stubbed import finish, tiny_plan

from experiments.files import lock_runs
from experiments.runs import record
from sweeps.study_folder import StudyFolder, the_only_driver


def status(vit_sweep, folder: Path, *options: str) -> str:
    code, out, err = vit_sweep("status", folder, *options)
    assert (code, err) == (0, "")
    return out


def as_json(vit_sweep, folder: Path) -> dict:
    return json.loads(status(vit_sweep, folder, "--json"))


def states(found: dict) -> dict[str, str]:
    return {run["run"]: run["state"] for run in found["runs"]}


@pytest.fixture
def plan(tmp_path):
    plan = tiny_plan(base={"train.epochs": 4})
    StudyFolder(tmp_path, plan).write("vit-sweep run tiny")
    return plan


@pytest.fixture
def every_state(plan, tmp_path):
    """A run of the plan in each state; the names of the runs in the order of the plan. This process trains one."""
    finished, diverged, failed, interrupted, running, _ = plan.runs
    finish(tmp_path / finished.name, finished)
    finish(tmp_path / diverged.name, diverged, "diverged", 2)
    for run in (failed, interrupted, running):
        (tmp_path / run.name).mkdir()
        (tmp_path / run.name / record.CONFIG).write_text("{}")
    (tmp_path / failed.name / record.ERROR).write_text("Traceback:\n  in a file\nRuntimeError: out of memory\n")
    (tmp_path / running.name / record.METRICS).write_text("epoch,lr\n1,0.1\n2,0.1\n3,0.1\n")
    with lock_runs(tmp_path, [running.name], 0), the_only_driver(tmp_path):
        yield [run.name for run in plan.runs]


def test_every_state_is_shown_with_what_belongs_to_it(every_state, tmp_path, vit_sweep):
    found = as_json(vit_sweep, tmp_path)
    expected = ["finished", "diverged", "failed", "interrupted", "running", "waiting"]
    assert states(found) == dict(zip(every_state, expected, strict=True))
    assert found["counts"] == {**dict.fromkeys(expected, 1), "pruned": 0, "unreadable": 0} and found["schema"] == 3
    failed = found["runs"][2]
    assert [run["epochs_done"] for run in found["runs"]] == [4, 2, 0, 0, 3, 0]
    assert {run["epochs"] for run in found["runs"]} == {4}
    assert failed["error"] == "RuntimeError: out of memory"
    assert found["driver"] is True


def test_the_table_counts_variants_and_lists_what_a_reader_wants_to_see(every_state, tmp_path, vit_sweep):
    names = every_state
    short, every = status(vit_sweep, tmp_path), status(vit_sweep, tmp_path, "--all")
    assert short.startswith("tiny: 2 of 6 runs have ended, 1 running, 1 waiting, 1 interrupted, 1 failed, 1 diverged, ")
    assert [name for name in names if name in short] == [names[2], names[4]]
    assert all(name in every for name in names)
    assert re.search(rf"{names[2]} +failed +0/4 .*RuntimeError: out of memory *$", short, re.MULTILINE)
    assert re.search(rf"{names[4]} +running +3/4", short)


def test_a_run_in_training_shows_the_time_since_its_last_epoch(every_state, tmp_path, vit_sweep):
    names = every_state
    saved = tmp_path / names[4] / "resume.safetensors"
    saved.touch()
    os.utime(saved, (time.time() - 1200, time.time() - 1200))
    ages = {run["run"]: run["last_epoch"] for run in as_json(vit_sweep, tmp_path)["runs"]}
    assert 1200 <= ages.pop(names[4]) < 1260 and set(ages.values()) == {None}
    assert re.search(rf"{names[4]} +running +.* 20 min ago +", status(vit_sweep, tmp_path))


def test_it_writes_nothing_and_needs_no_lock_file(plan, tmp_path, vit_sweep):
    finished, interrupted, *_ = plan.runs
    finish(tmp_path / finished.name, finished)
    (tmp_path / interrupted.name).mkdir()
    (tmp_path / interrupted.name / record.METRICS).write_text("epoch\n1\n")
    before = sorted(tmp_path.rglob("*"))
    found = as_json(vit_sweep, tmp_path)
    assert list(states(found).values()) == ["finished", "interrupted", "waiting", "waiting", "waiting", "waiting"]
    assert found["runs"][1]["epochs_done"] == 1
    assert sorted(tmp_path.rglob("*")) == before, "it has written something"


DEEP = "[" * 100_000


@pytest.mark.parametrize(
    "note", [{"rows": 10**400}, {"seconds": {"wall": 10**400}}, {"seconds": {"wall": float("nan")}}, None, DEEP]
)
@pytest.mark.parametrize("place", [3, 4])
def test_an_odd_resume_file_hides_no_other_run(note, place, every_state, tmp_path, vit_sweep):
    stated = note if note is DEEP else json.dumps({"rows": [1], "seconds": {"wall": 1.0}, **note} if note else None)
    header = json.dumps({"__metadata__": {"note": stated}}).encode()
    (tmp_path / every_state[place] / "resume.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    found = states(as_json(vit_sweep, tmp_path))
    assert list(found.values()) == ["finished", "diverged", "failed", "interrupted", "running", "waiting"]
    assert "2 of 6 runs have ended" in status(vit_sweep, tmp_path)


def test_an_odd_record_is_one_line_and_the_rest_is_shown(every_state, tmp_path, vit_sweep):
    for odd in ('{"epochs": null}', DEEP, '{"epochs": 1' + "0" * 400 + "}", '{"status": ["finished"]}'):
        (tmp_path / every_state[0] / record.SUMMARY).write_text(odd)
        out = status(vit_sweep, tmp_path)
        assert out.count(f"{every_state[0]}  unreadable  ") == 1 and f"{every_state[4]}  running " in out


def test_a_tuning_shows_its_trials_and_the_best(stubbed, scripted, vit_sweep):
    """Also where its study has not been trained: there is no study.json."""
    accuracies = {1_000_000: 0.25, 1_000_001: 0.75}

    def train_two(engine):
        while len(engine.ended) < 3:
            yield engine.started[0].end()
        raise KeyboardInterrupt

    scripted(script=train_two, fate=lambda run: {"val/acc": accuracies.get(run.seed, 0.5)})
    vit_sweep("tune", stubbed.study, "--trials", 3, "--out", stubbed.folder)
    _, logits, softmax = status(vit_sweep, stubbed.dir).splitlines()
    assert re.search(r": logits +2 +0 +1 +75\.0 % *$", logits) and re.search(r": softmax +1 +0 +2 +25\.0 % *$", softmax)
    assert not (stubbed.dir / "study.json").exists()
