"""Two studies side by side: what is paired, what is said, what cannot be compared."""

import pytest
from synthetic import write_study

from analysis.report import write
from analysis.report.compare import compare_document
from analysis.results import analyze
from analysis.sources.folder import read_folder
from experiments.errors import UserError

COMMAND = "vit-report --compare a b"


def findings_of(tmp_path, **options):
    return analyze(read_folder(write_study(tmp_path, **options)))


def test_the_document_says_where_verdicts_differ(tmp_path):
    a = findings_of(tmp_path / "a", accuracy={"none": 0.7, "learned-1d": 0.9})
    b = findings_of(tmp_path / "b", accuracy={"none": 0.9, "learned-1d": 0.7})
    first, second = compare_document(a, b, COMMAND).answer
    assert "none is higher in B" in first and "learned-1d is lower in B" in first
    assert second == "As to the difference to the baseline: that of learned-1d is lower in B."


def test_the_answer_names_the_variant_whose_difference_to_the_baseline_changed(tmp_path):
    a = findings_of(tmp_path / "a", accuracy={"none": 0.6, "learned-1d": 0.7, "cpe": 0.8}, seeds=5)
    b = findings_of(tmp_path / "b", accuracy={"none": 0.7, "learned-1d": 0.8, "cpe": 0.8}, seeds=6, spread=0.006)
    assert "that of cpe is lower in B" in compare_document(a, b, COMMAND).answer[1]


def test_it_is_a_whole_report(tmp_path):
    a, b = findings_of(tmp_path / "a", seeds=3), findings_of(tmp_path / "b", seeds=3, margin=0.02)
    files = write.make(compare_document(a, b, COMMAND))
    assert {"report.html", "report.md", "tables/compared.csv", "tables/verdicts.tex", "figures/compared.svg"} <= set(
        files
    )
    assert b"A: 0.01; B: 0.02" in files["report.html"]
    assert COMMAND.encode() in files["report.html"]
    assert files == write.make(compare_document(a, b, COMMAND))


def test_what_cannot_be_compared_is_refused(tmp_path):
    a = findings_of(tmp_path / "a", seeds=3)
    with pytest.raises(UserError, match="share no variant"):
        compare_document(a, findings_of(tmp_path / "b", accuracy={"rope-2d": 0.9, "alibi-2d": 0.8}, seeds=3), COMMAND)
    with pytest.raises(UserError, match="measures test/acc, position measures val/loss"):
        compare_document(a, findings_of(tmp_path / "c", metric="val/loss", seeds=3), COMMAND)
