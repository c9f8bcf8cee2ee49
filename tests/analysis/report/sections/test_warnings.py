"""Warnings: each has its paragraph; a changed plan and runs from several batches are found in the records."""

import math
from dataclasses import replace

import pytest
import study_file
from synthetic import change_summary, write_study

from analysis.report import study_report, write
from analysis.report.study_report import study_document, study_warnings
from analysis.report.text import text
from analysis.results.policy import Policy
from analysis.results.study_results import analyze
from analysis.sources.folder import read_folder
from analysis.stats import BatchEffect
from experiments.metric import Metric
from experiments.runs import record
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


def test_runs_of_other_hardware_are_another_batch(tmp_path):
    """The old machine trained seeds 0 and 1 and is worse by 20 points, far more than the scatter of 0.4 points."""
    folder = write_study(tmp_path, accuracy=VARIANTS, seeds=4)
    for run in folder.glob("v*-s[01]"):
        hardware = {"device": "cpu", "name": "old", "threads": 1}
        change_summary(
            run, provenance={"hardware": hardware}, **{"test/acc": record.read_summary(run)["test/acc"] - 0.2}
        )
    effect = analyze(read_folder(folder)).conduct.batches
    assert (effect.batches, effect.variants) == (2, 2)
    assert effect.difference == pytest.approx(0.2, abs=0.01) and effect.p < 0.01


@pytest.mark.parametrize(
    ("variants", "p", "said"),
    [
        (0, math.nan, "No variant has runs in two batches"),
        (2, math.nan, "too few seeds to test for a batch effect"),
        (2, 0.04, "Within variants, the batch means differ by 2.00 points"),
        (2, 0.06, "No batch effect was found"),
    ],
)
def test_which_sentence_is_on_batches(variants, p, said):
    policy = Policy(Metric("test/acc"), 0.01, 0.0, {})
    assert said in text("warnings", "batches", effect=BatchEffect(2, variants, 0.02, p), policy=policy)


def test_every_warning_is_a_paragraph_in_order(tmp_path, monkeypatch):
    results = analyze(read_folder(write_study(tmp_path, accuracy=VARIANTS, seeds=3)))
    assert study_warnings(results) == []
    conduct = replace(
        results.conduct,
        notes=["A note."],
        not_fixed={"optim.lr": ["0.1", "0.2"]},
        changed_images=["none"],
        test_copies=24,
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
        "24 test images can be found among the training images as well.",
        "The margin was changed after 2 runs had started: from 0.5 to 0.01.",
        "Seeds were added after 3 runs had started: from 0 or 0, 1 to 0, 1, 2.",
        "The planned looks were changed after 1 run had started, to no looks.",
        "The plan was changed after 3 runs had started: description.",
        "The runs come from 2 batches, which differ in hardware or commit. Within variants, the batch means differ by 2.00 ",
        "Diverged: 1 of 6 runs (",
        "Unreadable: 1 of 6 runs (",
        "Pruned: 2 of 6 runs (",
        "The runs come from 2 different commits",
        "Some runs come from code with uncommitted changes",
        "2 runs of the plug-in mine: source not recorded.",
        "The source of a plug-in is not committed to git.",
        "The runs used 3 kinds of hardware",
        "Times are uneven: one run of learned-1d took 2.5 times",
    ]
    assert [line[: len(start)] for line, start in zip(said, starts, strict=True)] == starts
