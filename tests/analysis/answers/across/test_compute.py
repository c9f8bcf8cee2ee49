"""Studies over several datasets: what is aggregated, what is left out, and which studies are refused."""

import numpy as np
import pytest
from scipy import stats
from synthetic import on_dataset, results_of

from analysis.answers.across.compute import aggregate, studies_by_dataset
from experiments.errors import UserError


def results_on(tmp_path, dataset, **options):
    return results_of(tmp_path / dataset, **on_dataset(dataset), **options)


def across_of(studies):
    return aggregate(studies_by_dataset(studies))


def test_the_average_difference_is_tested_over_the_seeds_within_datasets(tmp_path):
    """Two datasets, five and seven seeds. Welch's test of the differences on one and the negative ones on the other."""
    one, two = results_on(tmp_path, "digits", spread=0.02), results_on(tmp_path, "mnist", spread=0.05, seeds=7)
    across = across_of([one, two])
    for variant in ("sinusoidal", "learned-1d", "learned-2d"):
        a, b = (
            [r.means.values[variant][s] - r.means.values["none"][s] for s in r.means.values["none"]] for r in (one, two)
        )
        expected = stats.ttest_ind(a, np.negative(b), equal_var=False)
        found = across.differences[variant]
        assert found.diff.value == pytest.approx((np.mean(a) + np.mean(b)) / 2, rel=1e-12)
        assert found.p == pytest.approx(expected.pvalue, rel=1e-6)


def test_the_margin_of_the_average_is_the_smallest_of_the_studies(tmp_path):
    studies = [results_on(tmp_path, name, margin=margin) for name, margin in (("digits", 0.02), ("mnist", 0.01))]
    assert across_of(studies).policy.margin == 0.01


def test_planned_looks_of_a_study_are_for_its_own_tests(tmp_path):
    """Before the first planned look, the study tests nothing. The average uses all finished runs and says so."""
    studies = [results_on(tmp_path, name, looks=[10, 20]) for name in ("digits", "mnist")]
    across = across_of(studies)
    assert across.differences["learned-1d"].diff.n == 10


def test_a_variant_with_a_missing_cell_is_left_out_and_named(tmp_path):
    lost = {("cpe", seed): "diverged" for seed in range(4)}
    accuracy = {"none": 0.7, "learned-1d": 0.9, "cpe": 0.8}
    one = results_on(tmp_path, "digits", accuracy=accuracy)
    two = results_on(tmp_path, "mnist", accuracy=accuracy, statuses=lost)
    across = across_of([one, two])
    assert list(across.scores) == ["none", "learned-1d"] and across.left_out == {"cpe": "1 seed on mnist"}
    assert list(across.differences) == ["learned-1d"]


def test_a_seed_without_both_runs_is_not_paired(tmp_path):
    one = results_on(tmp_path, "digits", statuses={("none", 0): "incomplete"})
    across = across_of([one, results_on(tmp_path, "mnist")])
    assert across.differences["learned-1d"].diff.n == 9 and set(across.seeds) == {4, 5}
    assert across.scores["learned-1d"].n == 10


@pytest.mark.parametrize("there", [0.75, 0.8])
def test_a_dataset_on_which_the_average_does_not_hold(tmp_path, there):
    """By hand: the variant is 40 points above the baseline on one dataset; on the other it is 5 below, or equal to
    it.
    """
    one = results_on(tmp_path, "digits", accuracy={"none": 0.5, "cpe": 0.9}, spread=0.0)
    two = results_on(tmp_path, "mnist", accuracy={"none": 0.8, "cpe": there}, spread=0.0)
    ((variant, dataset, difference),) = across_of([one, two]).opposite_signs()
    assert (variant, dataset) == ("cpe", "mnist") and difference == pytest.approx(there - 0.8, abs=1e-12)


def test_a_verdict_that_needs_the_surviving_runs_says_so(tmp_path):
    accuracy, lost = {"none": 0.70, "cpe": 0.80}, {("cpe", 0): "diverged", ("cpe", 1): "diverged"}
    one = results_on(tmp_path, "digits", accuracy=accuracy, statuses=lost)
    across = across_of([one, results_on(tmp_path, "mnist", accuracy=accuracy)])
    found = across.differences["cpe"]
    assert (found.verdict, found.verdict_of_finished) == ("not shown", "better")


@pytest.mark.parametrize("variant", ["cpe", "none"])
def test_without_a_known_chance_level_nothing_is_shown_of_diverged_runs(tmp_path, variant):
    """An image folder states no number of classes, and the loss of a diverged run is then unknown."""
    accuracy, lost = {"none": 0.7, "cpe": 0.8}, {(variant, 0): "diverged"}
    options = {"accuracy": accuracy, "metric": "test/loss", "margin": 0.05}
    one = results_on(tmp_path, "imagefolder", statuses=lost, **options)
    across = across_of([one, results_on(tmp_path, "digits", **options)])
    found = across.differences["cpe"]
    assert (found.verdict, found.verdict_of_finished) == ("not shown", "better")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"accuracy": {"none": 0.7, "rope-2d": 0.9}}, "different variants: 'sinusoidal', 'learned-1d', 'learned-2d' "
                                                      "only on digits"),
        ({"metric": "val/acc"}, "different metrics: test/acc and val/acc"),
        ({"baseline": "sinusoidal"}, "different baselines: 'none' and 'sinusoidal'"),
        ({"statuses": {("none", seed): "diverged" for seed in range(5)}}, "the baseline 'none' has 0 seeds on mnist"),
    ],
    ids=["variants", "metric", "baseline", "baseline without runs"],
)  # fmt: skip
def test_studies_that_do_not_belong_together_are_refused(tmp_path, options, said):
    with pytest.raises(UserError, match="across: ") as refused:
        across_of([results_on(tmp_path, "digits"), results_on(tmp_path, "mnist", **options)])
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_one_study_or_one_dataset_is_refused(tmp_path):
    one = results_on(tmp_path, "digits")
    with pytest.raises(UserError, match="one study is not enough"):
        across_of([one])
    with pytest.raises(UserError, match="position and position use the same dataset, digits"):
        across_of([one, results_on(tmp_path / "again", "digits")])
