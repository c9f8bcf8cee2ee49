"""A thread writes the same record as the training itself, and none of its errors is lost."""

import errno
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from torch import Tensor

from experiments.runs import record, resume, run
from experiments.runs.resume import read_note

NOT_REPEATED = ("cost", "provenance", "files", "digest")  # parts of a summary that hold times


@pytest.fixture
def thread(monkeypatch):
    """Use the thread on a CPU too."""
    monkeypatch.setattr(run, "uses_thread", lambda device: True)


def left(folder: Path) -> dict[str, Any]:
    """All that a finished run left, without times."""
    summary = record.read_run(folder, checkpoint=True, predictions=True).summary
    kept = {key: value for key, value in summary.items() if key not in NOT_REPEATED}
    return {**tiny.results(folder), "files": tiny.files(folder), "summary": kept, "digests": summary["files"]}


def test_thread_writes_the_same_record(tmp_path, monkeypatch):
    changes = {"data__hflip": True, "model__attn_drop_rate": 0.1}
    tiny.run(tmp_path / "plain" / "alone", **changes)
    tiny.cohort(tmp_path / "plain")
    threads = set()
    write = resume.write
    monkeypatch.setattr(run, "uses_thread", lambda device: True)
    monkeypatch.setattr(resume, "write", lambda *args: (threads.add(threading.current_thread().name), write(*args))[1])
    tiny.run(tmp_path / "thread" / "alone", **changes)
    assert {name.partition("_")[0] for name in threads} == {"records"}
    tiny.cohort(tmp_path / "thread")
    for name in ("alone", "0", "1", "2"):
        assert left(tmp_path / "thread" / name) == left(tmp_path / "plain" / name)
    statuses = [record.read_summary(tmp_path / "thread" / str(i))["status"] for i in range(3)]
    assert statuses == ["finished", "diverged", "pruned"]


def test_state_is_that_of_its_epoch(tmp_path, thread, monkeypatch):
    """It is copied before the next epoch changes the weights, however late it is written."""
    fit, write, trained = run.fit, resume.write, 0

    def counted(*arguments):
        nonlocal trained
        for rows in fit(*arguments):
            trained += 1
            yield rows

    def late(folder, note, tensors, *rest):
        while trained < min(len(note["rows"]) + 1, 3):
            time.sleep(0.001)
        write(folder, note, tensors, *rest)
        states[len(note["rows"])] = {name: tensor.clone() for name, tensor in tensors.items()}

    states: dict[int, dict[str, Tensor]] = {}
    with monkeypatch.context() as patch:
        patch.setattr(run, "fit", counted)
        patch.setattr(resume, "write", late)
        tiny.run(tmp_path / "late")
    for epoch in (1, 2, 3):
        tiny.cut(tmp_path / "early", epoch)
        _, expected = resume.read(tmp_path / "early")
        assert expected.keys() == states[epoch].keys()
        assert all(torch.equal(tensor, expected[name]) for name, tensor in states[epoch].items())


@pytest.mark.parametrize("epoch", [1, 3])
def test_interrupted_run_keeps_its_last_finished_epoch(epoch, tmp_path, thread):
    tiny.run(tmp_path / "whole")
    tiny.cut(tmp_path / "cut", epoch)
    assert len(read_note(tmp_path / "cut")["rows"]) == epoch
    heard: list[float] = []
    tiny.run(tmp_path / "cut", lambda number, row: heard.append(row["epoch"]))
    assert heard == list(range(epoch + 1, 4))
    assert tiny.results(tmp_path / "cut") == tiny.results(tmp_path / "whole")


@pytest.mark.parametrize("in_thread", [False, True], ids=["plain", "thread"])
@pytest.mark.parametrize("epoch", [2])
def test_full_disk_is_reported_and_the_run_can_be_resumed(epoch, in_thread, tmp_path, monkeypatch):
    replace, calls, heard = os.replace, 0, []

    def full(source, target):
        nonlocal calls
        calls += Path(target).name == resume.NAME
        if calls >= epoch:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(source, target)

    tiny.run(tmp_path / "whole")
    monkeypatch.setattr(run, "uses_thread", lambda device: in_thread)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(record.RecordError, match=r"resume.*: cannot be written: No space left on device$"):
            tiny.run(tmp_path / "cut", lambda number, row: heard.append(row["epoch"]))
    assert heard == list(range(1, epoch + in_thread))  # the failed epoch is heard of, and no later one
    assert not record.is_finished(tmp_path / "cut")
    tiny.run(tmp_path / "cut")
    assert tiny.results(tmp_path / "cut") == tiny.results(tmp_path / "whole")
