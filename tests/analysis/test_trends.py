"""Differences along training length and number of images: values by hand, tests with the right error rates, the report."""

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats
from simulation import at_most
from synthetic import ACCURACY, add_metrics, write_study

from analysis import stats
from analysis.figures.line_figures import profile_plots, trend_plots
from analysis.report.headline import headline
from analysis.report.study_report import study_document
from analysis.report.tables.trends import trend_tables
from analysis.report.trend_text import profile_methods, spread_text, trend_text
from analysis.results.study_results import analyze
from analysis.sources.read import read
from vit.registry import REGISTRY

# statistics


def test_the_size_of_a_difference_shrinks_grows_or_keeps_its_size_when_its_sign_turns():
    noise = np.array([-0.1, 0.0, 0.1, 0.05, -0.05])
    shrinks, turns = stats.size_change(2 + noise, 1 + noise[::-1]), stats.size_change(2 + noise, -2.001 - noise[::-1])
    assert shrinks.shrinks and shrinks.p < 0.001 and shrinks.change.value == pytest.approx(-1)
    assert not turns.shrinks and turns.p > 0.5  # the difference changes, its size does not
    grows = stats.size_change(1 + noise, -3 + noise[::-1])
    assert not grows.shrinks and grows.p < 0.001


def test_its_p_is_the_larger_of_two_paired_t_tests():
    rng = np.random.default_rng(1)
    first, last = rng.normal(1, 1, 6), rng.normal(0.3, 1, 6)
    ps = [scipy_stats.ttest_1samp(each, 0).pvalue for each in (first - last, first + last)]
    assert stats.size_change(first, last).p == pytest.approx(max(ps))


@pytest.mark.parametrize("truth", [(0.0, 0.0), (1.0, 1.0), (1.0, -1.0), (3.0, -3.0)], ids=str)
@pytest.mark.parametrize("n", [3, 5, 10])
def test_a_size_that_does_not_change_is_rarely_said_to(truth, n):
    rng = np.random.default_rng([n, int(10 * truth[0]), truth[1] < 0])
    studies = 1000
    first, last = (rng.normal(mean, sd, (studies, n)) for mean, sd in zip(truth, (1, 0.4)))
    said = np.array([stats.size_change(a, b).p < 0.05 for a, b in zip(first, last)])
    assert at_most(0.05, said)


def test_the_spread_of_variants_without_noise_is_the_standard_deviation_of_their_means():
    truth = np.array([0.1, 0.4, 0.5, 0.9])
    found = stats.spread_change(np.tile(truth[:, None], 4), np.tile(truth[:, None] / 2, 4))
    assert found.first == pytest.approx(np.std(truth, ddof=1))
    assert found.last == pytest.approx(found.first / 2)
    assert found.change.value == pytest.approx(-0.75 * np.var(truth, ddof=1))


def test_the_spread_is_that_of_the_true_means_however_noisy_the_runs_are():
    rng = np.random.default_rng(0)
    truth = np.array([-1.0, 0.0, 1.0])[:, None]
    runs = [truth + rng.normal(0, 2, (3, 4)) + rng.normal(0, 5, (1, 4)) for _ in range(3000)]
    squares = [stats.spread_change(x, 2 * truth + np.zeros((3, 4))).change.value for x in runs]
    assert np.mean(squares) == pytest.approx(4 - 1, abs=0.15)


@pytest.mark.parametrize("n", [3, 5, 10])
@pytest.mark.parametrize("spread", [0.0, 0.5, 2.0])
def test_a_spread_that_does_not_change_is_rarely_said_to(spread, n):
    rng = np.random.default_rng([n, int(10 * spread)])
    truth, studies = spread * np.linspace(-1, 1, 7)[:, None], 1000
    said = []
    for _ in range(studies):
        first = rng.normal(0, 1, (7, n))
        seeds = rng.normal(0, 1, (1, n))
        last = 0.3 * first + rng.normal(0, 0.5, (7, n))
        said.append(stats.spread_change(truth + first + seeds, truth[::-1] + last + seeds).p < 0.05)
    assert at_most(0.055, np.array(said))


def test_too_few_seeds_or_variants_are_not_tested():
    for shape in ((2, 5), (3, 2), (3, 0)):
        assert np.isnan(stats.spread_change(np.zeros(shape), np.ones(shape)).p)


# a study

FIVE = {**ACCURACY, "relative": 0.9}
GAPS = {2: 3.0, 3: 2.0}  # how many times larger the differences are after 2 and 3 of 4 epochs


def with_lengths(tmp_path, **options):
    folder = write_study(tmp_path, **options)

    def value(summary, variant, seed):
        if summary["test/acc"] is None:
            return {}
        gaps = {f"test/acc@{n}": 0.72 + (summary["test/acc"] - 0.72) / (4 * factor) for n, factor in GAPS.items()}
        return {**gaps, "fewshot/digits/5": summary["test/acc"] / 2, "fewshot/digits/1": summary["test/acc"] / 4}

    add_metrics(folder, value)
    return analyze(read(str(folder)))


def test_a_trend_holds_the_paired_differences_at_each_length(tmp_path):
    results = with_lengths(tmp_path)
    (trend,) = results.trends
    assert (trend.points, trend.baseline, trend.kinds) == ([2, 3, 4], "none", list(ACCURACY)[1:])
    for variant in results.others:
        final = results.versus[variant].diff
        assert trend.diffs[variant][4].value == pytest.approx(final.value)
        assert (trend.diffs[variant][4].low, trend.diffs[variant][4].high) == pytest.approx((final.low, final.high))
        for n, factor in GAPS.items():
            assert trend.diffs[variant][n].value == pytest.approx(final.value / (4 * factor))
        change, adjusted = trend.pairs[variant, "none"]
        assert not change.shrinks and change.p <= adjusted < 0.05
    assert len(trend.pairs) == 6


def test_the_number_of_images_is_a_condition_where_it_is_a_factor(tmp_path):
    cells = {f"{kind}, {n}": (kind, n) for n in (80, 800) for kind in ("none", "sinusoidal", "learned-1d")}
    means = {cell: 0.5 + 0.1 * (kind != "none") * (2 if n == 80 else 1) for cell, (kind, n) in cells.items()}
    paths = ("model.pos_embed", "data.train_limit")
    folder = write_study(
        tmp_path,
        accuracy=means,
        factors={paths[0]: ["none", "sinusoidal", "learned-1d"], paths[1]: [80, 800]},
        levels=lambda cell: dict(zip(paths, cells[cell], strict=True)),
    )
    (trend,) = analyze(read(str(folder))).trends
    assert (trend.unit, trend.points, trend.baseline) == ("training images", [80, 800], "none")
    assert trend.diffs["sinusoidal"][80].value == pytest.approx(0.2, abs=0.01)
    change, adjusted = trend.pairs["sinusoidal", "none"]
    assert change.shrinks and adjusted < 0.05


def test_the_report_shows_few_shot_accuracies_and_the_trend(tmp_path):
    results = with_lengths(tmp_path)
    document = study_document(results)
    sections = {section.id: section for section in document.sections}
    assert sections["trend-lengths"].heading == "Training length"
    assert (
        "Claim: differences between variants shrink with training. Verdict: " in sections["trend-lengths"].paragraphs[0]
    )
    assert [item.name for item in sections["fewshot-digits"].items] == ["fewshot-digits", "fewshot-digits"]
    terms = [term for term, _ in sections["methods"].items[0].facts]
    assert {"Few-shot accuracy", "Differences that shrink", "Training length"} <= set(terms)
    (plot,) = trend_plots(results)
    assert len(plot.figure.axes[0].containers) == 3
    (few,) = profile_plots(results)
    assert [text.get_text() for text in few.figure.axes[0].get_xticklabels()] == ["1", "5"]


def test_the_report_shows_other_sizes_shifts_and_permuted_images(tmp_path):
    folder = write_study(tmp_path)

    def value(summary, variant, seed):
        sizes = {f"test/acc@{side}px": summary["test/acc"] * side / 8 for side in (4, 8)}
        return {**sizes, "shift/1": 0.9, "shift/2": 0.8, "permuted/acc": 0.1 + 0.01 * seed}

    add_metrics(folder, value)
    results = analyze(read(str(folder)))
    sections = {section.id: section for section in study_document(results).sections}
    sizes, shifts = sections["img-sizes"], sections["shifts"]
    assert [section.heading for section in (sizes, shifts)] == ["Other image sizes", "Shifted and permuted images"]
    assert [column.title for column in shifts.items[1].columns][-1] == "test accuracy with permuted patches, %"
    assert sizes.items[1].rows[0][1].data[0] == pytest.approx(results.mean("none").value / 2)
    terms = [term for term, _ in sections["methods"].items[0].facts]
    assert {"Other image sizes", "Shifted and permuted images"} <= set(terms)
    (figure,) = (plot.figure for plot in profile_plots(results) if plot.name == "img-sizes")
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == ["4", "8"]


def test_the_size_of_training_is_among_the_other_sizes(tmp_path):
    folder = write_study(tmp_path)
    add_metrics(folder, lambda summary, *_: {f"test/acc@{side}px": 0.3 for side in (4, 16)})
    results = analyze(read(str(folder)))
    (figure,) = (plot.figure for plot in profile_plots(results) if plot.name == "img-sizes")
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == ["4", "8", "16"]
    drawn = [bars.lines[0].get_data()[1] for bars in figure.axes[0].containers]
    trained = [100 * results.mean(variant).value for variant in results.variants.names]
    assert sorted(y[1] for y in drawn) == pytest.approx(sorted(trained))


def test_more_variants_than_colours_get_a_panel_each_with_sizes_to_scale(tmp_path):
    kinds = [
        "none",
        "sinusoidal",
        "learned-1d",
        "learned-2d",
        "relative",
        "sincos-2d",
        "rope-2d",
        "cpe",
        "cape",
        "irpe-k",
    ]
    folder = write_study(tmp_path, accuracy={kind: 0.5 + 0.02 * number for number, kind in enumerate(kinds)})
    sides = (4, 8, 16, 18)
    add_metrics(
        folder, lambda summary, *_: {f"test/acc@{side}px": summary["test/acc"] * 8 / side for side in sides[1:]}
    )
    add_metrics(folder, lambda summary, *_: {"test/acc@4px": summary["test/acc"] / 2})
    results = analyze(read(str(folder)))
    (found,) = profile_plots(results)
    panels = [axes for axes in found.figure.axes if axes.get_visible()]
    assert [axes.get_title() for axes in panels] == kinds
    for kind, axes in zip(kinds, panels, strict=True):
        (bars,) = axes.containers  # the intervals of its own line; the other lines have none
        x, y = bars.lines[0].get_data()
        mean = 100 * results.mean(kind).value
        assert list(y) == pytest.approx([mean / 2, mean, mean / 2, mean * 8 / 18])
        assert list(np.diff(x)) == pytest.approx([2, 4, 1])  # to scale
        assert len(axes.lines) == len(kinds) + (kind != "none")  # all variants, and the baseline over them
    assert "Dashed: none." in found.caption and "by image size, trained at 8 px, " in found.caption
    assert all(len(texts) == len(sides) for texts in found.tips.values()) and len(found.tips) == len(kinds)


def test_bars_of_accuracies_end_at_what_an_accuracy_can_be(tmp_path):
    folder = write_study(tmp_path)
    add_metrics(folder, lambda summary, variant, seed: {f"shift/{n}": 0.98 - 0.9 * (seed == 0) for n in (1, 2)})
    (shifts,) = profile_plots(analyze(read(str(folder))))
    for container in shifts.figure.axes[0].containers:
        (bars,) = container.lines[2]
        ends = np.array(bars.get_segments())[..., 1]
        assert ends.min() >= -1e-9 and ends.max() == pytest.approx(100)


def test_a_study_without_such_metrics_has_none_of_this(tmp_path):
    results = analyze(read(str(write_study(tmp_path))))
    assert results.trends == [] and trend_plots(results) == [] == profile_plots(results)
    assert not any(section.id.startswith(("trend", "fewshot")) for section in study_document(results).sections)


def test_runs_that_diverged_and_missing_seeds_are_left_out(tmp_path):
    results = with_lengths(tmp_path, statuses={("sinusoidal", 1): "diverged", ("learned-1d", 2): "absent"})
    (trend,) = results.trends
    assert (trend.diffs["sinusoidal"][2].n, trend.diffs["learned-1d"][4].n, trend.spread.change.n) == (4, 4, 3)
    text = trend_text(results, trend)
    assert text[-1] == "1 diverged run is left out here, also from the tests."
    assert trend_tables(trend, "are not adjusted")[0].caption.endswith("95 % interval, 4 to 5 seeds.")


def test_the_last_row_of_the_table_is_the_spread_of_the_kinds_and_the_largest_is_named(tmp_path):
    gaps = {80: 1.0, 300: 3.0, 800: 1.1}
    cells = {f"{kind}, {n}": (kind, n) for n in gaps for kind in ("none", "sinusoidal", "learned-1d", "relative")}
    places = {"none": 0.0, "sinusoidal": 0.1, "learned-1d": 0.12, "relative": 0.16}
    means = {cell: 0.3 + gaps[n] * places[kind] for cell, (kind, n) in cells.items()}
    paths = ("model.pos_embed", "data.train_limit")
    folder = write_study(
        tmp_path,
        accuracy=means,
        spread=1e-5,
        factors={paths[0]: list(places), paths[1]: list(gaps)},
        levels=lambda cell: dict(zip(paths, cells[cell], strict=True)),
    )
    results = analyze(read(str(folder)))
    (trend,) = results.trends
    truth = np.std([0.1, 0.12, 0.16], ddof=1)
    assert trend.spreads == pytest.approx({n: gap * truth for n, gap in gaps.items()}, rel=0.01)
    row = trend_tables(trend, "are not adjusted")[0].rows[-1]
    assert [cell.text for cell in row[1:4]] == [f"{100 * gap * truth:.2f}" for gap in gaps.values()]
    said = spread_text(results, trend)
    assert said.endswith("In between it is larger: 9.17 points with 300 (not tested).") and said in headline(results)


def test_what_cannot_be_tested_is_said_so(tmp_path):
    one = with_lengths(tmp_path / "one", seeds=1)
    assert trend_text(one, one.trends[0]) == [
        "Claim: differences between variants shrink with training. Not tested: it needs at least three variants and three "
        "seeds that all of them have.",
        "The change of no pair can be tested: a test needs two seeds that have both ends.",
    ]
    assert {row[-1].text for row in trend_tables(one.trends[0], "are not adjusted")[0].rows} == {"not tested"}
    equal = with_lengths(tmp_path / "equal", spread=0.0)
    assert "Not tested: the standard deviation of the means is the same whichever" in spread_text(
        equal, equal.trends[0]
    )
    lost = with_lengths(tmp_path / "lost", statuses={("relative", seed): "absent" for seed in range(5)}, accuracy=FIVE)
    assert trend_text(lost, lost.trends[0])[-1] == "Left out, because no run has finished: relative."


def test_more_differences_than_colours_get_a_panel_each(tmp_path):
    kinds = [kind for kind in REGISTRY if kind != "none"][:9]
    results = with_lengths(tmp_path, accuracy={"none": 0.7, **{kind: 0.8 for kind in kinds}})
    (plot,) = trend_plots(results)
    panels = [axes for axes in plot.figure.axes if axes.get_visible()]
    assert [axes.get_title() for axes in panels] == kinds and "Grey: the other variants." in plot.caption


def test_the_report_says_how_each_kind_carries_over_to_other_sizes(tmp_path):
    folder = write_study(tmp_path, accuracy={"none": 0.7, "learned-1d": 0.8, "cape": 0.8, "irpe-k": 0.8})
    add_metrics(folder, lambda summary, *_: {f"test/acc@{side}px": 0.5 for side in (4, 8)})
    ((_, text),) = profile_methods(analyze(read(str(folder))))
    assert text.endswith(
        "Tables interpolated to the new grid (bicubic, as in timm), so that positions are relative to the image: learned-1d. "
        "Computed for the new grid, with positions relative to the image: cape. "
        "Weights unchanged, with positions counted in patches: irpe-k."
    )


def test_with_planned_looks_the_trends_are_not_tested(tmp_path):
    results = with_lengths(tmp_path, looks=[3, 10])
    (trend,) = results.trends
    assert math.isnan(trend.spread.p) and all(math.isnan(p) for _, p in trend.pairs.values())
    for variant in results.others:  # at the end of training, the interval is the one of the comparison
        last, final = trend.diffs[variant][4], results.versus[variant].diff
        assert (last.n, last.low, last.high) == pytest.approx((final.n, final.low, final.high))
        change, _ = trend.pairs[variant, "none"]
        assert (change.last.low, change.last.high) == pytest.approx((final.low, final.high))
    said = " ".join(trend_text(results, trend))
    assert "Not tested: the study plans looks, and the tests of this section are for one look." in said
    assert "significantly" not in said
    for table in trend_tables(trend, results.policy.intervals):
        assert "Changes are not tested. Intervals are adjusted for the planned looks only." in table.notes
    assert (
        "95 % intervals over 3 seeds. Intervals are adjusted for the planned looks only."
        in trend_plots(results)[0].caption
    )
