"""Two studies side by side: what is paired, what is said, what cannot be compared."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests
from synthetic import write_study

from analysis.report import write
from analysis.report.compare import changes, compare_document, shifts
from analysis.results import analyze
from analysis.sources.folder import read_folder
from experiments.errors import UserError

COMMAND = "vit-report --compare a b"


def findings_of(tmp_path, **options):
    return analyze(read_folder(write_study(tmp_path, **options)))


def test_differences_are_paired_by_seed_and_agree_with_scipy(tmp_path):
    a = findings_of(tmp_path / "a", seeds=5)
    b = findings_of(
        tmp_path / "b", seeds=7, accuracy={"none": 0.75, "learned-1d": 0.952, "rope-2d": 0.97}, spread=0.006
    )
    found = {change.variant: change for change in changes(a, b, ["none", "learned-1d"])}
    assert list(found) == ["none", "learned-1d"]
    for variant, change in found.items():
        one, two = ([each.values[variant][seed] for seed in range(5)] for each in (a, b))
        diffs = np.subtract(two, one)
        assert (
            change.diff.value == pytest.approx(diffs.mean(), rel=1e-12) and change.diff.n == 5 and change.dropped == 2
        )
        assert (change.diff.low, change.diff.high) == pytest.approx(
            stats.t.interval(0.95, 4, diffs.mean(), stats.sem(diffs)), rel=1e-12
        )
    assert found["none"].word == "higher"


def test_the_document_says_where_verdicts_differ(tmp_path):
    a = findings_of(tmp_path / "a", accuracy={"none": 0.7, "learned-1d": 0.9})
    b = findings_of(tmp_path / "b", accuracy={"none": 0.9, "learned-1d": 0.7})
    first, second = compare_document(a, b, COMMAND).answer
    assert "none is higher in B" in first and "learned-1d is lower in B" in first
    assert second == "As to the difference to the baseline: that of learned-1d is lower in B."


def test_how_a_difference_to_the_baseline_changes_is_tested_itself(tmp_path):
    a = findings_of(tmp_path / "a", accuracy={"none": 0.6, "learned-1d": 0.7, "cpe": 0.8}, seeds=5)
    b = findings_of(tmp_path / "b", accuracy={"none": 0.7, "learned-1d": 0.8, "cpe": 0.8}, seeds=6, spread=0.006)
    found = {change.variant: change for change in shifts(a, b, ["none", "learned-1d", "cpe"])}
    assert list(found) == ["learned-1d", "cpe"]
    p = []
    for variant, change in found.items():
        to_baseline = [[s.values[variant][i] - s.values["none"][i] for i in range(5)] for s in (a, b)]
        diffs = np.subtract(to_baseline[1], to_baseline[0])
        assert change.diff.value == pytest.approx(diffs.mean(), rel=1e-12)
        p.append(stats.ttest_1samp(diffs, 0).pvalue)
    assert [change.p_holm for change in found.values()] == pytest.approx(multipletests(p, method="holm")[1], rel=1e-9)
    assert found["cpe"].word == "lower" and found["learned-1d"].word != "lower"
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
