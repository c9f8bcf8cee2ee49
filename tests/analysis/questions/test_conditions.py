"""The sections on training length, few-shot accuracies, image sizes and shifts: the numbers that they show, and
which sentence.
"""

import numpy as np
import pytest
from synthetic import add_metrics, write_study

from analysis.answers.profiles.show import profile_sections, profile_table
from analysis.answers.study_results import analyze
from analysis.answers.trends.show import differences_table, trend_section
from analysis.figures.styles import study_styles
from analysis.figures.style import FAINT
from analysis.runs.read import read
from analysis.write.text import facts
from vit.registry import REGISTRY


def measured(tmp_path, metrics, **options):
    """The results of a study with more metrics: name -> test accuracy -> value."""
    folder = write_study(tmp_path, **options)
    add_metrics(folder, lambda summary, *_: {name: value(summary["test/acc"]) for name, value in metrics.items()})
    return analyze(read(str(folder)))


LENGTHS = {"test/acc@2": lambda reached: 0.5 + reached / 4, "test/acc@3": lambda reached: 0.5 + reached / 2}
SIZES = {f"test/acc@{side}px": lambda reached, side=side: reached * side / 20 for side in (4, 16, 18)}
FEW = {"fewshot/digits/5": lambda reached: reached / 2, "fewshot/digits/1": lambda reached: reached / 4}
SHIFTS = {"shift/1": lambda reached: 0.9, "shift/2": lambda reached: 0.8, "permuted/acc": lambda reached: 0.1}


def sections(results):
    return profile_sections(results.profiles, results.variants, study_styles(results.variants, results.means))


def test_the_table_of_a_trend_holds_its_differences(tmp_path):
    (trend,) = measured(tmp_path, LENGTHS).trends
    table = differences_table(trend)
    for row in table.data.to_dict("records"):
        diff = trend.diffs[row["variant"]][3]
        assert (row["at_3"], row["at_3_low"], row["at_3_high"]) == (diff.value, diff.low, diff.high)


def test_a_section_names_what_it_leaves_out(tmp_path):
    lost = {("learned-1d", seed): "absent" for seed in range(5)} | {("sinusoidal", 1): "diverged"}
    folder = write_study(tmp_path, statuses=lost)
    add_metrics(folder, lambda summary, *_: {} if summary["test/acc"] is None else {"test/acc@2": 0.1})
    results = analyze(read(str(folder)))
    *_, left_out = trend_section(results.trends[0], study_styles(results.variants, results.means)).paragraphs
    assert "finished: learned-1d." in left_out and "Diverged runs, left out here: 1." in left_out


def test_a_profile_has_its_points_in_order_and_the_trained_size_among_the_sizes(tmp_path):
    results = measured(tmp_path, {**SIZES, **FEW, **SHIFTS, "fewshot-val/digits/1": lambda reached: 0.5}, seeds=3)
    few, sizes, shifts = results.profiles
    assert [list(profile.points) for profile in results.profiles] == [[1, 5], [4, 8, 16, 18], [1, 2]]
    assert [profile.name for profile in results.profiles] == ["fewshot-digits", "img-sizes", "shifts"]
    assert sizes.points[8] == "test/acc" and list(np.diff(sizes.places)) == pytest.approx([2, 4, 1])  # to scale
    assert few.details == ("fewshot-val/digits/1",) and shifts.details == ("permuted/acc",)
    frame = profile_table(sizes, results.variants).data
    assert frame["test/acc@4px"].tolist() == pytest.approx([results.means.of(v).value / 5 for v in frame["variant"]])
    tables = [profile_table(profile, results.variants) for profile in (few, shifts)]
    details = {column.label: column.detail for table in tables for column in table.columns}
    assert details["1-shot accuracy (digits on validation images), %"]
    assert not details["test accuracy with permuted patches, %"]
    assert [section.id for section in sections(results)] == ["fewshot-digits", "img-sizes", "shifts"]
    assert [len(section.items) for section in sections(results)] == [2, 2, 2]


def test_permuted_images_alone_have_a_table_and_no_figure(tmp_path):
    results = measured(tmp_path, {"permuted/acc": lambda reached: 0.1}, seeds=2)
    (section,) = sections(results)
    assert [item.name for item in section.items] == ["shifts"] and hasattr(section.items[0], "columns")


def test_each_variant_has_a_line_with_its_means(tmp_path):
    results = measured(tmp_path, SIZES)
    plot = sections(results)[0].items[0]
    (axes,) = plot.figure.axes
    assert [text.get_text() for text in axes.get_xticklabels()] == ["4", "8", "16", "18"]
    for bars, variant in zip(axes.containers, results.variants.names, strict=True):
        mean = 100 * results.means.of(variant).value
        assert list(bars.lines[0].get_ydata()) == pytest.approx([mean / 5, mean, mean * 0.8, mean * 0.9])


def test_of_more_variants_than_colours_the_others_are_grey_lines(tmp_path):
    kinds = ["none", *[kind for kind in REGISTRY if kind != "none"][:9]]
    accuracy = {kind: 0.5 + 0.02 * i for i, kind in enumerate(kinds)}
    results = measured(tmp_path, {**SIZES, **LENGTHS}, accuracy=accuracy, seeds=2)
    styles = study_styles(results.variants, results.means)
    (sizes, _), (lengths, *_) = (
        section.items for section in (*sections(results), trend_section(results.trends[0], styles))
    )
    for plot, shown in ((sizes, styles.coloured), (lengths, styles.coloured[1:])):  # the baseline has no differences
        (axes,) = plot.figure.axes
        assert [text.get_text() for text in plot.figure.legends[0].get_texts()] == shown
        assert len(axes.containers) == len(shown) and "Grey: " in plot.caption
        grey = [line.get_ydata() for line in axes.lines if line.get_color() == FAINT and len(line.get_xdata()) > 2]
        assert len(grey) == 2
        if plot is sizes:
            others = [100 * results.means.of(kind).value for kind in kinds if kind not in shown]
            assert sorted(values[1] for values in grey) == pytest.approx(sorted(others))  # at the trained size


def test_bars_of_accuracies_end_at_what_an_accuracy_can_be(tmp_path):
    folder = write_study(tmp_path)
    add_metrics(folder, lambda summary, variant, seed: {f"shift/{n}": 0.98 - 0.9 * (seed == 0) for n in (1, 2)})
    plot = sections(analyze(read(str(folder))))[0].items[0]
    for container in plot.figure.axes[0].containers:
        ends = np.array(container.lines[2][0].get_segments())[..., 1]
        assert ends.min() >= -1e-9 and ends.max() == pytest.approx(100)


def test_the_methods_say_how_each_metric_is_measured_and_how_kinds_carry_over_to_other_sizes(tmp_path):
    accuracy = {"none": 0.7, "learned-1d": 0.8, "cape": 0.8, "irpe-k": 0.8}
    results = measured(tmp_path, {**SIZES, **LENGTHS, **SHIFTS}, accuracy=accuracy, seeds=2)
    explained = dict(facts("profiles", "methods", profiles=results.profiles))
    assert list(explained) == ["Other image sizes", "Shifted and permuted images"]
    assert results.profiles[0].resized == {"learned-1d": "interpolated", "cape": "rescaled", "irpe-k": "unchanged"}
    assert "learned-1d interpolated" in explained["Other image sizes"]
    of_trends = dict(facts("trends", "methods", trends=results.trends))
    assert list(of_trends) == ["Training length"]
    assert facts("trends", "methods", trends=[]) == facts("profiles", "methods", profiles=[]) == ()
