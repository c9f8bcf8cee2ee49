"""Test images, from hits that are written by hand."""

import numpy as np
import pytest
import shown
from scipy.stats import t
from synthetic import add_hits, add_predictions, results_of, write_study

from analysis.answers.images.compute import ImageResults
from analysis.answers.images.show import classes_table, disagreement_table, images_table
from analysis.answers.study_report import study_document, study_headline
from analysis.answers.study_results import analyze
from analysis.sources.exported import export
from analysis.sources.hits import VariantHits
from analysis.sources.read import read
from analysis.stats import Estimate
from analysis.write.text import text

NONE = [[1, 1, 0, 0], [1, 0, 0, 0]]  # hits of two seeds on four images
LEARNED = [[1, 1, 1, 0], [1, 1, 1, 1]]
LABELS = [0, 0, 1, 1]


def images_of(**hits):
    """Hits by variant and seed, on the same images."""
    arrays = {name: np.array(runs, dtype=bool) for name, runs in hits.items()}
    stacked = {name: VariantHits(a, np.array(LABELS), "same", seeds=tuple(range(len(a)))) for name, a in arrays.items()}
    return ImageResults(stacked, {}, {})


def test_intervals_of_differences_by_hand(tmp_path):
    """learned-1d - none: seed 0: 0 0 1 0, seed 1: 0 1 1 1. Means of seeds 1/4 and 3/4."""
    folder = write_study(tmp_path, accuracy={"none": 0.5, "learned-1d": 0.5}, seeds=2)
    for name, row in {"v0-s0": NONE[0], "v0-s1": NONE[1], "v1-s0": LEARNED[0], "v1-s1": LEARNED[1]}.items():
        add_hits(folder / name, row, LABELS)
    results = analyze(read(str(folder)))
    table = images_table(results.images, results.variants, results.policy)
    none, learned = table.data.to_dict("records")
    half = t.ppf(0.975, 1) * 0.25
    assert [learned[f"diff_seeds{end}"] for end in ("", "_low", "_high")] == pytest.approx(
        [0.5, 0.5 - half, 0.5 + half]
    )
    assert learned["diff_both"] == 0.5
    assert learned["diff_both_low"] <= 0.5 - half <= 0.5 + half <= learned["diff_both_high"]
    assert (learned["n"], learned["images"]) == (2, 4) and np.isnan(none["diff_both"])
    assert shown.rows(table)[0]["new seeds and images: difference from none, points"] == "–"


def test_intervals_of_differences_have_the_level_of_a_planned_look(tmp_path):
    """On the same seeds, the difference for new seeds is that of the table of differences."""
    folder = write_study(tmp_path, seeds=10, looks=[5, 10], statuses={("none", s): "incomplete" for s in range(5, 10)})
    add_predictions(folder)
    results = analyze(read(str(folder)))
    assert len(results.policy.looks.seeds) == 5 and len(results.images.versus) == 3
    for variant, versus in results.images.versus.items():
        expected = results.comparisons.versus[variant].diff
        assert (versus.seeds.low, versus.seeds.high) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_accuracy_by_class_by_hand():
    images = images_of(none=NONE, learned=LEARNED)
    assert images.by_class("none").tolist() == [0.75, 0.0] and images.by_class("learned").tolist() == [1.0, 0.75]


@pytest.mark.parametrize(
    ("classes", "columns", "names"),
    [
        ([], ["class 0", "class 1"], {"0", "1"}),
        (["0", "1"], ["class 0", "class 1"], {"0", "1"}),
        (["cat", "a_<dog> & 1"], ["cat", "a_<dog> & 1"], {"cat", "a_<dog> & 1"}),
    ],
)
def test_classes_have_the_names_of_the_records_through_an_export(classes, columns, names, tmp_path):
    """The record of the first run is older and has no names."""
    folder = write_study(tmp_path, accuracy={"none": 0.5, "learned-1d": 0.5}, seeds=2)
    for name, row in {"v0-s0": NONE[0], "v0-s1": NONE[1], "v1-s0": LEARNED[0], "v1-s1": LEARNED[1]}.items():
        add_hits(folder / name, row, LABELS, [] if name == "v0-s0" else classes)
    for source in (folder, export(read(str(folder)), tmp_path / "exported")):
        results = analyze(read(str(source)))
        table = classes_table(results.images, results.variants)
        assert [column.label for column in table.columns][-2:] == columns
        assert {row[1] for row in shown.texts(disagreement_table(results.images))} == names


def test_images_on_which_variants_differ_most_come_first():
    assert shown.texts(disagreement_table(images_of(none=NONE, learned=LEARNED))) == [
        ["2", "1", "learned: 100 %", "none: 0 %"],
        ["1", "0", "learned: 100 %", "none: 50 %"],
        ["3", "1", "learned: 50 %", "none: 0 %"],
    ]
    assert disagreement_table(images_of(none=NONE, learned=NONE)) is None


def test_of_images_with_equal_differences_the_one_that_divides_the_variants_comes_first():
    """All images differ by 100 points between two variants; only on the last are the four variants divided in half."""
    images = images_of(none=[[0] * 4] * 2, learned=[[1] * 4] * 2, relative=[[0, 0, 0, 1]] * 2, cpe=[[0] * 4] * 2)
    assert [disagreement.image for disagreement in images.disagreements()] == [3, 0, 1, 2]


def test_the_report_shows_the_tables(tmp_path):
    folder = write_study(tmp_path)
    assert analyze(read(str(folder))).images is None
    add_predictions(folder)
    results = analyze(read(str(folder)))
    names = [table.name for table in study_document(results).tables]
    at = names.index("images")
    assert names[at : at + 3] == ["images", "classes", "disagreement"]
    classes = classes_table(results.images, results.variants).frame
    for place, name in enumerate(results.variants.names):
        assert classes["class_3"][place] == results.images.by_class(name)[3]


@pytest.mark.parametrize(
    ("splits", "split"),
    [([0, 0], "fixed"), (["per-seed", "per-seed"], "by seed"), ([0, "per-seed"], "by seed in some variants")],
)
def test_what_an_interval_covers_follows_from_the_split_of_each_variant(splits, split, tmp_path):
    results = results_of(
        tmp_path,
        accuracy={"a": 0.5, "b": 0.6},
        factors={"data.split_seed": splits},
        levels=lambda variant: {"data.split_seed": splits["ab".index(variant)]},
    )
    assert results.conduct.split == split
    assert ("the same training and test images" in study_headline(results)[-2]) == (split == "fixed")


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (
            Estimate(-0.2, -0.9, 0.3, 20),
            ["variant, none (95 % CI 0 to 30 %) would remain", "is this noise, and no true"],
        ),
        (Estimate(0.71, 0.55, 0.83, 20), ["71 % (95 % CI 55 to 83 %)", "is true differences in quality"]),
        (Estimate(0.3, -0.3, 0.7, 20), ["30 % (95 % CI 0 to 70 %)", "These 20 runs do not show which"]),
    ],
)
def test_the_share_of_the_spread_that_remains_is_said_with_its_consequence(share, said):
    sentences = text("images", "remaining", share=share, without=[share.value] * 2, variants=2)
    assert all(part in sentences for part in said)


def test_the_report_says_which_share_of_the_spread_remains_where_two_seeds_tell(tmp_path):
    """none: the hits have 2/3 by hand, see the test of `remaining_share`; the seeds of learned-1d have equal means."""
    folder = write_study(tmp_path, accuracy={"none": 0.5, "learned-1d": 0.5}, seeds=2)
    rows = {"v0-s0": [1, 1, 1, 0], "v0-s1": [1, 0, 0, 0], "v1-s0": [1, 1, 1, 0], "v1-s1": [0, 1, 1, 1]}
    for name, row in rows.items():
        add_hits(folder / name, row, LABELS)
    results = analyze(read(str(folder)))
    (said,) = next(part for part in study_document(results).sections if part.id == "images").paragraphs
    # ratios of mean squares: 3 and 0, so the share is 1 - 2 / 3; high: 1 - 0.0506 / 3, of chi-square with 2 df
    assert "33 % (95 % CI 0 to 98 %) would remain on an infinitely large test set" in said
