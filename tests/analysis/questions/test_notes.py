"""Warnings: each has its line; a changed plan, changed images and several devices are found in the records."""

from dataclasses import replace

from shown import warnings
from synthetic import change_summary, results_of, write_study

from analysis.findings import analyze
from analysis.findings.conduct import Conduct
from analysis.runs.folder import read_folder

VARIANTS = {"none": 0.7, "learned-1d": 0.9}


def test_runs_on_several_devices_or_versions_of_pytorch_are_reported_with_the_names_of_these(tmp_path):
    folder = write_study(tmp_path, accuracy=VARIANTS, seeds=4)
    old = {"hardware": {"device": "cpu", "name": "Old One", "threads": 1}, "versions": {"torch": "2.11.0"}}
    for run in folder.glob("v*-s[01]"):
        change_summary(run, provenance=old)
    hardware, torch = warnings(analyze(read_folder(folder)))
    assert hardware.startswith("The runs used 2 kinds of hardware: ") and "Old One (cpu, 1 thread)" in hardware
    assert torch.startswith("The runs used 2 versions of PyTorch: 2.11.0 and 2.15.0.")


def test_diverged_runs_are_named_with_the_verdicts_that_depend_on_them(tmp_path):
    lost = {("learned-1d", 1): "diverged", ("cpe", 0): "diverged"}
    findings = results_of(tmp_path, accuracy={"none": 0.7, "learned-1d": 0.9, "cpe": 0.3}, statuses=lost, seeds=6)
    versus = findings.comparisons.versus
    assert (versus["learned-1d"].verdict_of_finished, versus["learned-1d"].verdict) == ("better", "not shown")
    assert versus["cpe"].verdict == versus["cpe"].verdict_of_finished == "worse"  # also with one run at 10 %, chance
    (said,) = warnings(findings)
    assert said.startswith("Diverged: 1 run of learned-1d, 1 run of cpe. Means use the finished runs.")
    assert said.endswith("verdicts that this changes: 1.")  # learned-1d with none


def test_every_warning_has_its_line_in_order(tmp_path):
    findings = results_of(tmp_path, accuracy=VARIANTS, seeds=3)
    changed = {"optim.lr": [0.1, 0.2] * 3, "image_files": list("ab") * 3, "test_copies": 24}
    code = {"commit": list("aab") * 2, "dirty": True, "plugin_committed": False}
    runs = findings.study.runs.assign(**changed, **code)
    conduct = findings.__dict__["conduct"] = Conduct(replace(findings.study, runs=runs, noted=("A note.",)))
    conduct.__dict__.update(
        changes={"margin": {0.5: 2}, "seeds": {"0": 1, "0, 1": 2}, "looks": {None: 1}, "description": {None: 3}},
        excluded={"unreadable": ["b"], "pruned": ["c", "d"]},
    )
    starts = [
        "A note.",
        "optim.lr was not held fixed (0.1 and 0.2) and is no factor.",
        "The images were changed between runs of none and learned-1d,",
        "24 test images can be found among the training images as well.",
        "The margin was changed after 2 runs had started: from 0.5 to 0.01.",
        "Seeds were added after 3 runs had started: from 0 or 0, 1 to 0, 1, 2.",
        "The planned looks were changed after 1 run had started, to no looks.",
        "The plan was changed after 3 runs had started: description.",
        "Unreadable: 1 of 6 runs.",
        "Pruned: 2 of 6 runs.",
        "The runs come from 2 different commits.",
        "Some runs come from code with uncommitted changes.",
        "The source of a plug-in is not committed to git.",
    ]
    assert [line[: len(start)] for line, start in zip(warnings(findings), starts, strict=True)] == starts
