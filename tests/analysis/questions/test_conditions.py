"""Few-shot accuracies, other image sizes and shifts: the points, what the tables show, and the lines of the figures."""

import numpy as np
import pytest
from scipy import stats as scipy_stats
from synthetic import add_metrics, change_summary, write_study

from analysis.findings import analyze
from analysis.questions.conditions import question, study_profiles
from analysis.runs.read import read

LENGTHS = {"test/acc@2": lambda reached: 0.5 + reached / 4, "test/acc@3": lambda reached: 0.5 + reached / 2}
SIZES = {f"test/acc@{side}px": lambda reached, side=side: reached * side / 20 for side in (4, 16, 18)}
FEW = {"fewshot/digits/5": lambda reached: reached / 2, "fewshot/digits/1": lambda reached: reached / 4}
SHIFTS = {"shift/1": lambda reached: 0.9, "shift/2": lambda reached: 0.8, "permuted/acc": lambda reached: 0.1}


def measured(tmp_path, metrics, **options):
    """The findings of a study with more metrics: name -> test accuracy -> value."""
    folder = write_study(tmp_path, **options)
    add_metrics(folder, lambda summary, *_: {name: value(summary["test/acc"]) for name, value in metrics.items()})
    return analyze(read(str(folder)))


def test_a_profile_has_its_points_in_order_and_the_trained_size_among_the_sizes(tmp_path):
    findings = measured(tmp_path, {**SIZES, **FEW, **SHIFTS, "fewshot-val/digits/1": lambda reached: 0.5}, seeds=3)
    profiles = study_profiles(findings.study, findings.means)
    assert [list(profile.points) for profile in profiles] == [[1, 5], [4, 8, 16, 18], [1, 2]]
    assert profiles[1].points[8] == "test/acc" and "trained at 8 px" in profiles[1].about
    section = question(findings)
    names = ["fewshot-digits", "img-sizes", "shifts"]
    assert [item.name for item in section.items] == [name for name in names for _ in ("figure", "table")]
    few, sizes, shifts = section.items[1::2]
    frame = sizes.data
    assert frame["test/acc@4px"].tolist() == pytest.approx([findings.means.of(v).value / 5 for v in frame["variant"]])
    details = {column.label: column.detail for table in (few, shifts) for column in table.columns}
    assert details["1-shot accuracy (digits on validation images), %"]
    assert not details["test accuracy with permuted patches, %"]


def test_each_variant_has_a_line_with_its_means_to_scale(tmp_path):
    findings = measured(tmp_path, SIZES)
    (axes,) = question(findings).items[0].figure.axes
    assert [text.get_text() for text in axes.get_xticklabels()] == ["4", "8", "16", "18"]
    assert list(np.diff(axes.get_xticks())) == pytest.approx([4, 8, 2])
    for bars, variant in zip(axes.containers, findings.variants.names, strict=True):
        mean = 100 * findings.means.of(variant).value
        assert list(bars.lines[0].get_ydata()) == pytest.approx([mean / 5, mean, mean * 0.8, mean * 0.9])


def test_interpolated_positions_have_a_panel_columns_and_gains_of_their_own(tmp_path):
    """Of the variant `none`, both accuracies are equal: it has no positions to interpolate."""

    def values(summary, variant, seed):
        reached = summary["test/acc"]
        stretched = {
            name: reached / 3 + 0.01 * seed**2 if variant != "none" else SIZES[name](reached) for name in SIZES
        }
        as_they_are = {name: value(reached) for name, value in SIZES.items()}
        return as_they_are | {f"{name}/interpolated": value for name, value in stretched.items()}

    folder = write_study(tmp_path, accuracy={"none": 0.7, "rope-2d": 0.9}, seeds=4)
    add_metrics(folder, values)
    findings = analyze(read(str(folder)))
    plot, table, gains = question(findings).items
    as_they_are, other = plot.figure.axes
    assert as_they_are.get_ylim() == other.get_ylim()
    for bars, variant in zip(other.containers, findings.variants.names, strict=True):
        mean, shares = 100 * findings.means.of(variant).value, (0.2, 1, 0.8, 0.9)
        expected = [share * mean if variant == "none" or share == 1 else mean / 3 + 3.5 for share in shares]
        assert list(bars.lines[0].get_ydata()) == pytest.approx(expected)  # 8 px: trained
    assert [column.label for column in table.columns[-3:]] == [
        f"test accuracy at {side} px, interpolated positions, %" for side in (4, 16, 18)
    ]
    runs = findings.study.runs.query("variant == 'rope-2d'")["test/acc"].to_numpy()
    paired = scipy_stats.ttest_1samp(runs / 3 + 0.01 * np.arange(4) ** 2 - 0.8 * runs, 0).confidence_interval(0.95)
    frame = gains.data.set_index("variant")
    gain = frame.loc["rope-2d", ["at_16_low", "at_16_high"]]
    assert gain.tolist() == pytest.approx([paired.low, paired.high])
    assert "none" not in frame.index and "at_8" not in frame


def test_gains_are_over_the_seeds_of_a_planned_look_and_runs_without_them_are_said(tmp_path):
    sizes = {
        f"test/acc@{side}px{end}": lambda reached: reached / 2 for side in (8, 16) for end in ("", "/interpolated")
    }
    folder = write_study(tmp_path, accuracy={"none": 0.5, "rope-2d": 0.6}, seeds=6, looks=[3])
    add_metrics(folder, lambda summary, *_: {name: value(summary["test/acc"]) for name, value in sizes.items()})
    gains = question(analyze(read(str(folder)))).items[2]
    assert gains.data["variant"].tolist() == ["rope-2d"] and gains.caption.endswith(" interval, 3 seeds.")
    assert [column.label for column in gains.columns] == ["variant", "16 px, points"]  # trained at 8 px
    add_metrics(folder, lambda summary, variant, seed: {"test/acc@18px": 0.3})
    plot, table, _ = question(analyze(read(str(folder)))).items
    assert len(plot.figure.axes) == 2 and table.notes[-1].startswith("Where positions are interpolated, kinds that are")
    change_summary(folder / "v0-s0", **{"test/acc@16px/interpolated": None})
    assert question(analyze(read(str(folder)))).items[1].notes[-1].startswith("Not all runs have")


@pytest.mark.parametrize(
    ("metrics", "name"), [(("permuted/acc",), "shifts"), (("test/acc@8px", "test/acc@8px/interpolated"), "img-sizes")]
)
def test_permuted_images_or_the_trained_size_alone_have_a_table_without_figure_and_gains(metrics, name, tmp_path):
    metrics = dict.fromkeys(metrics, lambda reached: reached)
    (table,) = question(measured(tmp_path, metrics, accuracy={"none": 0.5, "rope-2d": 0.6}, seeds=3)).items
    assert table.name == name


def test_bars_of_accuracies_end_at_what_an_accuracy_can_be(tmp_path):
    folder = write_study(tmp_path)
    add_metrics(folder, lambda summary, variant, seed: {f"shift/{n}": 0.98 - 0.9 * (seed == 0) for n in (1, 2)})
    for container in question(analyze(read(str(folder)))).items[0].figure.axes[0].containers:
        ends = np.array(container.lines[2][0].get_segments())[..., 1]
        assert ends.min() >= -1e-9 and ends.max() == pytest.approx(100)
