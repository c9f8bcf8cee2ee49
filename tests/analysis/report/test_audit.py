"""Warnings about a plan that was changed after the first runs, and about runs from several batches."""

import json

import pytest
import study_file
from synthetic import write_study

from analysis.report import write
from analysis.report.study_report import study_document
from analysis.report.warnings import warnings
from analysis.results.study_results import analyze
from analysis.sources.exported import export, read_export
from analysis.sources.folder import read_folder
from analysis.sources.plan_changes import plan_changes
from experiments.config import completed
from experiments.runs import record
from experiments.runs.stated import field_digests, read_stated
from experiments.study import StudyPlan

VARIANTS = {"none": 0.7, "learned-1d": 0.9}
STATED = {"metric": "test/acc", "margin": 0.01, "baseline": "none", "seeds": [0, 1, 2, 3]}


def study_of(tmp_path, change=lambda run, summary: summary, **plan):
    """A study of four seeds; `change` edits each summary.json before it is sealed."""
    folder = write_study(tmp_path, accuracy=VARIANTS, seeds=4, **plan)
    for path in sorted(folder.glob("v*-s*")):
        summary = json.loads((path / "summary.json").read_text())
        plain = {key: value for key, value in summary.items() if key not in ("schema", "files", "digest")}
        record.write_summary(path, change(path.name, plain))
    return warnings(analyze(read_folder(folder)))


def stated(**changed):
    return lambda run, summary: {**summary, "planned": {**STATED, **(changed if run.endswith("s0") else {})}}


def test_a_plan_that_was_kept_gives_no_warning(tmp_path):
    assert study_of(tmp_path / "new", stated()) == []
    assert study_of(tmp_path / "older-records") == []  # without the key `planned`


def test_a_changed_metric_margin_or_baseline_is_named_with_both_values(tmp_path):
    (found,) = study_of(tmp_path / "metric", stated(metric="val/acc"))
    assert found.startswith(
        "The metric was changed after runs had started: it was val/acc when 2 runs started, and is test/acc"
    )
    (found,) = study_of(tmp_path / "margin", stated(), margin=0.05)
    assert "The margin was changed" in found and "it was 0.01 when 8 runs started, and is 0.05 now" in found
    (found,) = study_of(tmp_path / "baseline", stated(), baseline="learned-1d")
    assert "it was none when 8 runs started, and is learned-1d now" in found


def test_seeds_that_were_added_later_are_named(tmp_path):
    (found,) = study_of(tmp_path, stated(seeds=[0]))
    assert "2 runs started when the seeds were 0; now they are 0, 1, 2, 3." in found


def edited_after_a_run(tmp_path, **changes):
    """A study whose study.json was edited: v0-s0 started before the edit, and the others do not tell."""
    folder = write_study(tmp_path, accuracy=VARIANTS, seeds=4)
    run, path = folder / "v0-s0", folder / record.STUDY
    kept = {key: value for key, value in record.read_summary(run).items() if key not in ("files", "digest")}
    record.write_summary(run, {**kept, "planned": read_stated(folder)})
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return folder


def test_edited_plan_is_reported(tmp_path):
    folder = edited_after_a_run(tmp_path, margin=0.2)
    (found,) = warnings(analyze(read_folder(folder)))
    assert "The margin was changed after runs had started: it was 0.01 when 1 run started, and is 0.2 now." in found
    page = write.make(study_document(analyze(read_folder(folder))))["report.md"].decode()
    assert "which was changed after runs had started" in page and "fixes before its runs" not in page


def test_every_edited_field_is_named(tmp_path):
    base = {**json.loads(write_study(tmp_path / "a").joinpath(record.STUDY).read_text())["base"], "seed": 7}
    folder = edited_after_a_run(
        tmp_path / "b", description="Something else", factors={"model.pos_embed": ["none"]}, base=base, seeds=[0, 1]
    )
    fields = list(plan_changes(read_folder(folder)))
    assert fields == ["seeds", "base", "description", "factors"]
    assert any(
        "description was another one when 1 run started." in line for line in warnings(analyze(read_folder(folder)))
    )
    kept = export(read_folder(folder), tmp_path / "kept")
    assert list(plan_changes(read_export(kept))) == fields


@pytest.mark.parametrize(("dataset", "changed"), [("digits", []), ("imagefolder", ["base"])])
def test_moved_data_are_no_change_of_the_plan_unless_their_folder_is_their_name(tmp_path, dataset, changed):
    folder = write_study(tmp_path)
    base = json.loads((folder / record.STUDY).read_text())["base"]
    for root in ("here", "there"):
        base = {**base, "data": {**base["data"], "name": dataset, "root": root}}
        if root == "here":
            (folder / record.STUDY).write_text(json.dumps({**study_file.read_study(folder), "base": base}))
            for run in folder.glob("*/summary.json"):
                kept = {
                    key: value
                    for key, value in record.read_summary(run.parent).items()
                    if key not in ("files", "digest")
                }
                config = record.read_config(run.parent)
                config["data"] |= {"name": dataset, "root": root}
                record.write_json(run.parent / record.CONFIG, config)
                record.write_summary(run.parent, {**kept, "planned": read_stated(folder)})
    (folder / record.STUDY).write_text(json.dumps({**study_file.read_study(folder), "base": base}))
    assert list(plan_changes(read_folder(folder))) == changed


def test_new_default_settings_are_no_change_of_the_plan():
    """A later version of this project may add settings and fields; the plan is still the same."""
    plan = study_file.plan({"a": {}}, base={"model": {"depth": 3}}).tree()
    older = field_digests(StudyPlan.parse(plan, ""))
    newer = field_digests(StudyPlan.parse({**plan, "base": completed(plan["base"]), "extra": [], "looks": []}, ""))
    assert older == newer != field_digests(StudyPlan.parse({**plan, "base": {"model": {"depth": 4}}}, ""))


def on_machines(machine, shift):
    def change(run, summary):
        name = machine(run)
        summary["provenance"]["hardware"]["name"] = name
        return {**summary, "test/acc": summary["test/acc"] - (shift if name == "old" else 0)}

    return change


def batch_warning(found):
    (one,) = [sentence for sentence in found if "batches" in sentence]
    return one


def test_a_batch_effect_is_reported_with_its_size_and_p(tmp_path):
    """The old machine trained seeds 0 and 1 and is worse by 20 points, far more than the scatter of 0.4 points."""
    found = batch_warning(study_of(tmp_path / "a", on_machines(lambda run: "old" if run[-1] < "2" else "new", 0.2)))
    assert (
        "Within variants, the batch means differ by 20" in found
        or "Within variants, the batch means differ by 19." in found
    )
    assert "F test over seeds, p < 0.001" in found or "F test over seeds, p = 0.00" in found
    found = batch_warning(study_of(tmp_path / "b", on_machines(lambda run: "old" if run[-1] < "2" else "new", 0)))
    assert "No batch effect was found" in found


def test_batches_that_coincide_with_variants_are_reported(tmp_path):
    found = batch_warning(study_of(tmp_path, on_machines(lambda run: "old" if run.startswith("v0") else "new", 0)))
    assert "No variant has runs in two batches" in found
