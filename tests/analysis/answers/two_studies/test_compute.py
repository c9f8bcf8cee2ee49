"""Two studies compared: what is paired and how it is tested."""

import numpy as np
import pytest
from scipy import stats
from synthetic import on_dataset, results_of

from analysis.answers.two_studies.compute import compare_studies, outcome
from experiments.errors import UserError


def test_differences_are_paired_by_seed_and_agree_with_scipy(tmp_path):
    a = results_of(tmp_path / "a", seeds=5, spread=0.02)
    b = results_of(tmp_path / "b", seeds=7, accuracy={"none": 0.75, "learned-1d": 0.9, "rope-2d": 0.95}, spread=0.03)
    found = compare_studies(a, b).changes
    assert list(found) == ["none", "learned-1d"]
    for variant, change in found.items():
        one, two = ([each.means.values[variant][seed] for seed in range(5)] for each in (a, b))
        diffs = np.subtract(two, one)
        assert (
            change.diff.value == pytest.approx(diffs.mean(), rel=1e-12) and change.diff.n == 5 and change.dropped == 2
        )
        assert (change.diff.low, change.diff.high) == pytest.approx(
            stats.t.interval(0.95, 4, diffs.mean(), stats.sem(diffs)), rel=1e-12
        )
    assert outcome(found["none"]) == "higher"


def test_how_a_difference_to_the_baseline_changes_is_tested_itself(tmp_path):
    a = results_of(tmp_path / "a", accuracy={"none": 0.6, "learned-1d": 0.7, "cpe": 0.8}, seeds=5, spread=0.02)
    b = results_of(tmp_path / "b", accuracy={"none": 0.7, "learned-1d": 0.8, "cpe": 0.8}, seeds=6, spread=0.03)
    found = compare_studies(a, b).shifts
    assert list(found) == ["learned-1d", "cpe"]
    p = []
    for variant, change in found.items():
        to_baseline = [[s.means.values[variant][i] - s.means.values["none"][i] for i in range(5)] for s in (a, b)]
        diffs = np.subtract(to_baseline[1], to_baseline[0])
        assert change.diff.value == pytest.approx(diffs.mean(), rel=1e-12)
        p.append(stats.ttest_1samp(diffs, 0).pvalue)
    assert [change.p_holm for change in found.values()] == pytest.approx(np.minimum(4 * np.array(p), 1), rel=1e-9)
    assert outcome(found["cpe"]) == "lower" and outcome(found["learned-1d"]) != "lower"


def test_equal_accuracies_are_credited_with_half_an_image_of_each_run(tmp_path):
    """Of 360 images. A change is a difference of two runs, a shift one of four."""
    a = results_of(tmp_path / "a", accuracy={"none": 0.5, "cpe": 0.6}, spread=0)
    b = results_of(tmp_path / "b", accuracy={"none": 0.5, "cpe": 0.7}, spread=0)
    both = compare_studies(a, b)
    for found, runs in ((both.changes["cpe"], 2), (both.shifts["cpe"], 4)):
        half = stats.t.isf(0.025, 4) * np.sqrt(runs) * 0.5 / 360 / np.sqrt(5)
        assert (found.diff.low, found.diff.high) == pytest.approx((0.1 - half, 0.1 + half), rel=1e-9)


def test_studies_without_a_common_variant_or_metric_are_refused(tmp_path):
    a = results_of(tmp_path / "a", seeds=3)
    with pytest.raises(UserError, match="share no variant"):
        compare_studies(a, results_of(tmp_path / "b", accuracy={"rope-2d": 0.9, "alibi-2d": 0.8}, seeds=3))
    with pytest.raises(UserError, match="measures test/acc, position measures val/loss"):
        compare_studies(a, results_of(tmp_path / "c", metric="val/loss", seeds=3))


def test_an_outcome_that_needs_the_surviving_runs_says_so(tmp_path):
    """By hand: three of six runs at chance level (10 %) make a mean of 0.8 one of about 0.45."""
    lost = {("learned-1d", seed): "diverged" for seed in range(3)}
    options = {"accuracy": {"none": 0.7, "learned-1d": 0.8}, "spread": 0.001, "seeds": 6}
    both = compare_studies(
        results_of(tmp_path / "a", **options), results_of(tmp_path / "b", statuses=lost, margin=0.01, **options)
    )
    found = {variant: (change.verdict, change.depends_on_diverged) for variant, change in both.changes.items()}
    assert found == {"none": ("equivalent", False), "learned-1d": ("equivalent", True)}
    assert [change.depends_on_diverged for change in both.shifts.values()] == [True]
    assert both.depending == ["learned-1d"]


def test_where_the_chance_level_of_a_baseline_is_not_known_every_shift_depends_on_it(tmp_path):
    """An image folder states no number of classes, and the loss of a diverged run is then unknown."""
    options = {
        "accuracy": {"none": 0.7, "cpe": 0.8},
        "metric": "test/loss",
        "margin": 0.05,
        **on_dataset("imagefolder"),
    }
    a = results_of(tmp_path / "a", statuses={("none", 0): "diverged"}, **options)
    both = compare_studies(a, results_of(tmp_path / "b", spread=0.006, **options))
    found = {variant: (change.verdict, change.depends_on_diverged) for variant, change in both.changes.items()}
    assert found == {"none": ("equivalent", True), "cpe": ("equivalent", False)}
    assert [(change.verdict, change.depends_on_diverged) for change in both.shifts.values()] == [("equivalent", True)]


def test_a_name_for_two_different_variants_is_refused(tmp_path):
    options = {"accuracy": {"2": 0.7, "4": 0.8}, "baseline": "2", "seeds": 3}
    depth = results_of(
        tmp_path / "a", levels=lambda v: {"model.depth": int(v)}, factors={"model.depth": [2, 4]}, **options
    )
    heads = results_of(
        tmp_path / "b", levels=lambda v: {"model.num_heads": int(v)}, factors={"model.num_heads": [2, 4]}, **options
    )
    with pytest.raises(
        UserError, match="^compare: the variant '[24]' has model.num_heads = 4 in one study .position. and 2 in"
    ):
        compare_studies(depth, heads)
