"""Runs that a study takes from an export, or from the folder of another study: trained once, told apart, never lost."""

import json
import os
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest
import tiny
import yaml
from commands import refusal
from study_file import read_study, write_study
from synthetic import change_summary

import analysis.main
from analysis.runs.read import read
from analysis.studies.ledger import independent_groups
from experiments.errors import UserError
from experiments.locks import lock
from experiments.runs.exports import file_digest, study_digest
from experiments.runs.tracking.notes import changed_runs
from experiments.runs.trained import load_model
from sweeps.main import main

KINDS = ["none", "learned-1d", "sinusoidal", "learned-2d"]
TIMES = {"wall_seconds", "device_seconds", "images_per_second", "device_seconds_ratio", "started", "finished"}
OF_A_STUDY = {"command", "digest", "reused_from", "planned_metric", "planned_margin", "planned_baseline"}


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
    assert sorted(changed_runs(trained / "mine")) == sorted(runs)  # what W&B gets
    (source,) = read_study(trained / "mine")["reuse"]
    assert source == {"folder": "../export", "digest": read_study(trained / "export")["export"]["digest"]}
    assert "reuse" not in read_study(trained / "every" / "mine")


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
        kept = [column for column in theirs if column not in TIMES | OF_A_STUDY and "planned" not in column]
        assert set(mine[name]) == set(theirs)
        pd.testing.assert_frame_equal(mine[name][kept], theirs[kept])
    assert mine["runs.csv"]["reused_from"].fillna("").tolist() == (["export"] * 4 + [""]) * 2


def test_its_export_holds_the_rows_and_reads_no_source(folder, capsys):
    answers(folder / "mine", capsys)
    before = answers(folder / "mine", capsys, "--json")
    analysis.main.body(["export", str(folder / "mine"), str(folder / "out")])
    shutil.rmtree(folder / "export")
    stated = read_study(folder / "out")
    assert [source["folder"] for source in stated["reuse"]] == ["export"]
    assert json.loads(answers(folder / "out", capsys, "--json")) == json.loads(before)


def test_shared_runs_are_one_piece_of_evidence(trained):
    studies = {name: read(str(trained / name)) for name in ("four", "mine")}
    assert independent_groups(studies) == [["four", "mine"]]


def test_a_reused_run_has_no_model_and_its_line_in_the_report_no_link(folder, capsys):
    name = next(run["run"] for run in read_study(folder / "mine")["runs"] if run["variant"] == "none")
    with pytest.raises(UserError, match=rf"{name}' is reused from \S+/export, and its record has no checkpoint here;"):
        load_model(folder / "mine" / name)
    answers(folder / "mine", capsys)
    page = (folder / "mine" / "report" / "report.html").read_text()
    linked = set(re.findall(r"\.\./([\w-]+)/summary\.json", page))
    assert len(linked) == 2 and all(run.startswith("rope-2d-s") for run in linked)


def test_a_run_whose_settings_are_written_in_another_way_is_the_same(folder, vit_sweep):
    """The natural site of a table is the stem, so both have one run id."""
    base = tiny.settings(train__epochs=2, model__pos_embed="learned-1d")
    sites = {"name": "sites", "factors": {"model.pos_site": ["stem", "every-layer"]}, "base": base, "seeds": 2}
    (folder / "sites.yaml").write_text(yaml.safe_dump(sites))
    out = vit_sweep("plan", folder / "sites.yaml", "--out", folder, "--reuse", folder / "export")[1]
    assert out.startswith("reused: 2 runs of export\n4 runs, 2 left\n")
    runs = read(str(folder / "sites")).runs
    assert runs["status"].tolist() == ["finished", "incomplete"] * 2
    assert runs["model.pos_site"].tolist() == ["stem", "every-layer"] * 2


def test_a_run_with_other_settings_than_its_id_says_is_one_line(folder):
    seal(folder / "export", "optim.lr", "0.5")
    tree = read_study(folder / "mine")
    tree["reuse"][0]["digest"] = read_study(folder / "export")["export"]["digest"]
    write_study(folder / "mine", tree)
    with pytest.raises(UserError, match=r"reuse: export: learned-1d-s0-\w+: optim.lr is '0.5', planned is '0.005'"):
        read(str(folder / "mine"))


def test_plan_status_cell_and_show_count_it_as_ended(folder, vit_sweep):
    study = folder / "mine"
    status, out, _ = vit_sweep("plan", study, "--seeds", 3)
    assert status == 0 and out.startswith("reused: 8 runs of export\n15 runs, 5 left\nsbatch --array=10-14 array.sh\n")
    states = json.loads(vit_sweep("status", study, "--json")[1])
    assert states["counts"] | {"finished": 10, "waiting": 5} == states["counts"]
    assert [run["reused_from"] for run in states["runs"][:5]] == ["export"] * 4 + [None]
    status, out, err = vit_sweep("cell", study, "--index", 0, "--tracking", "off")
    first = read_study(study)["runs"][0]["run"]
    assert status == 0 and out.startswith(f"{first}: finished, test/acc ") and not (study / first).exists(), err
    out = vit_sweep("show", folder / "mine.yaml", "--out", folder)[1]
    assert "10 runs, 10 done" in out and out.endswith("reused: 8 runs of export\n")


def test_the_records_of_a_study_are_a_source_and_another_version_of_pytorch_is_named(folder, vit_sweep):
    for path in (folder / "four").glob("*/summary.json"):
        change_summary(path.parent, provenance={"versions": {"torch": "1.13.0"}})
    change(folder / "mine.yaml", "./export", "./four")
    status, out, err = vit_sweep("run", folder / "mine.yaml", "--out", folder / "new", "--dry-run")
    assert status == 0 and "reused: 8 runs of four, trained by PyTorch 1.13.0; here it is " in out, err
    assert "To train: 2 runs" in out


def test_a_run_without_the_metric_of_the_study_is_trained(folder, vit_sweep):
    change_summary(next((folder / "four").glob("none-s0-*")), **{"test/acc": None})  # as a study of val/acc leaves it
    change(folder / "mine.yaml", "./export", "./four")
    out = vit_sweep("run", folder / "mine.yaml", "--out", folder / "new", "--dry-run")[1]
    assert "reused: 7 runs of four\n" in out and "To train: 3 runs" in out


def test_pairs_across_versions_are_named(folder, capsys):
    for path in (folder / "mine").glob("rope-2d-*/summary.json"):
        change_summary(path.parent, provenance={"versions": {"torch": "1.13.0"}})
    warnings = json.loads(answers(folder / "mine", capsys, "--json"))["warnings"]
    (note,) = [one for one in warnings if one.startswith("In ")]
    assert note.startswith("In 4 of 10 pairs, runs of the same seed were trained on other hardware or by another")
    assert note.count("rope-2d") == 4


def test_until_decided_goes_on_from_the_runs_that_there_are(folder, vit_sweep):
    five = file(folder, "until", [*KINDS, "rope-2d"], reuse=["./export"], looks=[2, 3])
    status, out, err = vit_sweep("run", five, "--until-decided", "--out", folder, "--workers", 1, "--tracking", "off")
    assert status == 0 and "look at 2 seeds: " in out, err
    line = re.search(r"seeds until decided: (\d+) of 15 runs trained or reused \(8\), (\d+) saved", out)
    trained = len(list((folder / "until").glob("*/summary.json")))
    assert trained == int(line[1]) - 8 and not list((folder / "until").glob("none-s0-*"))


def seal(export, column, cell):
    """Change a cell of the second run of an export, and seal it again."""
    table = pd.read_csv(export / "runs.csv", dtype=str, keep_default_na=False)
    table.loc[1, column] = cell
    table.to_csv(export / "runs.csv", index=False)
    tree = read_study(export)
    tree["export"]["tables"]["runs.csv"]["digest"] = file_digest("runs.csv", (export / "runs.csv").read_bytes())
    tree["export"]["digest"] = study_digest(tree)
    write_study(export, tree)


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


def test_a_damaged_export_is_one_line(folder, line):
    change(folder / "export" / "runs.csv", "0.1", "0.9")
    assert f"{folder}/export/runs.csv: does not match its digest in study.json" in line()
    change(folder / "export" / "study.json", '"test/acc"', '"val/acc"')
    assert f"{folder}/export/study.json: does not match its own digest" in line()
    (folder / "export" / "study.json").write_text("{")
    assert f"{folder}/export/study.json: is not JSON" in line()
    shutil.rmtree(folder / "export")
    assert "reuse: './export' is no folder" in line()


@pytest.mark.parametrize(
    ("column", "cell"), [("epochs", "inf"), ("test/acc", "1e999"), ("test/acc", "[" * 9999), ("test_images", "{}")]
)
def test_a_sealed_export_with_impossible_values_is_one_line(folder, line, column, cell):
    seal(folder / "export", column, cell)
    assert f"{folder}/export/runs.csv: is not what an export holds: " in line()


@pytest.mark.parametrize("linked", ["export/runs.csv", "four/none-s1-*"])
def test_links_are_not_followed(folder, line, linked):
    (path,) = folder.glob(linked)
    path.rename(folder / "elsewhere")
    path.symlink_to(folder / "elsewhere")
    change(folder / "mine.yaml", "./export", f"./{path.parent.name}")
    assert f"{path}' is a link, which is not followed" in line()


def test_a_study_in_training_and_runs_without_a_plan_are_one_line(folder, refused, capfd):
    words = ("run", folder / "mine.yaml", "--out", folder / "new", "--reuse")
    run = next((folder / "four").glob("none-s0-*")).name
    for held in ("driver.lock", f"locks/{run}"):
        with lock(folder / "four" / held):
            assert f"four' is in training by process {os.getpid()} on " in refused(*words, folder / "four")
    assert "'none' is no study of analysis/reference" in refused(*words, "none")
    assert "is the folder of the study itself" in refused(*words[:2], "--out", folder, "--reuse", folder / "mine")
    (folder / "runs.csv").write_text("method,seed,acc\na,0,1\na,1,2\nb,0,3\nb,1,4\n")
    analysis.main.body(["export", str(folder / "runs.csv"), str(folder / "table"), "--metric", "acc"])
    capfd.readouterr()
    assert "table' holds runs of csv:runs.csv, which no study planned" in refused(*words, folder / "table")


@pytest.mark.parametrize("command", ["run", "plan", "status", "cell", "report"])
def test_what_changed_or_is_gone_is_one_line_of_every_command(folder, command, refused, capfd):
    study = folder / "mine"

    def said():
        if command == "report":
            return refusal(read, str(study))
        return refused(command, study, *(["--index", "0"] if command == "cell" else []))

    shutil.rmtree(folder / "export")
    assert "export' is missing; restore it, or give its new place: vit-sweep run STUDY --reuse FOLDER" in said()
    analysis.main.body(["export", str(study.with_name("every") / "mine"), str(folder / "export")])
    capfd.readouterr()
    assert "export' is another one than when this study took runs of it; restore it, or choose another --out" in said()


def test_a_source_that_moved_is_given_its_new_place(folder, vit_sweep):
    (folder / "export").rename(folder / "moved")
    status, out, err = vit_sweep("run", folder / "mine", "--reuse", folder / "moved", "--tracking", "off")
    assert status == 0 and "reused: 8 runs of moved\n" in out and "10 runs: 10 finished" in out, err
    assert [one["folder"] for one in read_study(folder / "mine")["reuse"]] == ["../moved"]


def test_a_folder_of_a_stranger_has_at_most_study_json_opened_where_it_points(folder, tmp_path, refused):
    """Only with the right digest is more of it read. An export never has its sources opened."""
    place = tmp_path / "place"
    place.mkdir()
    study, export = folder / "mine", folder / "export"
    for path, tree in ((path, read_study(path)) for path in (study, export)):
        write_study(path, {**tree, "reuse": [{"folder": str(place), "digest": "0" * 64}]})
    os.mkfifo(place / "study.json")  # whoever opened it would wait for ever
    assert f"{place}/study.json: is not a file" in refused("status", study)
    with pytest.raises(UserError, match="does not match its own digest"):
        read(str(export))  # sealed again, it would be read without the pipe: see `test_its_export_...`
    os.unlink(place / "study.json")
    shutil.copytree(folder / "four", place, dirs_exist_ok=True)
    (place / "study.json").write_text(json.dumps({"root": "x", "password": "secret"}))
    said = refused("status", study)
    assert "secret" not in said and f"{place}/study.json: " in said
    write_study(study, {**read_study(study), "reuse": [{"folder": "a\0b", "digest": "0" * 64}]})
    assert "reuse.0.folder: " in refused("status", study)
