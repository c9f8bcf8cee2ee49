"""Differences along training length and number of images: values by hand, and what is left out."""

import pytest
from synthetic import ACCURACY, add_metrics, write_grid, write_study

from analysis.answers.study_results import analyze
from analysis.runs.read import read

GAPS = {2: 3.0, 3: 2.0}  # how many times larger the differences are after 2 and 3 of 4 epochs
PATHS = ("model.pos_embed", "data.train_limit")


def with_lengths(tmp_path, **options):
    folder = write_study(tmp_path, **options)

    def value(summary, variant, seed):
        if summary["test/acc"] is None:
            return {}
        return {f"test/acc@{n}": 0.72 + (summary["test/acc"] - 0.72) / (4 * factor) for n, factor in GAPS.items()}

    add_metrics(folder, value)
    return analyze(read(str(folder)))


def with_limits(tmp_path, kinds, gaps, **options):
    """A study of kinds and numbers of images: the accuracy of a kind is 0.3 plus its value times the gap of the
    number.
    """
    accuracies = [0.3 + gaps[n] * kinds[kind] for kind in kinds for n in gaps]
    folder = write_grid(tmp_path, {PATHS[0]: list(kinds), PATHS[1]: list(gaps)}, accuracies, **options)
    return analyze(read(str(folder)))


def test_a_trend_holds_the_paired_differences_at_each_length(tmp_path):
    results = with_lengths(tmp_path)
    (trend,) = results.trends
    assert (trend.points, trend.baseline) == ([2, 3, 4], "none")
    for variant in results.variants.others:
        final = results.comparisons.versus[variant].diff
        assert trend.diffs[variant][4].value == pytest.approx(final.value)
        assert (trend.diffs[variant][4].low, trend.diffs[variant][4].high) == pytest.approx((final.low, final.high))
        for n, factor in GAPS.items():
            assert trend.diffs[variant][n].value == pytest.approx(final.value / (4 * factor))


def test_the_number_of_images_is_a_condition_where_it_is_a_factor(tmp_path):
    (trend,) = with_limits(tmp_path, {"none": 0, "sinusoidal": 0.1, "learned-1d": 0.1}, {80: 2, 800: 1}).trends
    assert (trend.unit, trend.points, trend.baseline) == ("training images", [80, 800], "none")
    assert trend.diffs["sinusoidal"][80].value == pytest.approx(0.2, abs=0.01)


def test_runs_that_diverged_and_missing_seeds_are_left_out(tmp_path):
    lost = {("sinusoidal", 1): "diverged", ("learned-1d", 2): "absent"}
    (trend,) = with_lengths(tmp_path, statuses=lost).trends
    assert (trend.diffs["sinusoidal"][2].n, trend.diffs["learned-1d"][4].n) == (4, 4)
    assert trend.diverged == 1 and set(trend.seeds) == {4, 5}


def test_a_row_without_a_finished_run_is_missing(tmp_path):
    lost = {("relative", seed): "absent" for seed in range(5)}
    (trend,) = with_lengths(tmp_path, statuses=lost, accuracy={**ACCURACY, "relative": 0.9}).trends
    assert trend.missing == ["relative"] and "relative" not in trend.diffs


def test_a_study_whose_runs_all_diverged_has_no_trends(tmp_path):
    lost = {
        (f"pos_embed={kind}, train_limit={n}", seed): "diverged"
        for kind in ("none", "relative")
        for n in (80, 800)
        for seed in range(2)
    }
    assert with_limits(tmp_path, {"none": 0, "relative": 0.1}, {80: 2, 800: 1}, seeds=2, statuses=lost).trends == []


def test_a_study_without_a_condition_has_no_trends(tmp_path):
    assert analyze(read(str(write_study(tmp_path)))).trends == []


def test_with_planned_looks_the_intervals_are_those_of_the_look(tmp_path):
    results = with_lengths(tmp_path, looks=[3, 10])
    (trend,) = results.trends
    assert trend.planned
    for variant in results.variants.others:  # at the end of training, the interval is the one of the comparison
        last, final = trend.diffs[variant][4], results.comparisons.versus[variant].diff
        assert (last.n, last.low, last.high) == pytest.approx((final.n, final.low, final.high))
