"""Exported studies: complete, the same bytes each time, readable with pandas; changes are noticed, user files are
kept.
"""

import dataclasses
import json
import shutil

import pandas as pd
import pytest
from synthetic import add_metrics, change_summary, write_study

from analysis.runs.exported import export
from analysis.runs.folder import read_folder
from analysis.runs.read import read
from experiments.config import RunConfig
from experiments.errors import UserError
from experiments.runs import record

STATUSES = {
    ("none", 0): "incomplete",
    ("none", 1): "diverged",
    ("learned-1d", 2): "absent",
    ("sinusoidal", 0): "pruned",
}


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def same(one, two):
    for name in ("runs", "curves"):
        ours, theirs = getattr(one, name), getattr(two, name)
        assert ours.dtypes.to_dict() == theirs.dtypes.to_dict()
        pd.testing.assert_frame_equal(*(each.astype(object).where(each.notna(), None) for each in (ours, theirs)))
    assert one.plan == two.plan
    assert one.troubles == {run: why.rpartition("/")[2] for run, why in two.troubles.items()}


def test_an_exported_study_is_read_back_as_it_was(tmp_path):
    folder = write_study(tmp_path, seeds=3, statuses=STATUSES)
    shutil.copytree(folder / "v1-s1", folder / "unplanned")
    add_metrics(folder, lambda summary, *_: {"fewshot/digits/5": 0.5, "test/acc@2": 0.25})
    (folder / "v3-s2" / "metrics.csv").write_text("epoch\n1\n")
    study = read_folder(folder, skip_unreadable=True)
    assert set(study.runs["status"]) == {"finished", "diverged", "pruned", "incomplete", "unreadable", "unplanned"}
    same(read(str(export(study, tmp_path / "exported"))), study)


def test_pandas_reads_every_number_that_the_records_hold(tmp_path):
    folder = write_study(tmp_path, seeds=2, epochs=3)
    exported = export(read_folder(folder), tmp_path / "exported")
    # pandas 2 rounds the last digit of some numbers, unless it is told not to
    exactly = {} if pd.__version__ >= "3" else {"float_precision": "round_trip"}
    runs, curves = (pd.read_csv(exported / name, **exactly) for name in ("runs.csv", "curves.csv"))
    assert len(runs) == 8 and len(curves) == 8 * 3
    for row in runs.to_dict("records"):
        config, summary = (
            json.loads((folder / row["run"] / name).read_text()) for name in ("config.json", "summary.json")
        )
        assert row["digest"] == summary["digest"] and row["run_id"] == summary["run_id"]
        assert row["test/acc"] == summary["test/acc"] and row["device_seconds"] == summary["cost"]["device_seconds"]
        assert row["commit"] == summary["provenance"]["commit"] and row["optim.lr"] == config["optim"]["lr"]
    lines = (folder / "v2-s1" / "metrics.csv").read_text().splitlines()[1:]
    assert curves.loc[curves["run"] == "v2-s1", "val/acc"].tolist() == [float(line.split(",")[-1]) for line in lines]


def test_texts_that_look_like_numbers_stay_texts(tmp_path):
    """One seed, one number of shots, a dataset named after a year, a commit of digits: none of them becomes a
    number.
    """
    study = read_folder(write_study(tmp_path, seeds=1))
    texts = {"eval.fewshot": "2024", "eval.shots": "5", "commit": "1e5", "hardware": "", "image_files": None}
    study = dataclasses.replace(study, runs=study.runs.assign(**texts).astype(dict.fromkeys(texts, object)))
    folder = export(study, tmp_path / "exported")
    same(read(str(folder)), study)
    assert ",2024," in (folder / "runs.csv").read_text()  # as it is, without quotes


def test_no_file_of_an_export_names_a_path_of_the_machine(tmp_path):
    data = {"data": {**RunConfig().model_dump()["data"], "root": f"{tmp_path}/data"}}
    command = f"vit-sweep run {tmp_path}/own.yaml --out={tmp_path}/runs --set 'data.root+seed=[{tmp_path}/data, 1]'"
    base = {**RunConfig().model_dump(), **data}
    folder = write_study(tmp_path, seeds=2, command=f"{command} --tuned ~me/tuned.yaml", base=base)
    for run in folder.glob("v*"):
        change_summary(run, provenance={"command": f"{command} --data.root {tmp_path}/data"})
    (folder / "v0-s0" / "metrics.csv").write_text("")
    study = read_folder(folder, skip_unreadable=True)
    exported = export(study, tmp_path / "exported")
    texts = [path.read_text() for path in exported.iterdir()]
    assert str(tmp_path) in study.troubles["v0-s0"] and not any(str(tmp_path) in text for text in texts)
    back = read(str(exported))
    assert back.plan.command == "vit-sweep run own.yaml --out=runs --set 'data.root+seed=[data, 1]' --tuned tuned.yaml"


def test_exporting_twice_gives_the_same_bytes(tmp_path):
    study = read_folder(write_study(tmp_path, seeds=3, statuses=STATUSES))
    first = contents(export(study, tmp_path / "exported"))
    (tmp_path / "exported" / "test_hits.npz").write_bytes(b"hits")
    assert contents(export(study, tmp_path / "exported")) == {**first, "test_hits.npz": b"hits"}  # others stay
    again = export(read(str(tmp_path / "exported")), tmp_path / "again")  # and an export of the export is its copy
    assert contents(again) == first


@pytest.mark.parametrize(
    ("table", "values", "reason"),
    [
        ("runs", {"test/acc": 70.0}, "runs.csv: v0-s0: test/acc: 70 is not allowed: expected a fraction from 0 to 1"),
        ("runs", {"params": "x"}, "runs.csv: v0-s0: params: 'x' is not allowed"),
        ("runs", {"status": ["odd", *["finished"] * 7]}, "runs.csv: v0-s0: status: 'odd' is not allowed"),
        ("runs", {"seed": 7}, "runs.csv: its runs are not those of study.json: .*'v0-s0', 'none', 0"),
        ("curves", {"val/acc": "x"}, "the epochs have a val/acc that is no number"),
    ],
)
def test_values_that_cannot_be_are_refused(tmp_path, table, values, reason):
    study = read_folder(write_study(tmp_path, seeds=2))
    nonsense = dataclasses.replace(study, **{table: getattr(study, table).assign(**values)})
    with pytest.raises(record.RecordError, match=reason):
        read(str(export(nonsense, tmp_path / "exported")))


def test_line_endings_do_not_matter(tmp_path):
    """Git on Windows may change them."""
    study = read_folder(write_study(tmp_path, seeds=2))
    folder = export(study, tmp_path / "exported")
    for path in folder.iterdir():
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    same(read(str(folder)), study)


def test_more_runs_replace_an_export_and_other_or_fewer_runs_do_not(tmp_path):
    few, more, other = (
        read_folder(write_study(tmp_path / name, seeds=seeds, spread=spread))
        for name, seeds, spread in (("few", 2, 0.004), ("more", 3, 0.004), ("other", 3, 0.001))
    )
    folder = export(few, tmp_path / "exported")
    export(more, folder)
    before = contents(folder)
    for study, lost in ((other, 12), (few, 4)):
        with pytest.raises(UserError, match=rf"position: the folder holds {lost} runs that the study has not, for"):
            export(study, folder)
    assert contents(folder) == before


@pytest.mark.parametrize("name", ["runs.csv", "study.json"])
def test_files_of_the_user_are_not_replaced(tmp_path, name):
    study = read_folder(write_study(tmp_path, seeds=2))
    folder = tmp_path / "exported"
    folder.mkdir()
    (folder / name).write_text("{}")
    for place in (folder, tmp_path / "position"):  # the latter are its own run folders
        with pytest.raises(UserError, match="is not part of an export"):
            export(study, place)
    assert contents(folder) == {name: b"{}"} and not list(tmp_path.glob(".*"))


def test_a_study_without_an_ended_run_is_not_exported(tmp_path):
    accuracy = {"none": 0.5, "learned-1d": 0.6}
    study = read_folder(
        write_study(tmp_path, accuracy=accuracy, seeds=1, statuses={(name, 0): "incomplete" for name in accuracy})
    )
    with pytest.raises(UserError, match="no run has finished yet; there is nothing to export"):
        export(study, tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


def test_an_export_keeps_a_folder_of_images_that_the_study_varies(tmp_path):
    roots = ["/a", "/b"]
    folder = write_study(
        tmp_path,
        accuracy={"/a": 0.7, "/b": 0.8},
        seeds=2,
        factors={"data.root": roots},
        levels=lambda root: {"data.root": root},
    )
    again = read(str(export(read_folder(folder), tmp_path / "exported")))
    assert again.plan.factors == {"data.root": roots} and sorted(set(again.runs["data.root"])) == roots
