"""Test images, from hits that are written by hand."""

import numpy as np
import pytest
import shown
from synthetic import add_hits, add_predictions, results_of, write_study

from analysis.answers.images.compute import ImageResults
from analysis.answers.images.show import classes_table, disagreement_table
from analysis.answers.study_report import study_document, study_headline
from analysis.answers.study_results import analyze
from analysis.runs.exported import export
from analysis.runs.hits import VariantHits
from analysis.runs.read import read
from analysis.write.text import text

NONE = [[1, 1, 0, 0], [1, 0, 0, 0]]  # hits of two seeds on four images
LEARNED = [[1, 1, 1, 0], [1, 1, 1, 1]]
LABELS = [0, 0, 1, 1]


def images_of(**hits):
    """Hits by variant and seed, on the same images."""
    arrays = {name: np.array(runs, dtype=bool) for name, runs in hits.items()}
    stacked = {name: VariantHits(a, np.array(LABELS), "same", seeds=tuple(range(len(a)))) for name, a in arrays.items()}
    return ImageResults(stacked)


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
    at = names.index("classes")
    assert names[at : at + 2] == ["classes", "disagreement"]
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


@pytest.mark.parametrize(("share", "said"), [(-0.2, "about none would remain"), (0.71, "about 71 % would remain")])
def test_the_share_of_the_spread_that_remains_is_said(share, said):
    assert said in text("images", "remaining", share=share, variants=2)


def test_the_report_says_which_share_of_the_spread_remains_where_two_seeds_tell(tmp_path):
    """none: the hits have 2/3 by hand, see the test of `remaining_share`; the seeds of learned-1d have equal means."""
    folder = write_study(tmp_path, accuracy={"none": 0.5, "learned-1d": 0.5}, seeds=2)
    rows = {"v0-s0": [1, 1, 1, 0], "v0-s1": [1, 0, 0, 0], "v1-s0": [1, 1, 1, 0], "v1-s1": [0, 1, 1, 1]}
    for name, row in rows.items():
        add_hits(folder / name, row, LABELS)
    results = analyze(read(str(folder)))
    (said,) = next(part for part in study_document(results).sections if part.id == "images").paragraphs
    # ratios of mean squares: 3 and 0, so the share is 1 - 2 / 3
    assert "about 33 % would remain on an infinitely large test set" in said
