"""Warnings about a plan that was changed after the first runs, and about runs from several batches."""

import json

import study_file
from synthetic import change_summary, write_study

from analysis.report import write
from analysis.report.study_report import study_document, study_warnings
from analysis.results.study_results import analyze
from analysis.sources.folder import read_folder
from experiments.runs import record
from experiments.runs.stated import read_stated

VARIANTS = {"none": 0.7, "learned-1d": 0.9}


def study_of(tmp_path, change=lambda run, summary: summary, **plan):
    """A study of four seeds; `change` edits each summary.json before it is sealed."""
    folder = write_study(tmp_path, accuracy=VARIANTS, seeds=4, **plan)
    for path in sorted(folder.glob("v*-s*")):
        summary = json.loads((path / "summary.json").read_text())
        plain = {key: value for key, value in summary.items() if key not in ("schema", "files", "digest")}
        record.write_summary(path, change(path.name, plain))
    return study_warnings(analyze(read_folder(folder)))


def test_edited_plan_is_reported(tmp_path):
    assert study_of(tmp_path / "kept") == []
    folder = write_study(tmp_path, accuracy=VARIANTS, seeds=4)
    change_summary(folder / "v0-s0", planned=read_stated(folder))
    study_file.write_study(folder, {**study_file.read_study(folder), "margin": 0.2})
    results = analyze(read_folder(folder))
    assert any("after 1 run had started: from 0.01 to 0.2" in warning for warning in study_warnings(results))
    page = write.make(study_document(results))["report.md"].decode()
    assert "which was changed after runs had started" in page and "fixes before its runs" not in page


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
