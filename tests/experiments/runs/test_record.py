"""The run folder: whole files or none, numbers back bit for bit, and nothing altered is believed."""

import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.compared import RunSpec
from experiments.errors import UserError
from experiments.files import write_bytes, write_text
from experiments.runs import record
from experiments.runs.record import RecordError

ROWS = [{"epoch": 1, "lr": 0.1, "train/loss": 1 / 3}, {"epoch": 2, "lr": 1e-300, "train/loss": math.nan}]

SETTINGS = {"seed": 0, "data": {"name": "digits"}, "model": {"pos_embed": "none"}, "optim": {"lr": 0.1}, "train": {}}


@pytest.fixture
def folder(tmp_path):
    """A finished run."""
    run = tmp_path / "the-run"
    run.mkdir()
    record.write_json(run / record.CONFIG, SETTINGS)
    write_text(run / record.METRICS, record.metrics_csv(ROWS))
    write_bytes(run / record.CHECKPOINT, b"weights")
    record.write_summary(run, {"run_id": "0123", "status": "diverged", "test/acc": math.nan, "cost": {"params": 7}})
    return run


def refusal(path: Path, **options: Any) -> str:
    """The reason for which the run is refused, in one line that names the file."""
    with pytest.raises(RecordError) as refused:
        record.read_run(path.parent, **options)
    line = str(refused.value)
    assert line.startswith(f"{path}: ")
    assert "\n" not in line
    return line.removeprefix(f"{path}: ")


def test_a_run_reads_back_as_it_was_written(folder):
    run = record.read_run(folder, checkpoint=True)
    assert (run.name, run.dir, run.config) == ("the-run", folder, SETTINGS)
    assert run.rows[0] == ROWS[0]
    assert run.rows[1]["lr"] == 1e-300
    assert math.isnan(run.rows[1]["train/loss"])
    assert (run.summary["status"], run.summary["test/acc"], run.summary["cost"]) == ("diverged", None, {"params": 7})
    assert record.has_ended(folder)


def test_digests_are_what_sha256sum_says(folder):
    summary = json.loads((folder / record.SUMMARY).read_text())
    for name, digest in summary["files"].items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    assert set(summary["files"]) == {record.CONFIG, record.METRICS, record.CHECKPOINT}


@pytest.mark.parametrize("text", ["epoch,val/acc\n1,x\n", "epoch,val/acc\n1\n", "epoch,seed\n1,2\n", "epoch\n2\n1\n"])
def test_a_metrics_file_that_is_no_table_of_numbers_is_an_error(text, tmp_path):
    (tmp_path / record.METRICS).write_text(text)
    with pytest.raises(record.RecordError, match="metrics.csv: is not a table of numbers"):
        record.read_rows(tmp_path / record.METRICS)


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        (record.CONFIG, b'"seed": 0', b'"seed": 1'),
        (record.METRICS, b"0.1", b"0.2"),
        (record.METRICS, b"2,1e-300,nan\n", b""),
        (record.SUMMARY, b'"params": 7', b'"params": 8'),
        (record.SUMMARY, b'"status": "diverged"', b'"status": "finished"'),
        (record.SUMMARY, b'"test/acc": null', b'"test/acc": 0.99'),
    ],
)
def test_an_altered_file_is_refused(folder, name, before, after):
    body = (folder / name).read_bytes()
    assert body.count(before) == 1
    (folder / name).write_bytes(body.replace(before, after))
    assert "it was changed after the run" in refusal(folder / name)


def test_an_altered_checkpoint_is_refused_where_it_matters(folder):
    (folder / record.CHECKPOINT).write_bytes(b"weighty")
    record.read_run(folder)
    assert "it was changed after the run" in refusal(folder / record.CHECKPOINT, checkpoint=True)


@pytest.mark.parametrize("name", [record.CONFIG, record.METRICS, record.CHECKPOINT, record.SUMMARY])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    assert "cannot be read: No such file" in refusal(folder / name, checkpoint=True)
    assert record.has_ended(folder) == (name != record.SUMMARY)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"3", b"\xff\xfe", b"null", b"[" * 5000])
def test_a_summary_that_is_no_object_is_refused(folder, body):
    (folder / record.SUMMARY).write_bytes(body)
    assert refusal(folder / record.SUMMARY)


@pytest.mark.parametrize("name", ["uncommitted.diff", "plugin/z.py", "data_plugin"])
def test_a_link_does_not_enter_the_record(name, folder, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "z.py").write_text("secret")
    (folder / "plugin").mkdir()
    (folder / name).symlink_to(tmp_path / "mine" / "z.py" if "." in name else tmp_path / "mine")
    with pytest.raises(UserError, match="is a link, which is only read"):
        record.write_summary(folder, {"run_id": "0123", "status": "diverged"})


@pytest.mark.parametrize("name", [record.CONFIG, record.METRICS, record.SUMMARY])
def test_a_run_of_a_study_counts_as_done_only_if_its_record_is_whole(folder, name):
    """And the message says what to do."""
    run = RunSpec(run=folder.name, run_id="0123", variant="a", seed=0)
    summary = record.read_ended(folder.parent, run)
    assert summary is not None and summary["status"] == "diverged"
    (folder / name).write_bytes(b"")
    with pytest.raises(RecordError, match=f"{name}: .*; move the run's folder away and train the run again$"):
        record.read_ended(folder.parent, run)


def test_a_record_of_another_schema_or_status_is_refused(folder):
    for change in ({"schema": 2}, {"status": "guessed"}):
        record.write_summary(folder, {"run_id": "0123", "status": "finished", **change})
        assert "unknown schema" in refusal(folder / record.SUMMARY)


def test_numbers_that_are_not_finite_are_null_for_everybody_who_reads_json(tmp_path):
    record.write_json(tmp_path / "x.json", {"a": [math.nan, math.inf, (1.5, -math.inf)]})
    strict = json.loads((tmp_path / "x.json").read_text(), parse_constant=lambda word: pytest.fail(word))
    assert strict == {"a": [None, None, [1.5, None]]}


@given(st.lists(st.floats(), min_size=1, max_size=5))
def test_every_float_reads_back_bit_for_bit(values):
    text = record.metrics_csv([{"epoch": i, "value": value} for i, value in enumerate(values)])
    header, *lines = text.splitlines()
    assert header == "epoch,value"
    back = [float(line.split(",")[1]) for line in lines]
    assert [value.hex() for value in back] == [value.hex() for value in values]


PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)


@given(st.recursive(PLAIN, nested, max_leaves=8))
def test_the_canonical_spelling_says_the_same_and_does_not_depend_on_order(value):
    assert json.loads(record.canonical(value)) == value
    if isinstance(value, dict):
        assert record.canonical(dict(reversed(value.items()))) == record.canonical(value)


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_fails_half_way_leaves_the_old_file_and_nothing_else(step, tmp_path, monkeypatch):
    write_text(tmp_path / "a.txt", "old")

    monkeypatch.setattr(os, step, Mock(side_effect=OSError(28, "No space left on device")))
    with pytest.raises(RecordError, match=r"a\.txt: cannot be written: No space left on device"):
        write_text(tmp_path / "a.txt", "new")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.txt": "old"}
