"""Run folders as tables: the columns, and records that are missing, damaged or different from the plan."""

import json
import math
import shutil

import pytest
import study_file
from synthetic import write_study

from analysis.sources.folder import read_folder
from analysis.sources.held_fixed import not_held_fixed
from analysis.sources.read import read
from analysis.sources.runs_table import factor_levels
from analysis.sources.settings import level_text
from analysis.sources.source_run import COLUMNS
from experiments.errors import UserError
from experiments.runs import record


def test_a_row_a_run_with_what_its_record_says(tmp_path):
    study = read_folder(write_study(tmp_path, seeds=3))
    assert len(study.runs) == 12 and set(COLUMNS) <= set(study.runs.columns)
    for row in study.runs.to_dict("records"):
        summary = json.loads((tmp_path / "position" / row["run"] / "summary.json").read_text())
        config = json.loads((tmp_path / "position" / row["run"] / "config.json").read_text())
        assert row["test/acc"] == summary["test/acc"] and row["run_id"] == summary["run_id"]
        assert row["params"] == summary["cost"]["params"] and row["commit"] == summary["provenance"]["commit"]
        assert (
            row["model.pos_embed"] == config["model"]["pos_embed"] == row["variant"] and row["seed"] == config["seed"]
        )
        assert (row["train_images"], row["val_images"], row["test_images"]) == (1293, 144, 360)
    assert study.variants == ["none", "sinusoidal", "learned-1d", "learned-2d"] and study.baseline == "none"


def test_records_older_than_the_sizes_of_the_splits_are_read(tmp_path):
    folder = write_study(tmp_path)
    run = folder / "v0-s0"
    summary = json.loads((run / "summary.json").read_text())
    record.write_summary(
        run, {key: summary[key] for key in summary if key not in ("schema", "data", "files", "digest")}
    )
    images = read_folder(folder).runs.set_index("run")["train_images"]
    assert math.isnan(images["v0-s0"]) and images["v0-s1"] == 1293


def test_curves_hold_every_epoch_bit_for_bit(tmp_path):
    study = read_folder(write_study(tmp_path, seeds=2, epochs=3))
    assert len(study.curves) == 4 * 2 * 3
    lines = (tmp_path / "position" / "v2-s1" / "metrics.csv").read_text().splitlines()
    own = study.curves[study.curves["run"] == "v2-s1"]
    assert own["val/acc"].tolist() == [float(line.split(",")[-1]) for line in lines[1:]]


def test_runs_that_did_not_end_well_stay_in_the_table(tmp_path):
    statuses = {
        ("none", 0): "diverged",
        ("none", 1): "incomplete",
        ("learned-1d", 2): "absent",
        ("sinusoidal", 0): "pruned",
    }
    study = read_folder(write_study(tmp_path, seeds=3, statuses=statuses))
    found = study.runs.set_index("run")["status"]
    assert len(found) == 12
    assert found["v0-s0"] == "diverged" and math.isnan(study.runs.set_index("run").loc["v0-s0", "test/acc"])
    assert found["v0-s1"] == "incomplete" and found["v2-s2"] == "incomplete" and found["v1-s0"] == "pruned"
    assert study.runs.set_index("run").loc["v2-s2", "model.pos_embed"] == "learned-1d"  # known from the plan


@pytest.mark.parametrize("name", ["metrics.csv", "config.json", "summary.json"])
def test_an_altered_record_stops_the_reading_or_is_named(tmp_path, name):
    folder = write_study(tmp_path, seeds=3)
    file = folder / "v1-s2" / name
    file.write_text(file.read_text().replace("0", "1", 1))
    with pytest.raises(record.RecordError, match=rf"v1-s2/{name}: .*--skip-unreadable"):
        read_folder(folder)
    study = read_folder(folder, skip_unreadable=True)
    assert study.runs.set_index("run").loc["v1-s2", "status"] == "unreadable"
    assert list(study.troubles) == ["v1-s2"] and name in study.troubles["v1-s2"]
    assert "v1-s2" not in set(study.curves["run"])


def test_a_record_of_another_run_is_not_taken_for_the_planned_one(tmp_path):
    folder = write_study(tmp_path, seeds=3)
    shutil.rmtree(folder / "v1-s2")
    shutil.copytree(folder / "v1-s1", folder / "v1-s2")
    with pytest.raises(record.RecordError, match="v1-s2/summary.json: run_id is"):
        read_folder(folder)


def test_levels_that_differ_from_the_plan_are_refused(tmp_path):
    folder = write_study(tmp_path, seeds=3)
    plan = json.loads((folder / "study.json").read_text())
    plan["runs"][1]["levels"] = {"model.pos_embed": "learned-2d"}
    (folder / "study.json").write_text(json.dumps(plan))
    with pytest.raises(record.RecordError, match="model.pos_embed is 'sinusoidal', planned is 'learned-2d'"):
        read_folder(folder)


def test_a_run_that_the_plan_does_not_know_is_shown_and_kept_out(tmp_path):
    folder = write_study(tmp_path, seeds=3)
    shutil.copytree(folder / "v1-s1", folder / "mine")
    (folder / "wandb").mkdir()
    (folder / "report").mkdir()
    study = read_folder(folder)
    assert study.runs.set_index("run").loc["mine", "status"] == "unplanned" and list(study.troubles) == ["mine"]
    assert study.runs.set_index("run").loc["v1-s1", "seed"] == 1 and str(study.runs["seed"][1]) == "0"  # no 0.0
    assert len(study.runs) == 13 and study.variants == ["none", "sinusoidal", "learned-1d", "learned-2d"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"runs": []}, r"runs: \[\] is not allowed"),
        ({"baseline": "nobody"}, "baseline: no run has the variant 'nobody'"),
        ({"metric": "test/auc"}, "metric: 'test/auc' is not allowed: expected train/loss, "),
        ({"margin": -0.1}, "margin: -0.1 is not allowed"),
        ({"margin": "wide"}, "margin: 'wide' is not allowed"),
        ({"factors": ["model.depth"]}, r"factors: \['model.depth'\] is not allowed"),
        ({"factors": {}}, "factors: is empty"),
        ({"extra": 5}, "extra: 5 is not allowed"),
        ({"runs": [{"run": "a"}]}, r"runs.0.run_id: is required"),
        (
            {"runs": [{"run": "../a", "run_id": "0", "variant": "none", "seed": 0}]},
            "'../a' is not the name of a folder",
        ),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused_by_name(tmp_path, change, message):
    folder = write_study(tmp_path, seeds=2)
    plan = json.loads((folder / "study.json").read_text())
    (folder / "study.json").write_text(json.dumps({**plan, **change}))
    with pytest.raises(UserError, match=message):
        read_folder(folder)


def test_a_folder_that_is_no_study(tmp_path):
    with pytest.raises(UserError, match="no such folder"):
        read(str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match="holds no study.json and no runs"):
        read(str(tmp_path))
    (tmp_path / "study.json").write_text("{")
    with pytest.raises(UserError, match="study.json: is not JSON"):
        read(str(tmp_path))


def test_settings_that_were_not_held_fixed_are_found(tmp_path):
    def levels(variant):
        return {"model.pos_embed": variant, "optim.lr": 0.01 if variant == "none" else 0.001}

    study = read_folder(write_study(tmp_path, seeds=2, levels=levels))
    assert not_held_fixed(study) == {"optim.lr": ["0.01", "0.001"]}
    assert not_held_fixed(read_folder(write_study(tmp_path, name="clean", seeds=2))) == {}


def test_initial_weights_that_follow_from_a_factor_are_not_a_setting_that_was_not_held_fixed(tmp_path):
    folder = write_study(tmp_path, seeds=2)
    plan = json.loads((folder / "study.json").read_text())
    plan["factors"] = {"init_from": [None, "a"]}
    for entry in plan["runs"]:
        entry["levels"] = {"init_from": None if entry["variant"] == "none" else "a"}
        run = folder / entry["run"]
        config, summary = (json.loads((run / name).read_text()) for name in ("config.json", "summary.json"))
        config["model"]["pos_embed"] = "none"
        config["init_from"] = entry["levels"]["init_from"]
        config["init_weights"] = config["init_from"] and "0" * 64
        record.write_json(run / "config.json", config)
        kept = {key: value for key, value in summary.items() if key not in ("schema", "files", "digest")}
        record.write_summary(run, kept)
    study_file.write_study(folder, plan)
    assert not_held_fixed(read_folder(folder)) == {}


def test_records_older_than_a_setting_are_read_with_its_default(tmp_path):
    """Else a setting that is new, and off, would seem to differ between old runs and new ones."""
    folder = write_study(tmp_path)
    plan = json.loads((folder / "study.json").read_text())
    del plan["base"]["train"]["compile"]
    (folder / "study.json").write_text(json.dumps(plan))
    run = folder / plan["runs"][0]["run"]
    config, summary = (json.loads((run / name).read_text()) for name in ("config.json", "summary.json"))
    del config["train"]["compile"]
    record.write_json(run / "config.json", config)
    record.write_summary(
        run, {key: value for key, value in summary.items() if key not in ("schema", "files", "digest")}
    )
    study = read_folder(folder)
    assert set(study.runs["train.compile"]) == {"none"}
    assert study.base["train.compile"] == "none"
    assert not_held_fixed(study) == {}


def test_linked_factors_are_one(tmp_path):
    factors = {"model.pos_embed+model.pos_site": [["none", "stem"], ["learned-1d", "every-layer"]]}
    cells = {"none, stem": ("none", "stem"), "learned-1d, every-layer": ("learned-1d", "every-layer")}
    folder = write_study(
        tmp_path,
        accuracy=dict.fromkeys(cells, 0.9),
        seeds=2,
        factors=factors,
        levels=lambda variant: dict(zip(("model.pos_embed", "model.pos_site"), cells[variant])),
    )
    study = read_folder(folder)
    (factor,) = study.factors
    assert study.factors[factor] == ["none, stem", "learned-1d, every-layer"]
    assert factor_levels(study.runs, factor).tolist() == study.runs["variant"].tolist()


@pytest.mark.parametrize(
    ("level", "text"),
    [
        (True, "true"),
        (None, "not set"),
        (0.1, "0.1"),
        (2, "2"),
        ([0.0, 0.0], "0"),
        (["a", 1], "a, 1"),
        ("x", "x"),
        ("", "empty"),
    ],
)
def test_levels_as_text(level, text):
    assert level_text(level) == text
