"""Runs that a study takes from an export, or from the folder of another study: trained once, told apart, never lost."""

import hashlib
import json
import os
import shutil
from pathlib import Path

import pandas as pd
import pytest
import tiny
import yaml
from commands import refusal
from study_file import read_study, write_study

import analysis.main
from analysis.runs.read import read
from experiments.errors import UserError
from experiments.runs.trained import load_model
from sweeps.main import main

KINDS = ["none", "learned-1d", "sinusoidal", "learned-2d"]
TIMES = {"wall_seconds", "device_seconds", "images_per_second", "device_seconds_ratio", "started", "finished"}
OF_A_STUDY = {"command", "digest", "reused_from"}


def sweep(*words):
    with pytest.raises(SystemExit) as exited:
        main(list(map(str, words)))
    assert exited.value.code == 0


def file(folder, name, kinds, **more):
    path = folder / f"{name}.yaml"
    base = tiny.settings(train__epochs=2)
    path.write_text(
        yaml.safe_dump({"name": name, "factors": {"model.pos_embed": kinds}, "base": base, "seeds": 2, **more})
    )
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """`four`: a study of four kinds, and its export; `mine`: five kinds, four of the export; `every`: all trained."""
    folder = tmp_path_factory.mktemp("reuse")
    usual = ("--workers", 1, "--tracking", "off", "--out")
    sweep("run", file(folder, "four", KINDS), *usual, folder)
    analysis.main.body(["export", str(folder / "four"), str(folder / "export")])
    five = file(folder, "mine", [*KINDS, "rope-2d"], reuse=["./export"])
    sweep("run", five, *usual, folder)
    (folder / "every").mkdir()
    shutil.copytree(folder / "four", folder / "every" / "mine", ignore=lambda *_: ["study.json"])
    sweep("run", file(folder / "every", "mine", [*KINDS, "rope-2d"]), *usual, folder / "every")
    return folder


@pytest.fixture
def folder(trained, tmp_path):
    """A copy that a test may change."""
    return Path(shutil.copytree(trained, tmp_path / "copy"))


def answers(study_dir, capsys, *words):
    capsys.readouterr()
    analysis.main.body([str(study_dir), *words])
    return capsys.readouterr().out


def tables(study_dir):
    return {path.name: pd.read_csv(path, dtype=str) for path in (study_dir / "report" / "tables").glob("*.csv")}


def test_only_the_kind_that_the_export_lacks_is_trained(trained):
    runs = [path.parent.name for path in (trained / "mine").glob("*/summary.json")]
    assert len(runs) == 2 and all(name.startswith("rope-2d-s") for name in runs)
    (source,) = read_study(trained / "mine")["sources"]
    digest = hashlib.sha256((trained / "export" / "runs.csv").read_bytes()).hexdigest()
    assert source == {"folder": "../export", "digest": digest}
    assert "sources" not in read_study(trained / "every" / "mine")


def test_answers_are_those_of_a_study_that_trained_all(folder, capsys):
    mine, every = (json.loads(answers(one, capsys, "--json")) for one in (folder / "mine", folder / "every" / "mine"))
    (note,) = [one for one in mine["warnings"] if one not in every["warnings"]]
    assert note.startswith("8 of 10 runs are reused, from export. They had ended when this study took them")
    assert {**mine, "warnings": every["warnings"]} == every
    for one in (folder / "mine", folder / "every" / "mine"):
        answers(one, capsys)
    mine, every = tables(folder / "mine"), tables(folder / "every" / "mine")
    assert mine.pop("trained_on.csv")["reused"].tolist() == ["2"] * 4 + ["0"] and mine.keys() == every.keys()
    for name, theirs in every.items():
        kept = [column for column in theirs if column not in TIMES | OF_A_STUDY]
        assert set(mine[name]) == set(theirs)
        pd.testing.assert_frame_equal(mine[name][kept], theirs[kept])
    assert mine["runs.csv"]["reused_from"].fillna("").tolist() == (["export"] * 4 + [""]) * 2


def test_its_export_holds_the_rows_and_reads_no_source(folder, capsys):
    answers(folder / "mine", capsys)
    before = answers(folder / "mine", capsys, "--json")
    analysis.main.body(["export", str(folder / "mine"), str(folder / "out")])
    shutil.rmtree(folder / "export")
    stated = read_study(folder / "out")
    assert [source["folder"] for source in stated["sources"]] == ["export"]
    assert json.loads(answers(folder / "out", capsys, "--json")) == json.loads(before)


def test_a_reused_run_has_no_model(folder):
    name = next(run["run"] for run in read_study(folder / "mine")["runs"] if run["variant"] == "none")
    with pytest.raises(UserError, match=rf"{name}' is reused from \S+/export, which has no checkpoint;"):
        load_model(folder / "mine" / name)


def test_plan_status_cell_and_a_dry_run_count_it_as_ended(folder, vit_sweep):
    study = folder / "mine"
    status, out, _ = vit_sweep("plan", study, "--seeds", 3)
    assert status == 0 and out.startswith(
        "reused: 8 of 15 runs of export\n15 runs, 5 left\nsbatch --array=10-14 array.sh\n"
    )
    states = json.loads(vit_sweep("status", study, "--json")[1])
    assert states["counts"] | {"finished": 10, "waiting": 5} == states["counts"]
    assert [run["reused_from"] for run in states["runs"][:5]] == ["export"] * 4 + [None]
    status, out, err = vit_sweep("cell", study, "--index", 0, "--tracking", "off")
    first = read_study(study)["runs"][0]["run"]
    assert status == 0 and out.startswith(f"{first}: finished, test/acc ") and not (study / first).exists(), err
    out = vit_sweep("run", folder / "mine.yaml", "--out", folder, "--dry-run")[1]
    assert "10 runs, 10 done" in out and out.endswith("reused: 8 of 10 runs of export\n")


@pytest.fixture
def line(folder, refused):
    """What `run` says where it cannot take the runs of the export; nothing is trained or written."""

    def said():
        line = refused("run", folder / "mine.yaml", "--out", folder / "new", "--tracking", "off")
        assert not (folder / "new").exists()
        return line

    return said


def change(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def table(export, column, cell):
    """Change a cell of every run of an export."""
    rows = pd.read_csv(export / "runs.csv", dtype=str, keep_default_na=False)
    rows[column] = cell
    rows.to_csv(export / "runs.csv", index=False)


def test_what_is_measured_beside_the_metric_does_not_count_and_other_settings_do(folder, vit_sweep):
    def said(*words):
        status, out, err = vit_sweep("run", folder / "mine.yaml", "--out", folder / "new", "--dry-run", *words)
        assert status == 0, err
        return next(line for line in out.splitlines() if line.startswith("reused: "))

    assert said("--eval.max-shift", 2) == "reused: 8 of 10 runs of export"
    assert said("--data.root", "elsewhere") == "reused: 8 of 10 runs of export"
    assert (
        said("--data.root", "elsewhere", "--train.epochs", 3)
        == "reused: 0 of 10 runs of export: it differs in train.epochs"
    )
    assert said("--seeds", "7,8") == "reused: 0 of 10 runs of export: it has other seeds, or no test/acc"


@pytest.mark.parametrize(
    ("column", "cell"),
    [("status", "diverged"), ("test/acc", ""), ("run_id", "0" * 16), ("optim.lr", "0.5"), ("test/acc", "much")],
)
def test_a_run_counts_only_if_it_has_finished_with_the_metric_and_its_id_is_that_of_its_settings(
    folder, vit_sweep, column, cell
):
    table(folder / "export", column, cell)
    status, out, err = vit_sweep("run", folder / "mine.yaml", "--out", folder / "new", "--dry-run")
    assert status == 0 and "reused: 0 of 10 runs of export: " in out and "To train: 10 runs" in out, err


def test_what_is_no_export_is_one_line(line, folder):
    (folder / "export" / "study.json").write_text("{")
    assert f"{folder}/export/study.json: is not JSON" in line()
    change(folder / "mine.yaml", "./export", "./four")
    assert "four' is no export; `vit-report export STUDY_DIR FOLDER` writes one" in line()
    shutil.rmtree(folder / "four")
    assert "reuse: './four' is no folder" in line()


@pytest.mark.parametrize("command", ["run", "plan", "status", "cell", "report"])
def test_what_changed_or_is_gone_is_one_line_of_every_command(folder, command, refused, capfd):
    study = folder / "mine"

    def said():
        if command == "report":
            return refusal(read, str(study))
        return refused(command, study, *(["--index", "0"] if command == "cell" else []))

    shutil.rmtree(folder / "export")
    assert "export' is missing; restore it, or give its new place: vit-sweep run STUDY --reuse FOLDER" in said()
    (folder / "export").mkdir()
    (folder / "export" / "runs.csv").write_text("run,run_id\n")
    assert "export' is another one than when this study took runs of it; restore it, or choose another --out" in said()


def test_a_source_that_moved_is_given_its_new_place(folder, vit_sweep):
    (folder / "export").rename(folder / "moved")
    status, out, err = vit_sweep("run", folder / "mine", "--reuse", folder / "moved", "--tracking", "off")
    assert status == 0 and "reused: 8 of 10 runs of moved\n" in out and "10 runs: 10 finished" in out, err
    assert [one["folder"] for one in read_study(folder / "mine")["sources"]] == ["../moved"]


def test_a_folder_of_a_stranger_has_at_most_runs_csv_opened_where_it_points(folder, tmp_path, refused):
    place, study = tmp_path / "place", folder / "mine"
    place.mkdir()
    write_study(study, {**read_study(study), "sources": [{"folder": str(place), "digest": "0" * 64}]})
    os.mkfifo(place / "runs.csv")  # whoever opened it would wait for ever
    assert f"{place}' is missing" in refused("status", study)
    os.unlink(place / "runs.csv")
    (place / "runs.csv").write_text("secret")
    assert "secret" not in (said := refused("status", study)) and "is another one than when" in said
    write_study(study, {**read_study(study), "sources": [{"folder": "a\0b", "digest": "0" * 64}]})
    assert "sources.0.folder: " in refused("status", study)
