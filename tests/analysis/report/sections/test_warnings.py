"""Warnings: each has its paragraph; a changed plan and runs from several batches are found in the records."""

import json
from dataclasses import replace

import study_file
from synthetic import change_summary, write_study

from analysis.report import study_report, write
from analysis.report.study_report import study_document, study_warnings
from analysis.results.study_results import analyze
from analysis.sources.folder import read_folder
from analysis.stats import BatchEffect
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


def test_every_warning_is_a_paragraph_in_order(tmp_path, monkeypatch):
    results = analyze(read_folder(write_study(tmp_path, accuracy=VARIANTS, seeds=3)))
    assert study_warnings(results) == []
    conduct = replace(
        results.conduct,
        notes=["A note."],
        not_fixed={"optim.lr": ["0.1", "0.2"]},
        changed_images=["none"],
        changes={"margin": {0.5: 2}, "seeds": {"0": 1, "0, 1": 2}, "looks": {None: 1}, "description": {None: 3}},
        batches=BatchEffect(2, 1, 0.02, 0.03),
        excluded={"diverged": ["a"], "unreadable": ["b"], "pruned": ["c", "d"]},
        commits=2,
        dirty=True,
        unrecorded_plugins=["mine", "mine"],
        uncommitted_plugin=True,
        machines=3,
    )
    cost = results.cost.assign(slowest=[1.0, 2.5])
    monkeypatch.setattr(study_report, "tuning_warnings", lambda _: ["Tuning: a warning."])
    said = study_warnings(replace(results, conduct=conduct, cost=cost, tuning=object()))
    starts = [
        "A note.",
        "optim.lr was not held fixed (0.1 and 0.2)",
        "Tuning: a warning.",
        "The images were changed between runs of none:",
        "The margin was changed after 2 runs had started: from 0.5 to 0.01.",
        "Seeds were added after 3 runs had started: from 0 or 0, 1 to 0, 1, 2.",
        "The planned looks were changed after 1 run had started, and are none now.",
        "The plan was changed after 3 runs had started: description.",
        "The runs come from 2 batches, which differ in hardware or commit. Within variants, the batch means differ by 2.00 ",
        "1 of 6 runs diverged",
        "1 of 6 runs could not be read",
        "2 of 6 runs were pruned",
        "The runs come from 2 different commits",
        "Some runs come from code with uncommitted changes",
        "2 runs of the plug-in mine: source not recorded.",
        "The source of a plug-in is not committed to git.",
        "The runs used 3 kinds of hardware",
        "Times are uneven: one run of learned-1d took 2.5 times",
    ]
    assert [line[: len(start)] for line, start in zip(said, starts, strict=True)] == starts
