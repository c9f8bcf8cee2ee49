"""Runs are compared only where they differ in what the study varies, and pooled only where they are of one model."""

from dataclasses import replace

import pytest
import study_file
from synthetic import change_summary, write_study

from analysis.runs.exported import export, read_export
from analysis.runs.folder import read_folder
from analysis.runs.held_fixed import changed_images, not_held_fixed, plan_changes
from analysis.runs.read import read
from experiments.errors import UserError
from experiments.runs import record
from vit.plugins import digest

KINDS = {"none": 0.7, "row-only": 0.9}


@pytest.fixture
def folder(tmp_path):
    return write_study(tmp_path, accuracy=KINDS, factors={"model.pos_embed": list(KINDS)}, seeds=6, epochs=1)


def test_other_parameter_counts_are_refused(folder):
    """5 models with 28,138 parameters and 1 with 26,362 must not be n = 6."""
    for seed in range(6):
        change_summary(folder / f"v1-s{seed}", cost={"params": 28138 if seed else 26362})
    with pytest.raises(UserError, match=r"'row-only' are not of one model: 26,362 .*\(v1-s0\); 28,138 .*\(5 runs\)"):
        read(str(folder))
    study = read(str(folder), skip_unreadable=True)
    assert study.of("finished")["variant"].value_counts().to_dict() == {"none": 6, "row-only": 5}
    assert "has 26,362 parameters, but most runs of row-only have 28,138" in study.troubles["v1-s0"]
    assert list(study.of("unreadable")["run"]) == ["v1-s0"]


def test_other_sources_of_one_plugin_are_refused(folder):
    for seed in range(6):
        run, body = folder / f"v1-s{seed}", b"scale = 1\n" if seed < 4 else b"scale = 2\n"
        (run / record.PLUGIN).mkdir()
        (run / record.PLUGIN / "rows.py").write_bytes(body)
        plugin = {"modules": "rows", "digest": digest({"rows.py": body}), "committed": True}
        change_summary(run, provenance={"plugin": plugin}, cost={"params": 7})
    with pytest.raises(UserError, match=r"plug-in source \w{12} .4 runs.*plug-in source \w{12} .2 runs"):
        read(str(folder))
    study = read(str(folder), skip_unreadable=True)
    assert set(study.troubles) == {"v1-s4", "v1-s5"}
    assert sorted(text for files in study.sources.values() for text in files.values()) == ["scale = 1\n", "scale = 2\n"]


def test_settings_that_were_not_held_fixed_are_found(tmp_path):
    def levels(variant):
        return {"model.pos_embed": variant, "optim.lr": 0.01 if variant == "none" else 0.001}

    study = read_folder(write_study(tmp_path, seeds=2, levels=levels))
    assert not_held_fixed(study) == {"optim.lr": ["0.01", "0.001"]}
    assert not_held_fixed(read_folder(write_study(tmp_path, name="clean", seeds=2))) == {}
    lost = {("none", seed): "diverged" for seed in range(2)}  # such runs count as well
    diverged = read_folder(write_study(tmp_path, name="diverged", seeds=2, levels=levels, statuses=lost))
    assert not_held_fixed(diverged) == {"optim.lr": ["0.01", "0.001"]}


def test_images_may_differ_between_datasets_only(tmp_path):
    study = read_folder(write_study(tmp_path, seeds=4))
    runs = study.runs.assign(image_files="one")
    assert not changed_images(replace(study, runs=runs))
    runs.loc[runs["variant"] == "sinusoidal", ["image_files", "data.name"]] = "other"
    assert not changed_images(replace(study, runs=runs))
    chosen = runs.assign(**{"data.classes": ""})
    chosen.loc[chosen["variant"] == "learned-2d", ["image_files", "data.classes"]] = ["some", "1,2"]
    assert not changed_images(replace(study, runs=chosen))
    runs.loc[runs["variant"] == "learned-2d", "image_files"] = "later"
    assert changed_images(replace(study, runs=runs)) == ["none", "learned-1d", "learned-2d"]  # all of the first dataset
    runs.loc[runs["seed"] == 3, "image_files"] = "later"
    assert changed_images(replace(study, runs=runs)) == study.variants


# changes of the plan after runs had started

VARIANTS = {"none": 0.7, "learned-1d": 0.9}
STATED = {"metric": "test/acc", "margin": 0.01, "baseline": "none", "seeds": [0, 1, 2, 3]}


def edit(folder, **changes):
    study_file.write_study(folder, {**study_file.read_study(folder), **changes})


def test_a_change_has_its_value_before_and_the_number_of_runs_that_had_ended(tmp_path):
    """A state says only what its change replaced; the seeds of the first state are those of the second."""
    folder = write_study(tmp_path, accuracy=VARIANTS, seeds=4)
    assert plan_changes(read_folder(folder)) == {}
    margin = {"runs": 2, "stated": {"margin": 0.05, "factors": None}}
    seeds = {"runs": 3, "stated": {"seeds": [0, 1], "baseline": "none"}}
    edit(folder, earlier=[margin, seeds, {"runs": 0, "stated": {"seeds": [0]}}])
    changes = {"margin": {"0.05": 2}, "factors": {None: 2}, "seeds": {"0, 1": 5, "0": 0}}
    assert plan_changes(read_folder(folder)) == changes
    assert plan_changes(read_export(export(read_folder(folder), tmp_path / "kept"))) == changes
