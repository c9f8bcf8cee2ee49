"""The comparison of two studies: its headline, its files, and studies that cannot be compared."""

from dataclasses import replace

import pytest
from synthetic import write_study

from analysis.report import write
from analysis.report.compare import compare_document
from analysis.results.study_results import analyze
from analysis.sources.folder import read_folder
from experiments.config import RunConfig, override
from experiments.errors import UserError

COMMAND = "vit-report compare a b"


def results_of(tmp_path, **options):
    return analyze(read_folder(write_study(tmp_path, **options)))


def test_the_headline_says_which_variants_changed(tmp_path):
    a = results_of(tmp_path / "a", accuracy={"none": 0.7, "learned-1d": 0.9})
    b = results_of(tmp_path / "b", accuracy={"none": 0.9, "learned-1d": 0.7})
    first, second, third = compare_document(a, b, COMMAND).headline
    assert "none is higher in B" in first and "learned-1d is lower in B" in first
    diff = 100 * (b.mean("learned-1d").value - a.mean("learned-1d").value)  # the seeds are the same
    assert f"learned-1d is lower in B, by {-diff:.2f} points (95 % CI" in first or (
        f"learned-1d is lower in B, by {-diff:.1f} points (95 % CI" in first
    )
    assert second.startswith("Difference from the baseline: that of learned-1d is lower in B, by ")
    assert "paired t tests" in third.lower()


def test_a_variant_with_one_shared_seed_is_not_called_tested(tmp_path):
    a, b = (
        results_of(tmp_path / name, accuracy={"none": 0.7, "cpe": 0.9}, seeds=n) for name, n in (("a", 5), ("b", 1))
    )
    first, second, _ = compare_document(a, b, COMMAND).headline
    assert "none and cpe cannot be tested: a test needs two seeds that have finished in both studies" in first
    assert (
        "that of cpe cannot be tested: a test needs two seeds that have finished in both studies, also for the baseline"
        in second
        and "significant" not in first + second
    )


def test_the_headline_names_the_settings_that_differ(tmp_path):
    base = RunConfig().model_dump()
    deep = override(RunConfig(), {"model.depth": 5}).model_dump()
    a, b = results_of(tmp_path / "a", seeds=3, base=base), results_of(tmp_path / "b", seeds=3, base=deep)
    depth = base["model"]["depth"]
    assert f"The studies differ in model.depth (A: {depth}; B: 5)" in compare_document(a, b, COMMAND).headline[2]
    assert "The settings are the same" in compare_document(a, a, COMMAND).headline[2]


def test_factors_and_settings_that_only_one_study_records_are_no_difference(tmp_path):
    bases = [override(RunConfig(), {"model.pos_embed": kind}).model_dump() for kind in ("none", "cpe")]
    a, b = (results_of(tmp_path / name, seeds=3, base=base) for name, base in zip("ab", bases))
    del b.study.base["model.depth"]  # as in a source without a plan
    assert (
        "The settings are the same, so a difference can come from code" in compare_document(a, b, COMMAND).headline[2]
    )


def test_other_images_are_named(tmp_path):
    results = results_of(tmp_path, seeds=3)
    a, b = (
        replace(results, study=replace(results.study, runs=results.study.runs.assign(train_images=n)))
        for n in (1800.0, 2000.0)
    )
    document = compare_document(a, b, COMMAND)
    assert "The settings are the same, but the images are not" in document.headline[2]
    facts = dict(fact for section in document.sections for item in section.items for fact in getattr(item, "facts", []))
    assert facts["images"] == "train images: A: 1,800; B: 2,000"


def test_where_files_are_is_no_difference_and_two_baselines_are_named(tmp_path):
    accuracy = {"none": 0.7, "learned-1d": 0.9, "cpe": 0.8}
    at = [override(RunConfig(), {"data.root": root}).model_dump() for root in ("/a", "/b")]
    a = results_of(tmp_path / "a", accuracy=accuracy, base=at[0])
    b = results_of(tmp_path / "b", accuracy=accuracy, base=at[1], baseline="learned-1d")
    said = compare_document(a, b, COMMAND).headline
    assert "The settings are the same" in said[-1] and "data.root" not in said[-1]
    assert said[1].startswith("Difference from each study's own baseline (A: none; B: learned-1d): ")


def test_the_headline_says_which_differences_from_the_baseline_changed(tmp_path):
    a = results_of(tmp_path / "a", accuracy={"none": 0.6, "learned-1d": 0.7, "cpe": 0.8}, seeds=5)
    b = results_of(tmp_path / "b", accuracy={"none": 0.7, "learned-1d": 0.8, "cpe": 0.8}, seeds=6, spread=0.006)
    assert "that of cpe is lower in B" in compare_document(a, b, COMMAND).headline[1]


def test_it_is_a_complete_report(tmp_path):
    a, b = results_of(tmp_path / "a", seeds=3), results_of(tmp_path / "b", seeds=3, margin=0.02)
    files = write.make(compare_document(a, b, COMMAND))
    assert {"report.html", "report.md", "tables/compared.csv", "tables/verdicts.tex", "figures/compared.svg"} <= set(
        files
    )
    assert b"A: 0.01; B: 0.02" in files["report.html"]
    assert COMMAND.encode() in files["report.html"]
    assert files == write.make(compare_document(a, b, COMMAND))


def test_studies_without_a_common_variant_or_metric_are_an_error(tmp_path):
    a = results_of(tmp_path / "a", seeds=3)
    with pytest.raises(UserError, match="share no variant"):
        compare_document(a, results_of(tmp_path / "b", accuracy={"rope-2d": 0.9, "alibi-2d": 0.8}, seeds=3), COMMAND)
    with pytest.raises(UserError, match="measures test/acc, position measures val/loss"):
        compare_document(a, results_of(tmp_path / "c", metric="val/loss", seeds=3), COMMAND)
