"""Warnings: each has its paragraph; a changed plan and runs on several devices are found in the records."""

from dataclasses import replace

import study_file
from synthetic import change_summary, write_study

from analysis.answers.study_report import study_document, study_warnings
from analysis.answers.study_results import analyze
from analysis.answers.tuning import show as tuning
from analysis.runs.folder import read_folder
from analysis.write import files as write
from experiments.runs.history import read_stated

VARIANTS = {"none": 0.7, "learned-1d": 0.9}


def test_an_edited_plan_is_reported(tmp_path):
    folder = write_study(tmp_path, accuracy=VARIANTS, seeds=4)
    assert study_warnings(analyze(read_folder(folder))) == []
    change_summary(folder / "v0-s0", planned=read_stated(folder))
    study_file.write_study(folder, {**study_file.read_study(folder), "margin": 0.2})
    results = analyze(read_folder(folder))
    assert any("after 1 run had started: from 0.01 to 0.2" in warning for warning in study_warnings(results))
    page = write.make(study_document(results))["report.md"].decode()
    assert "which was changed after runs had started" in page and "fixes before its runs" not in page


def test_runs_on_several_devices_or_versions_of_pytorch_are_reported_with_the_names_of_these(tmp_path):
    folder = write_study(tmp_path, accuracy=VARIANTS, seeds=4)
    old = {"hardware": {"device": "cpu", "name": "Old One", "threads": 1}, "versions": {"torch": "2.11.0"}}
    for run in folder.glob("v*-s[01]"):
        change_summary(run, provenance=old)
    hardware, torch = study_warnings(analyze(read_folder(folder)))
    assert hardware.startswith("The runs used 2 kinds of hardware: ") and "Old One (cpu, 1 thread)" in hardware
    assert torch.startswith("The runs used 2 versions of PyTorch: 2.11.0 and 2.15.0.")


def test_every_warning_is_a_paragraph_in_order(tmp_path, monkeypatch):
    results = analyze(read_folder(write_study(tmp_path, accuracy=VARIANTS, seeds=3)))
    assert study_warnings(results) == []
    noted = results.study.plan.model_copy(update={"notes": ["A note."]})
    conduct = replace(
        results.conduct,
        study=replace(results.study, plan=noted),
        not_fixed={"optim.lr": ["0.1", "0.2"]},
        changed_images=["none"],
        test_copies=24,
        changes={"margin": {0.5: 2}, "seeds": {"0": 1, "0, 1": 2}, "looks": {None: 1}, "description": {None: 3}},
        excluded={"diverged": ["a"], "unreadable": ["b"], "pruned": ["c", "d"]},
        commits=2,
        dirty=True,
        unrecorded_plugins=["mine", "mine"],
        uncommitted_plugin=True,
        hardware=["A", "B", "C"],
        torch=["2.11.0", "2.14.1"],
    )
    cost = results.cost.assign(slowest=[1.0, 2.5])
    monkeypatch.setattr(tuning, "tuning_warnings", lambda _: ["Tuning: a warning."])
    said = study_warnings(replace(results, conduct=conduct, cost=cost, tuning=object()))
    starts = [
        "A note.",
        "optim.lr was not held fixed (0.1 and 0.2)",
        "Tuning: a warning.",
        "The images were changed between runs of none:",
        "24 test images can be found among the training images as well.",
        "The margin was changed after 2 runs had started: from 0.5 to 0.01.",
        "Seeds were added after 3 runs had started: from 0 or 0, 1 to 0, 1, 2.",
        "The planned looks were changed after 1 run had started, to no looks.",
        "The plan was changed after 3 runs had started: description.",
        "Diverged: 1 of 6 runs (",
        "Unreadable: 1 of 6 runs (",
        "Pruned: 2 of 6 runs (",
        "The runs come from 2 different commits",
        "Some runs come from code with uncommitted changes",
        "2 runs of the plug-in mine: source not recorded.",
        "The source of a plug-in is not committed to git.",
        "The runs used 3 kinds of hardware: A, B and C.",
        "The runs used 2 versions of PyTorch: 2.11.0 and 2.14.1.",
        "Times are uneven: one run of learned-1d took 2.5 times",
    ]
    assert [line[: len(start)] for line, start in zip(said, starts, strict=True)] == starts
