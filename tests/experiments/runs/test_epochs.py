"""A thread writes the records of an epoch while the next is trained, and none of its errors is lost."""

import errno
import math
import os
import time
from pathlib import Path

import pytest
import tiny
import torch
from torch import Tensor

from experiments.runs import record, resume, run
from experiments.training.fit import fit


def test_state_is_that_of_its_epoch(tmp_path, monkeypatch):
    """It is copied before the next epoch changes the weights, however late it is written."""
    fit, write, trained = run.fit, resume.write, 0

    def counted(*arguments):
        nonlocal trained
        for rows in fit(*arguments):
            trained += 1
            yield rows

    def late(folder, note, tensors, durable):
        while trained < min(len(note["rows"]) + 1, 3):
            time.sleep(0.001)
        write(folder, note, tensors, durable)
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


@pytest.mark.parametrize("epoch, interrupted", [(2, False), (2, True), (3, False)])
def test_full_disk_is_reported_and_the_run_can_be_resumed(epoch, interrupted, tmp_path, monkeypatch):
    replace, calls, heard = os.replace, 0, list[float]()

    def full(source, target):
        nonlocal calls
        calls += Path(target).name == resume.NAME
        if calls >= epoch:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(source, target)

    def on_row(number, row):
        heard.append(row["epoch"])
        if interrupted and row["epoch"] == epoch:
            raise KeyboardInterrupt

    tiny.run(tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(record.RecordError, match=r"resume.*: cannot be written: No space left on device$"):
            tiny.run(tmp_path / "cut", on_row)
    assert heard == list(range(1, epoch + 1))  # the failed epoch is heard of, and no later one
    assert not record.has_ended(tmp_path / "cut")
    tiny.run(tmp_path / "cut")
    assert tiny.results(tmp_path / "cut") == tiny.results(tmp_path / "whole")


@pytest.mark.parametrize("name", ["train/acc", "val/acc"])
@pytest.mark.parametrize("undefined", [[2], [3], [1, 2, 3]])
def test_an_accuracy_that_is_not_defined_in_an_epoch_is_missing_there(name, undefined, tmp_path, monkeypatch):
    """The run ends as finished, with the numbers of one whose accuracy is defined."""

    def some_undefined(*arguments):
        for rows in fit(*arguments):
            yield [{**row, name: math.nan if row["epoch"] in undefined else row[name]} for row in rows]

    whole = tiny.run(tmp_path / "whole", train__epochs=3)
    monkeypatch.setattr("experiments.runs.run.fit", some_undefined)
    summary = tiny.run(tmp_path / "runs" / "undefined", train__epochs=3)
    assert summary["status"] == "finished" and summary["test/acc"] == whole["test/acc"]
    assert summary[name] == (None if 3 in undefined else whole[name])
    rows = record.read_rows(tmp_path / "runs" / "undefined" / "metrics.csv")
    assert [row["epoch"] for row in rows if math.isnan(row[name])] == undefined


@pytest.mark.parametrize("name", ["train/loss", "val/loss"])
def test_a_loss_that_is_not_finite_once_is_a_divergence(name, tmp_path, monkeypatch):
    def diverging(*arguments):
        for rows in fit(*arguments):
            yield [{**row, name: math.inf if row["epoch"] == 2 else row[name]} for row in rows]

    monkeypatch.setattr("experiments.runs.run.fit", diverging)
    assert (summary := tiny.run(tmp_path / "run", train__epochs=3))["status"] == "diverged" and summary["epochs"] == 2
