"""Changes of a study's plan after its runs had started."""

import pytest
import study_file
from synthetic import change_summary, state_plan, write_study

from analysis.sources.exported import export, read_export
from analysis.sources.folder import read_folder
from analysis.sources.held_fixed import plan_changes
from experiments.config import completed
from experiments.runs import record
from experiments.runs.stated import field_digests, read_stated
from experiments.study import StudyPlan

VARIANTS = {"none": 0.7, "learned-1d": 0.9}
STATED = {"metric": "test/acc", "margin": 0.01, "baseline": "none", "seeds": [0, 1, 2, 3]}


def edit(folder, **changes):
    study_file.write_study(folder, {**study_file.read_study(folder), **changes})


@pytest.mark.parametrize(
    ("stated", "plan", "changes"),
    [
        ({}, {}, {}),
        ({"metric": "val/acc"}, {}, {"metric": {"val/acc": 2}}),
        ({}, {"margin": 0.05}, {"margin": {0.01: 8}}),
        ({}, {"baseline": "learned-1d"}, {"baseline": {"none": 8}}),
        ({"seeds": [0]}, {}, {"seeds": {"0": 2}}),
        ({"seeds": [0, 1]}, {}, {"seeds": {"0, 1": 2}}),
    ],
)
def test_the_value_then_and_the_number_of_its_runs(tmp_path, stated, plan, changes):
    """What the runs of seed 0 state differs by `stated`; study.json states `plan` now."""
    folder = write_study(tmp_path, accuracy=VARIANTS, seeds=4)
    assert plan_changes(read_folder(folder)) == {}  # older records do not tell
    for run in folder.glob("v*-s*"):
        change_summary(run, planned={**STATED, **(stated if run.name.endswith("s0") else {})})
    edit(folder, **plan)
    assert plan_changes(read_folder(folder)) == changes


def test_every_edited_field_is_named(tmp_path):
    folder = write_study(tmp_path, accuracy=VARIANTS, seeds=4)
    change_summary(folder / "v0-s0", planned=read_stated(folder))
    base = {**study_file.read_study(folder)["base"], "seed": 7}
    edit(folder, description="Something else", factors={"model.pos_embed": ["none"]}, base=base, seeds=[0, 1])
    changes = plan_changes(read_folder(folder))
    digests = {"base": {None: 1}, "description": {None: 1}, "factors": {None: 1}}
    assert changes == {"seeds": {"0, 1, 2, 3": 1}, **digests}
    assert plan_changes(read_export(export(read_folder(folder), tmp_path / "kept"))) == changes


@pytest.mark.parametrize(("dataset", "changed"), [("digits", []), ("imagefolder", ["base"])])
def test_moved_data_are_no_change_of_the_plan_unless_their_folder_is_their_name(tmp_path, dataset, changed):
    folder = write_study(tmp_path, accuracy=VARIANTS, seeds=2)
    base = study_file.read_study(folder)["base"]
    data = {**base["data"], "name": dataset}
    edit(folder, base={**base, "data": {**data, "root": "here"}})
    for run in folder.glob("v*-s*"):
        config = record.read_config(run)
        record.write_json(run / record.CONFIG, {**config, "data": {**config["data"], "name": dataset, "root": "here"}})
    state_plan(folder)
    edit(folder, base={**base, "data": {**data, "root": "there"}})
    assert list(plan_changes(read_folder(folder))) == changed


def test_new_default_settings_are_no_change_of_the_plan():
    """A later version of this project may add settings and fields; the plan is still the same."""
    plan = study_file.plan({"a": {}}, base={"model": {"depth": 3}}).tree()
    older = field_digests(StudyPlan.parse(plan, ""))
    newer = field_digests(StudyPlan.parse({**plan, "base": completed(plan["base"]), "extra": [], "looks": []}, ""))
    assert older == newer != field_digests(StudyPlan.parse({**plan, "base": {"model": {"depth": 4}}}, ""))
