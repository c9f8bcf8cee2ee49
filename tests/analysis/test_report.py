"""The report of a study: the answers of the reference studies, the order of sections, and odd studies."""

import re
from functools import cache

import pandas as pd
import pytest
from page import STUDIES, results, study
from synthetic import on_dataset, results_of, write_factorial, write_study

from analysis import compare
from analysis.findings import analyze, analyze_each
from analysis.outputs.across import document_of
from analysis.report import headline, study_document, study_sections
from analysis.runs.by_dataset import by_dataset, datasets_of
from analysis.runs.folder import read_folder
from analysis.runs.read import read
from analysis.write import files as write

TWO = {"none": 0.7, "learned-1d": 0.9}


@cache
def of_one_factor():
    """Reference study of one factor on one dataset -> its findings."""
    studies = {name: study(name) for name in STUDIES}
    return {name: results(name) for name, s in studies.items() if len(s.factors) == 1 and len(datasets_of(s)) == 1}


def sentences(findings):
    return [said for part in headline(study_sections(findings)) for said in re.split(r"(?<=[.])\s+(?=[A-Z\d“])", part)]


@pytest.mark.parametrize("name", STUDIES)
def test_the_answer_has_at_most_three_sentences_of_short_parts(name):
    if name in of_one_factor():
        said = sentences(of_one_factor()[name])
        assert 1 <= len(said) <= 3, said
        assert max(len(part) for one in said for part in one.split("; ")) <= 260, said  # with the names of variants


@pytest.mark.parametrize(
    "options",
    [
        {"accuracy": {"none": 0.7}},
        {"accuracy": TWO, "statuses": {("none", seed): "diverged" for seed in range(5)}},
        {"accuracy": TWO, "statuses": {("learned-1d", seed): "incomplete" for seed in (1, 2, 3, 4)}},
        {"spread": 0.0},
        {"metric": "val/loss", "margin": 0.05},
        {"looks": [10, 20]},
    ],
    ids=[*("one variant", "baseline diverged", "one pair", "no spread", "a loss", "before the first look")],
)
def test_incomplete_studies_still_have_a_report(tmp_path, options):
    files = write.make(study_document(results_of(tmp_path, **options)))
    assert not re.search(rb"(?i)\b(nan|inf|none of)\b", files["report.md"])


def test_a_loss_is_not_tested_for_equivalence_at_the_margin_of_an_accuracy(tmp_path):
    """The plan's margin is 1 point of test accuracy. The losses have only tests of a difference in each report."""
    sources = [write_study(tmp_path / name, spread=1e-4, **on_dataset(name)) for name in ("digits", "mnist")]
    both = [read(str(at), metric="test/loss") for at in sources]
    one = analyze(both[0])
    assert {c.verdict for c in one.comparisons.pairs.values()} <= {"better", "worse", "not shown"}
    for document in (study_document(one), document_of(analyze_each(by_dataset(both)), both)):
        page = write.make(document)["report.md"].decode().partition("## Reproduce")[0]  # its file states a margin
        said = [line for line in page.splitlines() if re.search("equivalen|margin", line, re.IGNORECASE)]
        assert said and all("stated for test accuracy" in x or "nothing is called equivalent" in x for x in said)


def test_a_study_of_several_factors_starts_with_them_and_another_with_its_variants(tmp_path):
    studies = results_of(tmp_path / "one"), analyze(read_folder(write_factorial(tmp_path / "two")))
    one, several = ([part.id for part in study_document(findings).as_shown().sections] for findings in studies)
    assert one[:4] == ["result", "differences", "curves", "cost"]
    assert several[:3] == ["factors", "result", "differences"]
    assert several[-4:] == ["methods", "provenance", "reproduce", "runs"]


@pytest.mark.parametrize(("far", "said"), [(1.0, 1), (0.1, 0)])
def test_a_variant_that_scatters_more_than_four_times_as_much_as_the_others_is_named(far, said):
    values = {"a": [0.50, 0.51, 0.52], "b": [0.60, 0.61, 0.62], "c": [0.7 - 0.05 * far, 0.7, 0.7 + 0.05 * far]}
    rows = [
        {"method": name, "seed": seed, "acc": value} for name, of in values.items() for seed, value in enumerate(of)
    ]
    for variance, notes in (("shared", said), ("paired", 0)):
        results = compare(pd.DataFrame(rows), "acc", variance=variance)
        found = [warning for warning in results.warnings if "4 times the standard deviation" in warning]
        assert len(found) == notes and all("c" in warning and "variance: paired" in warning for warning in found)
