"""Interrupted at any moment, the same call ends with the same bytes; members of a cohort end each in its own way."""

import contextlib
import hashlib
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import tiny
import torch
from safetensors.torch import load_file

from experiments.compared import RunSpec
from experiments.errors import UserError
from experiments.files import lock
from experiments.runs import record, resume
from experiments.runs.resume import read_note
from experiments.runs.run import train

ROOT = Path(__file__).resolve().parents[3]

INTERRUPTED = [
    {},
    {"optim__name": "sgd", "data__crop_padding": 1},
    {"optim__name": "adam", "train__precision": "float64", "data__rrc_scale": 0.5},
    {"train__precision": "bfloat16", "model__pos_drop_rate": 0.2, "model__drop_path_rate": 0.2, "model__depth": 2},
    {"optim__schedule": "constant", "eval__epochs": "1,2,3", "eval__fewshot": "digits", "eval__shots": "2"},
    {"model__mlp": "swiglu", "model__layer_scale": 0.1, "model__qk_norm": True, "model__norm_layer": "rmsnorm"},
    {
        "model__pos_embed": "sinusoidal",
        "model__attn_drop_rate": 0.3,
        "data__hflip": True,
        "data__cutmix": 1,
        "data__random_erasing": 0.5,
    },
]


@pytest.mark.parametrize("changes", INTERRUPTED, ids=str)
def test_interrupted_after_any_epoch_ends_with_the_same_bytes(changes, tmp_path):
    whole = tiny.run(tmp_path / "whole", **changes)
    for epoch in (1, 2, 3):
        folder, heard = tmp_path / str(epoch), []
        tiny.cut(folder, epoch, **changes)
        assert not record.has_ended(folder)
        summary = tiny.run(folder, lambda job, row, heard=heard: heard.append(row["epoch"]), **changes)
        assert heard == list(range(epoch + 1, 4))  # no epoch twice
        assert tiny.results(folder) == tiny.results(tmp_path / "whole")
        assert {key: summary[key] for key in summary if "/" in key} == {key: whole[key] for key in whole if "/" in key}


def test_the_error_of_an_earlier_attempt_is_gone_when_another_begins(tmp_path):
    """Not when a sweep has read the record: a kill just before would leave it."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / record.ERROR).write_text("RuntimeError: out of memory")
    tiny.run(tmp_path / "run", lambda *_: pytest.fail("kept") if (tmp_path / "run" / record.ERROR).exists() else None)
    assert tiny.files(tmp_path / "run") == tiny.FILES


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_interrupted_at_any_write_ends_with_the_same_bytes(before, tmp_path, monkeypatch):
    """Power fails just before, or just after, each file that a run puts in place."""
    replace, left = os.replace, math.inf

    def failing(source, target):
        nonlocal left
        left -= 1
        if left == 0 and before:
            raise tiny.Stop
        replace(source, target)
        if left == 0:
            raise tiny.Stop

    tiny.run(tmp_path / "whole", train__epochs=2)
    monkeypatch.setattr(os, "replace", failing)
    for write in range(1, 50):
        folder, left = tmp_path / str(write), write
        try:
            tiny.run(folder, train__epochs=2)
        except tiny.Stop:
            left = math.inf
            tiny.run(folder, train__epochs=2)
        else:
            break
        assert tiny.results(folder) == tiny.results(tmp_path / "whole")
        assert tiny.files(folder) == tiny.FILES
    assert write > 6  # configuration, two epochs of two tiny.files each, checkpoint, table, summary


def rows_in(folder: Path) -> list[Any]:
    """What an unfinished run has to show for itself; nothing where it has just finished."""
    try:
        return read_note(folder)["rows"]
    except ValueError:
        return []


def test_kill_9_then_the_same_command_ends_with_the_same_bytes(tmp_path):
    changes = {"train__epochs": 25, "data__hflip": True}
    command = [sys.executable, "-m", "experiments.main", *tiny.flags(**changes), "--out", str(tmp_path / "killed")]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not (states := list(tmp_path.glob(f"killed/*/{resume.NAME}"))) or len(rows_in(states[0].parent)) < 6:
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    folder = states[0].parent
    assert not record.has_ended(folder)
    whole = tiny.run(tmp_path / "whole", **changes)
    assert tiny.run(folder, **changes)["test/loss"] == whole["test/loss"]
    assert tiny.results(folder) == tiny.results(tmp_path / "whole")
    assert tiny.files(folder) == tiny.FILES


@pytest.mark.parametrize("epochs", [1, 5], ids=["in its last epoch", "before"])
def test_a_run_interrupted_as_it_diverges_is_still_diverged(epochs, tmp_path):
    changes = {"optim__lr": 1e30, "optim__name": "sgd", "optim__schedule": "constant", "train__epochs": epochs}
    whole = tiny.run(tmp_path / "whole", **changes)
    tiny.cut(tmp_path / "cut", whole["epochs"], **changes)
    again = tiny.run(tmp_path / "cut", **changes)
    assert (again["status"], again["epochs"], again["test/acc"]) == ("diverged", whole["epochs"], None)
    assert tiny.results(tmp_path / "cut") == tiny.results(tmp_path / "whole")


COHORT = {"train__precision": "float64", "train__epochs": 4}


def test_members_of_a_cohort_end_each_in_its_own_way(tmp_path):
    summaries = tiny.cohort(tmp_path, **COHORT)
    assert [(s["status"], s["epochs"]) for s in summaries] == [("finished", 4), ("diverged", 1), ("pruned", 2)]
    assert [s["test/acc"] is None for s in summaries] == [False, True, True]
    for i in (0, 2):  # each has the weights and the numbers of its own last epoch
        changes = {"seed": i, "optim__name": "sgd", "optim__schedule": "constant", **COHORT}
        alone = tiny.run(tmp_path / f"alone{i}", lambda job, row, i=i: i == 2 and row["epoch"] == 2, **changes)
        assert summaries[i]["val/loss"] == pytest.approx(alone["val/loss"], rel=1e-9)
        expected = load_file(tmp_path / f"alone{i}" / record.CHECKPOINT)
        for name, weights in load_file(tmp_path / str(i) / record.CHECKPOINT).items():
            torch.testing.assert_close(weights, expected[name], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("job", "epoch"), [(0, 2), (1, 1), (2, 1), (0, 3)])
def test_a_cohort_interrupted_between_its_members_ends_the_same(job, epoch, tmp_path):
    whole = tiny.cohort(tmp_path / "whole", **COHORT)
    with pytest.raises(tiny.Stop):
        tiny.cohort(tmp_path / "cut", tiny.stop_after(epoch, job), **COHORT)
    again = tiny.cohort(tmp_path / "cut", **COHORT)
    assert [(s["status"], s["epochs"]) for s in again] == [(s["status"], s["epochs"]) for s in whole]
    assert again[0]["test/loss"] == pytest.approx(whole[0]["test/loss"], rel=1e-9)
    predictions = [{record.PREDICTIONS}, set(), set()]  # the second diverged and the third was pruned
    ended = tiny.FILES - {record.PREDICTIONS}
    assert [tiny.files(tmp_path / "cut" / str(i)) for i in range(3)] == [ended | more for more in predictions]


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_cohort_killed_between_two_saves_ends_with_the_same_bytes(epoch, tmp_path, monkeypatch):
    """One member is an epoch ahead of the other then, and each goes on by itself, but as in a stack."""
    write = resume.write

    def failing(folder, note, *rest, **options):
        write(folder, note, *rest, **options)
        if folder.name == "0" and len(note["rows"]) == epoch:
            raise tiny.Stop

    def both(out):
        train([RunSpec.of(str(seed), tiny.config(seed=seed)) for seed in (0, 1)], out, device="cpu")

    both(tmp_path / "whole")
    with monkeypatch.context() as patch, pytest.raises(tiny.Stop):
        patch.setattr(resume, "write", failing)
        both(tmp_path / "cut")
    both(tmp_path / "cut")
    for seed in ("0", "1"):
        assert tiny.results(tmp_path / "cut" / seed) == tiny.results(tmp_path / "whole" / seed)


def test_a_pruned_run_killed_before_it_is_sealed_stays_pruned(tmp_path, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(tiny.Stop):
        patch.setattr(record, "write_summary", Mock(side_effect=tiny.Stop))
        tiny.run(tmp_path / "run", lambda job, row: row["epoch"] == 2)
    summary = tiny.run(tmp_path / "run")
    assert (summary["status"], summary["epochs"], summary["test/acc"]) == ("pruned", 2, None)


def test_a_run_that_another_process_trains_is_left_out(tmp_path, monkeypatch):
    """Also of a stack. A second lock of the same process stands for that of another one."""
    monkeypatch.setattr("experiments.runs.run.LOCK_SECONDS", 0.1)
    runs = [RunSpec.of(str(seed), tiny.config(seed=seed)) for seed in range(3)]
    with lock(tmp_path / "locks" / "1"):
        first, left_out, third = train(runs, tmp_path, device="cpu")
    assert first["cost"]["cohort"] == third["cost"]["cohort"] == 2
    assert left_out is None and not (tmp_path / "1").exists()
    assert [summary["status"] for summary in train(runs, tmp_path, device="cpu")] == ["finished"] * 3


def test_every_part_of_a_state_is_under_its_checksum(tmp_path):
    """Any byte that is turned is noticed, or made no difference (white space in a file's head)."""
    tensors = {"w": torch.arange(3.0), "n": torch.tensor(2.0, dtype=torch.float64)}
    resume.write(tmp_path, {"rows": [{"epoch": 1}]}, tensors)
    path, before = tmp_path / resume.NAME, resume.read(tmp_path)
    body = path.read_bytes()
    for place in range(len(body)):
        path.write_bytes(body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :])
        try:
            note, state = resume.read(tmp_path)
        except record.RecordError:
            continue
        assert note == before[0]
        assert all(torch.equal(state[name], before[1][name]) for name in tensors)


def in_sessions(folder: Path, *sessions: tuple[str, bytes, int]) -> dict[str, Any]:
    """The summary of a run that is trained in sessions: (commit, its uncommitted changes, epochs before it is
    interrupted).
    """
    for commit, diff, epochs in sessions:
        code = {"commit": commit, "dirty": bool(diff)}
        with contextlib.suppress(tiny.Stop), pytest.MonkeyPatch.context() as patch:
            patch.setattr("experiments.runs.provenance.code", lambda code=code: code)
            for module in ("provenance", "state"):
                patch.setattr(f"experiments.runs.{module}.uncommitted_diff", lambda diff=diff: diff)
            if epochs == 0:
                patch.setattr("experiments.runs.run.fit", Mock(side_effect=tiny.Stop))
            tiny.run(folder, tiny.stop_after(epochs))
    return record.read_run(folder).summary


def test_a_record_names_the_code_of_each_session_and_holds_its_changes_if_it_saved_an_epoch(tmp_path):
    sessions = [("aaa", b"first", 1), ("aaa", b"lost", 0), ("aaa", b"second", 2), ("bbb", b"", 9)]
    summary = in_sessions(tmp_path / "a", *sessions)
    origin = summary["provenance"]
    assert (origin["commit"], origin["dirty"]) == ("bbb", False)
    machine = {"torch": origin["versions"]["torch"], "hardware": origin["hardware"]}
    digests = [hashlib.sha256(diff).hexdigest() for diff in (b"first", b"second")]
    assert origin["sessions"] == [
        {"epoch": 1, "commit": "aaa", "dirty": True, "diff": digests[0], **machine},
        {"epoch": 2, "commit": "aaa", "dirty": True, "diff": digests[1], **machine},
        {"epoch": 3, "commit": "bbb", "dirty": False, **machine},
    ]
    held = {name: (tmp_path / "a" / name).read_bytes() for name in summary["files"] if name.endswith(".diff")}
    assert held == {"uncommitted.diff": b"first"}
    assert summary["files"][record.DIFF] == digests[0]


@pytest.mark.parametrize("first", [("aaa", b"", 1), ("bbb", b"a change", 0)], ids=["the same code", "no saved epoch"])
def test_a_record_names_no_session_that_is_alike_or_has_saved_no_epoch(first, tmp_path):
    summary = in_sessions(tmp_path / "a", first, ("aaa", b"", 9))
    assert "sessions" not in summary["provenance"] and record.DIFF not in summary["files"]


EDITS = {
    "a setting": lambda path: path.write_bytes(path.read_bytes().replace(b'"depth": 1', b'"depth": 9')),
    "a place": lambda path: path.write_bytes(path.read_bytes().replace(b'"root": "', b'"root": "elsewhere/')),
    "deleted": lambda path: path.unlink(),
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_configuration_that_is_edited_in_training_is_written_anew(edit, tmp_path):
    """The record must state the settings that the run was trained with."""
    tiny.run(tmp_path / "whole")
    path = tmp_path / "a" / record.CONFIG
    tiny.run(tmp_path / "a", lambda job, row: EDITS[edit](path) and None if row["epoch"] == 2 else None)
    assert tiny.results(tmp_path / "a") == tiny.results(tmp_path / "whole")
    record.read_run(tmp_path / "a", checkpoint=True)


def test_a_resume_with_an_edited_setting_is_refused(tmp_path):
    tiny.cut(tmp_path / "a", 2)
    EDITS["a setting"](tmp_path / "a" / record.CONFIG)
    with pytest.raises(UserError, match="belongs to run"):
        tiny.run(tmp_path / "a")


def test_the_source_of_a_plug_in_that_is_edited_in_training_is_written_anew(tmp_path, monkeypatch):
    monkeypatch.setattr("experiments.runs.state.source_files", lambda config: {"plugin/mine.py": b"as it was imported"})
    path = tmp_path / "a" / "plugin" / "mine.py"
    summary = tiny.run(tmp_path / "a", lambda job, row: path.write_bytes(b"edited") and None)
    assert path.read_bytes() == b"as it was imported"
    assert summary["files"]["plugin/mine.py"] == hashlib.sha256(b"as it was imported").hexdigest()
