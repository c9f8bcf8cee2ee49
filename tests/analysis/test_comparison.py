"""Two studies compared: what is paired and how it is tested."""

import numpy as np
import pytest
from scipy import stats
from synthetic import write_study

from analysis.comparison import compare_studies
from analysis.results import analyze
from analysis.sources.folder import read_folder
from experiments.errors import UserError


def results_of(tmp_path, **options):
    return analyze(read_folder(write_study(tmp_path, **options)))


def test_differences_are_paired_by_seed_and_agree_with_scipy(tmp_path):
    a = results_of(tmp_path / "a", seeds=5, spread=0.02)
    b = results_of(tmp_path / "b", seeds=7, accuracy={"none": 0.75, "learned-1d": 0.9, "rope-2d": 0.95}, spread=0.03)
    found = {change.variant: change for change in compare_studies(a, b).changes}
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


def test_how_a_difference_to_the_baseline_changes_is_tested_itself(tmp_path):
    a = results_of(tmp_path / "a", accuracy={"none": 0.6, "learned-1d": 0.7, "cpe": 0.8}, seeds=5, spread=0.02)
    b = results_of(tmp_path / "b", accuracy={"none": 0.7, "learned-1d": 0.8, "cpe": 0.8}, seeds=6, spread=0.03)
    found = {change.variant: change for change in compare_studies(a, b).shifts}
    assert list(found) == ["learned-1d", "cpe"]
    p = []
    for variant, change in found.items():
        to_baseline = [[s.values[variant][i] - s.values["none"][i] for i in range(5)] for s in (a, b)]
        diffs = np.subtract(to_baseline[1], to_baseline[0])
        assert change.diff.value == pytest.approx(diffs.mean(), rel=1e-12)
        p.append(stats.ttest_1samp(diffs, 0).pvalue)
    assert [change.p_holm for change in found.values()] == pytest.approx(np.minimum(2 * np.array(p), 1), rel=1e-9)
    assert found["cpe"].word == "lower" and found["learned-1d"].word != "lower"


def test_studies_that_share_nothing_are_refused(tmp_path):
    a = results_of(tmp_path / "a", seeds=3)
    with pytest.raises(UserError, match="share no variant"):
        compare_studies(a, results_of(tmp_path / "b", accuracy={"rope-2d": 0.9, "alibi-2d": 0.8}, seeds=3))
