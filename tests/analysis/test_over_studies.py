"""The report over several datasets: which texts and tables it has, and a study with the dataset among its factors."""

import csv
import io
import re
import shutil

import pandas as pd
import pytest
import study_file
from synthetic import on_dataset, results_of, state_plan, write_by_dataset

from analysis.answers.across.compute import aggregate, studies_by_dataset
from analysis.answers.conduct.compute import this_look
from analysis.answers.several_studies import across_document, stratified_document
from analysis.runs.folder import read_folder
from analysis.write import files as write
from analysis.write.text import text
from experiments.metric import Metric
from experiments.runs import record
from experiments.runs.history import add_look

COMMAND = "vit-report across a b"
ACCURACY = {"none": 0.6, "learned-1d": 0.8, "cpe": 0.6}
SAME_SIGN = text("averages", "signs", opposite=[], metric=Metric("test/acc"))


def document_of(tmp_path, accuracies, **options):
    """The report over the datasets of `accuracies`: dataset -> variant -> accuracy."""
    studies = [
        results_of(tmp_path / name, accuracy=accuracy, **on_dataset(name), **options)
        for name, accuracy in accuracies.items()
    ]
    return across_document(aggregate(studies_by_dataset(studies)), COMMAND)


def test_the_headline_has_the_size_of_an_average_and_its_signs(tmp_path):
    document = document_of(tmp_path, {"digits": ACCURACY, "mnist": {**ACCURACY, "learned-1d": 0.9}})
    answer, signs, _ = document.headline
    assert re.search(r"than none: learned-1d by 2\d\.\d+ points \(95 % CI", answer)
    assert signs == SAME_SIGN


def test_the_headline_names_diverged_runs_and_left_out_variants(tmp_path):
    lost = {("cpe", seed): "diverged" for seed in range(4)}
    document = document_of(tmp_path, {"digits": ACCURACY, "mnist": ACCURACY}, statuses=lost)
    assert document.headline[-2] == text("comparison", "diverged", lost={"digits": 4, "mnist": 4}, variants=[])
    assert "cpe (1 seed on digits and 1 seed on mnist)" in document.headline[-1]


def test_it_is_a_complete_report(tmp_path):
    accuracies = {"digits": ACCURACY, "mnist": ACCURACY, "cifar100": ACCURACY}
    document = document_of(tmp_path, accuracies, statuses={("cpe", 3): "incomplete"})
    files = write.make(document)
    tables = ("across", "improvement", "datasets", "dataset-differences", "runs", "curves")
    assert {f"tables/{name}.csv" for name in tables} <= set(files)
    assert {"figures/across.svg", "report.md"} <= set(files)
    assert COMMAND.encode() in files["report.html"] and files == write.make(document)
    assert not re.search(rb"(?i)\b(nan|inf)\b", files["report.md"])
    rows = list(csv.DictReader(io.StringIO(files["tables/across.csv"].decode())))
    assert [row["variant"] for row in rows] == list(ACCURACY)
    for row in rows:
        assert float(row["mean_low"]) <= float(row["mean"]) <= float(row["mean_high"])
    assert len(files["tables/runs.csv"].decode().splitlines()) == 1 + 3 * 15
    versus = {table.name: table for table in document.tables}["improvement"].data.set_index("variant")
    assert versus.loc["learned-1d", "higher_on"] == 3


def test_the_methods_say_how_to_get_the_scores_that_rliable_reads(tmp_path):
    """The expression gives an array (seeds, datasets), without the seed that is not finished on all datasets."""
    document = document_of(tmp_path, {"digits": ACCURACY, "mnist": ACCURACY}, statuses={("cpe", 3): "incomplete"})
    files = write.make(document)
    (section,) = (section for section in document.sections if section.id == "methods")
    said = dict(section.items[0].facts)["Other aggregates"]
    runs = pd.read_csv(io.BytesIO(files["tables/runs.csv"]))
    scores = eval(said[said.index("runs[") :], {"runs": runs, "NAME": "cpe"})
    assert scores.shape == (4, 2)
    across = pd.read_csv(io.BytesIO(files["tables/across.csv"])).set_index("variant")
    assert scores.mean() == pytest.approx(across.loc["cpe", "mean"], rel=1e-12)


def stratified(tmp_path, **options):
    """The report of a study whose factors are the dataset and the positional embedding."""
    return stratified_document(read_folder(write_by_dataset(tmp_path, **options)))


def absent(dataset=None, seeds=range(5), kinds=("none", "cpe")):
    """Runs that have not started."""
    datasets = [dataset] if dataset else ["digits", "mnist"]
    return {(f"name={d}, pos_embed={kind}", seed): "absent" for d in datasets for kind in kinds for seed in seeds}


def test_a_dataset_as_a_factor_is_not_pooled(tmp_path):
    """The report compares within datasets. It does not call one dataset better than another."""
    document = stratified(tmp_path)
    assert "report.html" in write.make(document)
    assert re.search(r"than none: cpe by (9|10)\.\d+ points", document.headline[0])
    assert "name=mnist" not in " ".join(document.headline)


@pytest.mark.parametrize(
    ("options", "dataset", "runs", "left"),
    [
        ({"statuses": absent("digits")}, "digits", 0, 10),
        ({"statuses": absent("digits", range(1, 5))}, "digits", 1, 10),
        ({"seeds": 1}, "mnist", 1, 2),  # with one seed on each dataset it is the report of the first
    ],
    ids=["no run", "one run", "one seed"],
)
def test_a_dataset_with_too_few_runs_of_the_baseline_is_left_out(tmp_path, options, dataset, runs, left):
    """One dataset remains, so it is the report of that dataset."""
    document = stratified(tmp_path, **options)
    assert document.warnings[0] == text("averages", "waiting", dataset=dataset, baseline="none", runs=runs)
    assert "variants" in [table.name for table in document.tables] and "cpe" in document.headline[0]
    assert len(document.frames["runs"]) == left


def test_a_variant_with_one_run_is_not_compared(tmp_path):
    document = stratified(tmp_path, statuses=absent(seeds=range(1, 5), kinds=["cpe"]))
    assert "improvement" not in [table.name for table in document.tables]
    assert document.headline[0].startswith("No variant can be compared with none")


def test_a_plan_that_was_kept_is_not_called_changed(tmp_path):
    folder = write_by_dataset(tmp_path)
    state_plan(folder)
    assert "changed" not in " ".join(stratified_document(read_folder(folder)).warnings)
    plan = study_file.read_study(folder)
    study_file.write_study(folder, {**{key: value for key, value in plan.items() if key != "schema"}, "margin": 0.3})
    said = " ".join(stratified_document(read_folder(folder)).warnings)
    assert "digits: The margin was changed" in said and "baseline was changed" not in said


def test_an_excluded_record_is_listed_under_its_dataset(tmp_path):
    folder = write_by_dataset(tmp_path)
    (folder / "v3-s4" / record.METRICS).write_text("epoch\n")
    shutil.copytree(folder / "v0-s0", folder / "extra")
    excluded = stratified_document(read_folder(folder, skip_unreadable=True)).excluded
    assert [run for run, _ in excluded] == ["mnist: v3-s4", "extra"]


@pytest.mark.parametrize("only", [None, "digits"])
def test_a_tuned_study_with_a_dataset_as_a_factor(tmp_path, only):
    levels = {
        f"name={d}, pos_embed={kind}": {"data.name": d, "model.pos_embed": kind}
        for d in ("digits", "mnist")
        for kind in ("none", "cpe")
    }
    tuned = study_file.tuned(levels, {cell: {"optim.lr": 0.1} for cell in levels})
    document = stratified(tmp_path, tuned=tuned, statuses=absent("mnist") if only else {})
    said = " ".join(document.warnings)
    assert "other settings than the runs" not in said and "at or near an end of" in said
    assert "report.html" in write.make(document)


def test_nothing_is_tested_before_the_first_planned_look(tmp_path):
    """Three seeds have ended on both datasets, and more on digits; the first look is at five."""
    left = absent("mnist", range(3, 10)) | absent("digits", range(5, 10))
    document = stratified(tmp_path, seeds=10, looks=[5, 10], statuses=left)
    assert "the first planned look is at 5 seeds, and all runs of 3 seeds have ended" in document.headline[0]
    assert "improvement" not in [table.name for table in document.tables]


def test_a_planned_look_tests_its_seeds_at_its_own_level(tmp_path):
    """Seven seeds have ended, so the look at five counts, at its level: an eighth of 5 %."""
    document = stratified(tmp_path, seeds=10, looks=[5, 10], statuses=absent(seeds=range(7, 10)))
    headline = " ".join(document.headline)
    assert "5 seeds per dataset" in headline and "at the level of the planned look" in headline
    assert "0.625 % instead of 5 %" in headline
    assert "The next look is at 10 seeds." in headline


def test_a_repeated_look_without_a_plan_is_said(tmp_path):
    stratified(tmp_path / "three", statuses=absent(seeds=range(3, 5)))
    folder = write_by_dataset(tmp_path / "five")
    add_look(folder, this_look(read_folder(tmp_path / "three" / "position")))
    headline = " ".join(stratified_document(read_folder(folder)).headline)
    assert "Looks at this study so far: 2 (first at 3 seeds)" in headline
