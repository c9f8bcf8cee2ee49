"""Differences along training length and number of images: values by hand, and what is left out."""

import pytest
from synthetic import ACCURACY, add_metrics, results_of, write_grid, write_study

from analysis.findings import analyze
from analysis.questions.trends import differences_table, question, study_trends
from analysis.runs.read import read

GAPS = {2: 3.0, 3: 2.0}  # how many times larger the differences are after 2 and 3 of 4 epochs
PATHS = ("model.pos_embed", "data.train_limit")


def trends(findings):
    return study_trends(findings.study, findings.variants, findings.policy)


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
    return analyze(
        read(str(write_grid(tmp_path, {PATHS[0]: list(kinds), PATHS[1]: list(gaps)}, accuracies, **options)))
    )


@pytest.mark.parametrize("looks", [[], [3, 10]], ids=["no looks", "planned looks"])
def test_a_trend_holds_the_paired_differences_at_each_length(looks, tmp_path):
    """At the end of training they are those of the comparison, also at the level of a planned look."""
    findings = with_lengths(tmp_path, looks=looks)
    (trend,) = trends(findings)
    assert (trend.points, trend.baseline) == ([2, 3, 4], "none")
    for variant in findings.variants.others:
        final, last = findings.comparisons.versus[variant].diff, trend.diffs[variant][4]
        assert (last.n, last.value, last.low, last.high) == pytest.approx((final.n, final.value, final.low, final.high))
        for n, factor in GAPS.items():
            assert trend.diffs[variant][n].value == pytest.approx(final.value / (4 * factor))
    for row in differences_table(trend).data.to_dict("records"):
        diff = trend.diffs[row["variant"]][3]
        assert (row["at_3"], row["at_3_low"], row["at_3_high"]) == (diff.value, diff.low, diff.high)


def test_the_number_of_images_is_a_condition_where_it_is_a_factor(tmp_path):
    (trend,) = trends(with_limits(tmp_path, {"none": 0, "sinusoidal": 0.1, "learned-1d": 0.1}, {80: 2, 800: 1}))
    assert (trend.unit, trend.points, trend.baseline) == ("training images", [80, 800], "none")
    assert trend.diffs["sinusoidal"][80].value == pytest.approx(0.2, abs=0.01)


def test_diverged_runs_missing_seeds_and_rows_without_a_finished_run_are_left_out_and_named(tmp_path):
    lost = {("sinusoidal", 1): "diverged", ("learned-1d", 2): "absent"}
    lost |= {("relative", seed): "absent" for seed in range(5)}
    findings = with_lengths(tmp_path, statuses=lost, accuracy={**ACCURACY, "relative": 0.9})
    (trend,) = trends(findings)
    assert (trend.diffs["sinusoidal"][2].n, trend.diffs["learned-1d"][4].n) == (4, 4) and set(trend.seeds) == {4, 5}
    assert question(findings).paragraphs == [
        "Left out, because no run that counts here has finished: relative.",
        "Diverged runs, left out here: 1.",
    ]


def test_a_study_whose_runs_all_diverged_or_without_a_condition_has_no_trends(tmp_path):
    lost = {
        (f"pos_embed={kind}, train_limit={n}", seed): "diverged"
        for kind in ("none", "relative")
        for n in (80, 800)
        for seed in range(2)
    }
    findings = with_limits(tmp_path / "a", {"none": 0, "relative": 0.1}, {80: 2, 800: 1}, seeds=2, statuses=lost)
    assert question(findings) is question(results_of(tmp_path / "b", seeds=2)) is None
