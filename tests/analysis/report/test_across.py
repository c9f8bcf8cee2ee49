"""The report over several datasets: its headline, tables and figures, and a study with the dataset as a factor."""

import csv
import io
import json
import re
import shutil

import pytest
import study_file
from synthetic import on_dataset, state_plan, write_study

from analysis.across import aggregate_studies
from analysis.report import write
from analysis.report.across import across_document, stratified_document
from analysis.results.conduct import this_look
from analysis.results.study_results import analyze
from analysis.sources.folder import read_folder
from analysis.sources.read import read
from experiments.errors import UserError
from experiments.runs import record
from experiments.runs.looks import add_look

COMMAND = "vit-report across a b"
ACCURACY = {"none": 0.6, "learned-1d": 0.8, "cpe": 0.6}


def document_of(tmp_path, accuracies, **options):
    """The report over the datasets of `accuracies`: dataset -> variant -> accuracy."""
    studies = [
        analyze(read_folder(write_study(tmp_path / name, accuracy=accuracy, **on_dataset(name), **options)))
        for name, accuracy in accuracies.items()
    ]
    return across_document(aggregate_studies(studies), COMMAND)


def test_the_headline_says_what_holds_over_which_datasets(tmp_path):
    document = document_of(tmp_path, {"digits": ACCURACY, "mnist": {**ACCURACY, "learned-1d": 0.9}})
    answer, signs, limit = document.headline
    assert answer.startswith(
        "On average over digits and mnist, with equal weight: learned-1d has a higher mean test accuracy"
    )
    assert re.search(r"than none, by 2\d\.\d+ points \(95 % CI", answer) and "paired by seed" in answer
    assert signs == "By their means, these differences have the same sign on every dataset."
    assert limit.startswith(
        "This is a statement about these two datasets only. The datasets are fixed and the seeds vary"
    )


def test_the_headline_names_a_dataset_on_which_the_average_does_not_hold(tmp_path):
    document = document_of(tmp_path, {"digits": {"none": 0.5, "cpe": 0.9}, "mnist": {"none": 0.8, "cpe": 0.75}})
    assert "cpe has a higher mean" in document.headline[0]
    assert (
        document.headline[1]
        == "The average does not hold for every dataset: by its mean, cpe is below the baseline on mnist."
    )


def test_the_headline_names_diverged_runs(tmp_path):
    lost = {("cpe", 0): "diverged", ("cpe", 1): "diverged"}
    document = document_of(tmp_path, {"digits": ACCURACY, "mnist": ACCURACY}, statuses=lost)
    assert "Diverged: 2 runs on digits and 2 runs on mnist." in " ".join(document.headline)


def test_it_is_a_complete_report(tmp_path):
    accuracies = {"digits": ACCURACY, "mnist": ACCURACY, "cifar100": ACCURACY}
    document = document_of(tmp_path, accuracies, statuses={("cpe", 3): "incomplete"})
    files = write.make(document)
    tables = ("across", "normalised", "improvement", "datasets", "dataset-differences", "runs", "curves")
    assert {f"tables/{name}.csv" for name in tables} <= set(files)
    assert {"figures/across.svg", "figures/improvement.svg", "report.md"} <= set(files)
    assert COMMAND.encode() in files["report.html"] and files == write.make(document)
    assert not re.search(rb"(?i)\b(nan|inf)\b", files["report.md"])
    rows = list(csv.DictReader(io.StringIO(files["tables/across.csv"].decode())))
    assert [row["variant"] for row in rows] == list(ACCURACY)
    for row in rows:
        for name in ("iqm", "mean", "median"):
            for kind in ("", "_bootstrap"):
                assert float(row[f"{name}{kind}_low"]) <= float(row[name]) <= float(row[f"{name}{kind}_high"])
    assert "resamples the seeds of both variants together" in files["report.md"].decode()
    assert len(files["tables/runs.csv"].decode().splitlines()) == 1 + 3 * 15


def test_what_is_left_out_is_said(tmp_path):
    statuses = {("cpe", seed): "diverged" for seed in range(5)}
    document = document_of(tmp_path, {"digits": ACCURACY, "mnist": ACCURACY}, statuses=statuses)
    assert "Not aggregated: cpe (has 0 finished runs on digits and 0 finished runs on mnist)." in document.headline[-1]
    assert any(note.startswith("Left out: cpe has 0 finished runs") for note in document.tables[0].notes)


@pytest.mark.parametrize("only", [None, "mnist"])
def test_a_dataset_as_a_factor_is_not_pooled(tmp_path, only):
    """The report compares within datasets. It does not call one dataset better than another."""
    cells = {f"name={d}, pos_embed={e}": (d, e) for d in ("digits", "mnist") for e in ("none", "cpe")}
    folder = write_study(
        tmp_path,
        accuracy=dict(zip(cells, (0.2, 0.3, 0.8, 0.9))),
        factors={"data.name": ["digits", "mnist"], "model.pos_embed": ["none", "cpe"]},
        levels=lambda variant: dict(zip(("data.name", "model.pos_embed"), cells[variant])),
        statuses={(v, s): "absent" for v in cells for s in range(5) if only and only not in v},
    )
    document = stratified_document(read_folder(folder))
    assert "report.html" in write.make(document)
    if only is None:
        assert document.headline[0].startswith("On average over digits and mnist, with equal weight: cpe has a higher")
        assert re.search(r"by (9|10)\.\d+ points", document.headline[0])
    else:  # the dataset that has runs
        assert document.warnings[0] == "digits: no run has finished yet." and "cpe" in document.headline[0]
    assert "name=mnist" not in " ".join(document.headline)


CELLS = {f"name={d}, pos_embed={e}": (d, e) for d in ("digits", "mnist") for e in ("none", "cpe")}


def stratified(tmp_path, **options):
    """The report of `stratified_folder`."""
    return stratified_document(read_folder(stratified_folder(tmp_path, **options)))


def stratified_folder(tmp_path, **options):
    """A study whose factors are the dataset and the positional embedding."""
    return write_study(
        tmp_path,
        accuracy=dict(zip(CELLS, (0.2, 0.3, 0.8, 0.9))),
        factors={"data.name": ["digits", "mnist"], "model.pos_embed": ["none", "cpe"]},
        levels=lambda variant: dict(zip(("data.name", "model.pos_embed"), CELLS[variant])),
        **options,
    )


def test_a_plan_that_was_kept_is_not_called_changed(tmp_path):
    folder = stratified_folder(tmp_path)
    state_plan(folder)
    said = " ".join(stratified_document(read_folder(folder)).warnings)
    assert "changed" not in said
    plan = study_file.read_study(folder)
    study_file.write_study(folder, {**{key: value for key, value in plan.items() if key != "schema"}, "margin": 0.3})
    said = " ".join(stratified_document(read_folder(folder)).warnings)
    assert "digits: The margin was changed" in said and "baseline was changed" not in said


def test_an_excluded_record_is_listed_under_its_dataset(tmp_path):
    folder = stratified_folder(tmp_path)
    (folder / "v3-s4" / record.METRICS).write_text("epoch\n")
    shutil.copytree(folder / "v0-s0", folder / "extra")
    excluded = stratified_document(read_folder(folder, skip_unreadable=True)).excluded
    assert [run for run, _ in excluded] == ["mnist: v3-s4", "extra"]


@pytest.mark.parametrize("only", [None, "digits"])
def test_a_tuned_study_with_a_dataset_as_a_factor(tmp_path, only):
    settings = {"settings": {"optim.lr": 0.1}, "trial": 0, "val/acc": 0.9, "epochs": 4}
    trial = {"trial": 0, "seed": 10, "status": "finished", "epochs": 4, "val/acc": 0.9, "val/loss": 1.0}
    tuned = {
        **{
            "study": "position",
            "objective": "val/acc",
            "sampler": "tpe",
            "pruner": "none",
            "budget": 1,
            "base": {},
            "code": {},
        },
        "space": {"optim.lr": {"low": 1e-4, "high": 0.1, "log": True}},
        "variants": {cell: {"levels": {}, **settings} for cell in CELLS},
        "trials": [{**trial, "variant": cell, "settings": settings["settings"]} for cell in CELLS],
    }
    lost = {(cell, seed): "absent" for cell in CELLS for seed in range(5) if only and only not in cell}
    folder = stratified_folder(tmp_path, tuned=tuned, statuses=lost)
    document = stratified_document(read_folder(folder))
    said = " ".join(document.warnings)
    assert "other settings than the runs" not in said and "at or near an end of" in said
    assert "report.html" in write.make(document)


def test_runs_without_a_plan_need_the_same_variants_on_each_dataset(tmp_path):
    folder = stratified_folder(tmp_path, seeds=2)
    (folder / record.STUDY).unlink()
    for path in folder.glob(f"*/{record.CONFIG}"):
        config = json.loads(path.read_text())
        if (config["data"]["name"], config["model"]["pos_embed"]) == ("mnist", "none"):
            shutil.rmtree(path.parent)
    with pytest.raises(UserError, match="have different variants: 'none' only on digits"):
        stratified_document(read(str(folder)))


def test_one_seed_on_each_dataset_gives_the_means_without_tests(tmp_path):
    document = stratified(tmp_path, seeds=1)
    text = write.make(document)["report.md"].decode()
    assert document.headline[0].startswith("No variant is compared over the datasets yet: that needs 2 finished runs")
    assert re.search(r"is that of cpe on digits \(\d\d\.\d+ %\) and that of cpe on mnist \(\d\d\.\d+ %\)\.", text)
    assert document.warnings[0].startswith("digits: the baseline none has 1 finished run; averages over the datasets")
    assert [table.name for table in document.tables] == ["datasets", "dataset-differences"]
    assert not re.search(r"significant|has a higher", " ".join(document.headline))


def test_a_dataset_with_one_run_of_the_baseline_waits_for_more(tmp_path):
    """Only mnist has two runs of the baseline, so nothing is averaged; both datasets are shown."""
    few = {(v, seed): "absent" for v in CELLS if "digits" in v for seed in range(1, 5)}
    document = stratified(tmp_path, statuses=few)
    assert [text.split(":")[0] for text in document.warnings[:1]] == ["digits"]
    assert "digits" in document.headline[1] and "mnist" in document.headline[1]
    assert "report.html" in write.make(document)


def test_no_variant_with_two_runs_is_not_called_a_single_variant(tmp_path):
    few = {(v, seed): "absent" for v in CELLS if "cpe" in v for seed in range(1, 5)}
    headline = " ".join(stratified(tmp_path, statuses=few).headline)
    assert "No variant is compared over the datasets yet" in headline and "no other variant" not in headline


def test_nothing_is_tested_before_the_first_planned_look(tmp_path):
    """Three seeds have ended on both datasets, and more on digits; the first look is at five."""
    left = {(v, seed): "absent" for v in CELLS for seed in range(3 if "mnist" in v else 5, 10)}
    document = stratified(tmp_path, seeds=10, looks=[5, 10], statuses=left)
    assert document.headline[0] == (
        "Nothing is tested yet: the first planned look is at 5 seeds, and all runs of 3 seeds have ended. So no variant can "
        "be called better, worse or equivalent."
    )
    assert not re.search(r"has a higher|alpha", " ".join(document.headline))
    assert "improvement" not in [table.name for table in document.tables]
    text = write.make(document)["report.md"].decode()
    assert "Lan and DeMets" in text and "looks that a study plans are for its own tests" not in text


def test_a_planned_look_tests_its_seeds_at_its_own_level(tmp_path):
    """Seven seeds have ended, so the look at five counts, at the O'Brien-Fleming level of half the information."""
    left = {(v, seed): "absent" for v in CELLS for seed in range(7, 10)}
    document = stratified(tmp_path, seeds=10, looks=[5, 10], statuses=left)
    headline = " ".join(document.headline)
    assert "5 seeds per dataset" in headline and "Holm-adjusted over the variants and for the planned looks" in headline
    assert (
        "tests and intervals of differences use its level, 0.31 % instead of 5 %" in headline
    )  # Lan and DeMets (1983)
    assert "The next look is at 10 seeds." in headline


def test_a_repeated_look_without_a_plan_is_said(tmp_path):
    left = {(v, seed): "absent" for v in CELLS for seed in range(3, 5)}
    stratified(tmp_path / "three", statuses=left)
    folder = tmp_path / "five" / "position"
    stratified(tmp_path / "five")
    add_look(folder, this_look(read_folder(tmp_path / "three" / "position")))
    headline = " ".join(stratified_document(read_folder(folder)).headline)
    assert "This is the second look at this study (first at 3 seeds)." in headline
