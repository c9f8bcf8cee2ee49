"""Run folders as tables: every value of the records, and records that are missing, damaged or different from the
plan.
"""

import json
import math
import shutil

import numpy as np
import pytest
from synthetic import add_metrics, change_summary, write_study

from analysis.runs.folder import read_folder
from analysis.runs.held_fixed import not_held_fixed
from analysis.runs.read import read
from analysis.runs.runs import COLUMNS, factor_levels, leaves, level_text, nested
from experiments.errors import UserError
from experiments.runs import record


def by_run(study, column):
    return study.runs.set_index("run")[column].to_dict()


def test_a_row_for_each_run_and_epoch_with_what_the_record_says(tmp_path):
    study = read_folder(write_study(tmp_path, seeds=3, epochs=2))
    assert len(study.runs) == 12 and len(study.curves) == 24 and set(COLUMNS) <= set(study.runs.columns)
    for row in study.runs.to_dict("records"):
        folder = tmp_path / "position" / row["run"]
        summary, config = (json.loads((folder / name).read_text()) for name in ("summary.json", "config.json"))
        assert row["test/acc"] == summary["test/acc"] and row["run_id"] == summary["run_id"]
        assert row["params"] == summary["cost"]["params"] and row["commit"] == summary["provenance"]["commit"]
        assert row["model.pos_embed"] == config["model"]["pos_embed"] == row["variant"]
        assert row["seed"] == config["seed"] and row["versions"] == "python 3.11.7, torch 2.15.0"
        assert (row["train_images"], row["val_images"], row["test_images"]) == (1293, 144, 360)
        lines = (folder / "metrics.csv").read_text().splitlines()[1:]
        curve = study.curves[study.curves["run"] == row["run"]]
        assert curve["val/acc"].tolist() == [float(line.split(",")[-1]) for line in lines]
    assert study.variants == ["none", "sinusoidal", "learned-1d", "learned-2d"] and study.baseline == "none"


def test_the_hardware_of_a_run_is_that_of_all_its_sessions(tmp_path):
    folder = write_study(tmp_path, seeds=3)
    old, new = ({"device": device, "name": device.upper(), "threads": 2} for device in ("cuda", "cpu"))
    sessions = [{"epoch": epoch, "hardware": hardware} for epoch, hardware in ((1, old), (4, new), (5, new))]
    change_summary(folder / "v0-s0", provenance={"hardware": new, "sessions": sessions})
    found = by_run(read_folder(folder), "hardware")
    assert found["v0-s0"] == "CUDA (cuda, 2 threads), then CPU (cpu, 2 threads)"
    assert found["v0-s1"].count("(") == 1


def test_runs_that_did_not_end_well_stay_in_the_table(tmp_path):
    statuses = {
        ("none", 0): "diverged",
        ("none", 1): "incomplete",
        ("learned-1d", 2): "absent",
        ("sinusoidal", 0): "pruned",
    }
    study = read_folder(write_study(tmp_path, seeds=3, statuses=statuses))
    status = by_run(study, "status")
    assert len(status) == 12 and status["v0-s0"] == "diverged" and math.isnan(by_run(study, "test/acc")["v0-s0"])
    assert status["v0-s1"] == "incomplete" and status["v2-s2"] == "incomplete" and status["v1-s0"] == "pruned"
    assert by_run(study, "model.pos_embed")["v2-s2"] == "learned-1d"  # known from the plan


@pytest.mark.parametrize("name", ["metrics.csv", "config.json", "summary.json"])
def test_an_altered_record_stops_the_reading_or_is_named(tmp_path, name):
    folder = write_study(tmp_path, seeds=3)
    file = folder / "v1-s2" / name
    file.write_text(file.read_text().replace("0", "1", 1))
    with pytest.raises(record.RecordError, match=rf"v1-s2/{name}: .*--skip-unreadable"):
        read_folder(folder)
    study = read_folder(folder, skip_unreadable=True)
    assert by_run(study, "status")["v1-s2"] == "unreadable"
    assert list(study.troubles) == ["v1-s2"] and name in study.troubles["v1-s2"]
    assert "v1-s2" not in set(study.curves["run"])


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"test/acc": 70.0}, "test/acc: 70 is not allowed: expected a fraction from 0 to 1"),
        ({"val/acc": -1}, "val/acc: -1 is not allowed: expected a fraction from 0 to 1"),
        ({"fewshot/digits/5": 1.5}, "fewshot/digits/5: 1.5 is not allowed: expected a fraction from 0 to 1"),
        ({"test/acc": "high"}, "test/acc: 'high' is not allowed: expected a number"),
        ({"test/loss": True}, "test/loss: 'True' is not allowed: expected a number"),
        ({"epochs": "x"}, "epochs: 'x' is not allowed"),
        ({"cost": {"params": -5}}, "params: -5 is not allowed"),
        ({"provenance": {"started": 5}}, "started: 5 is not allowed"),
    ],
)
def test_a_value_that_cannot_be_is_refused_although_the_digest_fits(tmp_path, values, reason):
    folder = write_study(tmp_path, accuracy={"none": 0.7, "learned-1d": 0.9}, seeds=2, epochs=2)
    change_summary(folder / "v0-s0", **values)
    with pytest.raises(record.RecordError) as refused:
        read(str(folder))
    assert str(refused.value).startswith(f"{folder / 'v0-s0' / record.SUMMARY}: {reason}")
    assert "v0-s0" in read(str(folder), skip_unreadable=True).troubles


def test_a_record_of_another_run_is_not_taken_for_the_planned_one(tmp_path):
    folder = write_study(tmp_path, seeds=3)
    shutil.rmtree(folder / "v1-s2")
    shutil.copytree(folder / "v1-s1", folder / "v1-s2")
    with pytest.raises(record.RecordError, match="v1-s2/summary.json: belongs to run"):
        read_folder(folder)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"levels": {"model.pos_embed": "learned-2d"}}, "model.pos_embed is 'sinusoidal', planned is 'learned-2d'"),
        ({"seed": 7}, "seed is 0, planned is 7"),
        ({"run": "../a"}, "runs: '../a' is not the name of a folder"),
        ({"seed": "zero"}, "study.json: runs.1.seed: 'zero' is not allowed"),
    ],
)
def test_a_plan_that_does_not_fit_the_records_is_refused(tmp_path, change, reason):
    folder = write_study(tmp_path, seeds=2)
    plan = json.loads((folder / "study.json").read_text())
    plan["runs"][1] |= change
    plan["seeds"] = [0, 1, *([7] if change.get("seed") == 7 else [])]
    (folder / "study.json").write_text(json.dumps(plan))
    with pytest.raises(record.RecordError, match=reason):
        read_folder(folder)


def test_a_run_that_the_plan_does_not_know_is_shown_and_kept_out(tmp_path):
    folder = write_study(tmp_path, seeds=3)
    shutil.copytree(folder / "v1-s1", folder / "mine")
    (folder / "wandb").mkdir()
    study = read_folder(folder)
    assert by_run(study, "status")["mine"] == "unplanned" and list(study.troubles) == ["mine"]
    assert by_run(study, "seed")["v1-s1"] == 1 and str(study.runs["seed"][1]) == "0"  # no 0.0
    assert len(study.runs) == 13 and study.variants == ["none", "sinusoidal", "learned-1d", "learned-2d"]


def test_older_records_have_the_default_of_a_newer_setting_and_no_newer_value(tmp_path):
    """Else a setting that is new, and off, would seem to differ between old runs and new ones."""
    folder = write_study(tmp_path)
    plan = json.loads((folder / "study.json").read_text())
    del plan["base"]["train"]["compile"]
    (folder / "study.json").write_text(json.dumps(plan))
    run = folder / "v0-s0"
    config = record.read_json(run / record.CONFIG)
    del config["train"]["compile"]
    record.write_json(run / "config.json", config)
    change_summary(run, data=None)
    study = read_folder(folder)
    assert set(study.runs["train.compile"]) == {"none"} and study.base["train.compile"] == "none"
    assert math.isnan(by_run(study, "train_images")["v0-s0"]) and by_run(study, "train_images")["v0-s1"] == 1293
    assert not_held_fixed(study) == {}


def test_linked_factors_are_one(tmp_path):
    factor, cells = "model.pos_embed+model.pos_site", {"none, stem": 0.8, "learned-1d, every-layer": 0.9}
    levels = lambda variant: dict(zip(factor.split("+"), variant.split(", ")))  # noqa: E731
    linked = {factor: [name.split(", ") for name in cells]}
    study = read_folder(write_study(tmp_path, accuracy=cells, seeds=2, factors=linked, levels=levels))
    assert study.factors == {factor: list(cells)}
    assert factor_levels(study.runs, factor).tolist() == study.runs["variant"].tolist()


@pytest.mark.parametrize(
    ("level", "text"),
    [
        *(
            (True, "true"),
            (None, "none"),
            (0.1, "0.1"),
            (2, "2"),
            ("x", "x"),
            ("", '""'),
            (float("nan"), "nan"),
            (np.int64(3), "3"),
        ),
        *(([0.0, 0.0], "0"), (["a", 1], "a, 1")),
    ],
)
def test_levels_as_text(level, text):
    assert level_text(level) == text


def test_a_setting_whose_name_continues_another_name_is_kept():
    flat = {"optimizer": "adam", "optimizer.lr": 0.1, "model.depth": 2, "model.width.max": 3, "seed": 0}
    for settings in (flat, dict(reversed(flat.items()))):
        assert dict(leaves(nested(settings))) == settings
    assert nested({"model.depth": 2, "model.width": 3}) == {"model": {"depth": 2, "width": 3}}


def test_another_metric_or_baseline_than_planned_is_exploratory(tmp_path):
    folder = write_study(tmp_path, accuracy={"none": 0.7, "learned-1d": 0.9}, seeds=2)
    add_metrics(folder, lambda summary, *_: {"fewshot/digits/5": summary["test/acc"] / 2})
    planned = read(str(folder))
    assert read(str(folder), metric="test/acc", baseline="none").plan == planned.plan
    explored = read(str(folder), metric="val/loss", baseline="learned-1d")
    assert (explored.metric, explored.baseline) == ("val/loss", "learned-1d")
    assert len(explored.notes) == 3  # metric, baseline, and the margin in another unit
    assert explored.stated_plan == planned.plan
    assert (explored.margin, planned.margin) == (None, 0.01)
    assert read(str(folder), metric="val/acc").margin == 0.01
    assert read(str(folder), metric="fewshot/digits/5").metric.label == "5-shot accuracy (digits)"
    for given, reason in (
        ({"baseline": "nobody"}, "--baseline: 'nobody' is not a variant; allowed: none, "),
        ({"metric": "fewshot/mnist/5"}, "--metric: 'fewshot/mnist/5' is not measured by any run"),
        ({"metric": "fewshot"}, "--metric: 'fewshot' is not allowed: expected .* such as fewshot/mnist/5"),
    ):
        with pytest.raises(UserError, match=f"^{reason}"):
            read(str(folder), **given)


def test_a_record_with_a_value_that_is_no_longer_allowed_stays_readable(tmp_path):
    options = {
        "factors": {"train.compile": ["reduce-overhead"]},
        "levels": lambda _: {"train.compile": "reduce-overhead"},
    }
    study = read_folder(write_study(tmp_path, accuracy={"none": 0.7}, seeds=2, metric="fewshot/digits/5", **options))
    assert study.of("finished")["train.compile"].tolist() == ["reduce-overhead"] * 2
    assert study.metric == "fewshot/digits/5" and study.runs[study.metric].isna().all()  # not measured by any run yet
