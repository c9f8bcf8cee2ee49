"""Test images, from hits that are written by hand: the accuracy by class, and where variants differ most."""

import numpy as np
import pytest
import shown
from synthetic import add_hits, results_of, write_study

from analysis.findings import analyze
from analysis.questions.classes import question
from analysis.questions.models import disagreement_table
from analysis.runs.exported import export
from analysis.runs.hits import VariantHits
from analysis.runs.images import StudyImages, study_images
from analysis.runs.read import read

NONE = [[1, 1, 0, 0], [1, 0, 0, 0]]  # hits of two seeds on four images
LEARNED = [[1, 1, 1, 0], [1, 1, 1, 1]]
LABELS = [0, 0, 1, 1]


def images_of(**hits):
    """Hits by variant and seed, on the same images."""
    arrays = {name: np.array(runs, dtype=bool) for name, runs in hits.items()}
    stacked = {name: VariantHits(a, np.array(LABELS), "same", seeds=tuple(range(len(a)))) for name, a in arrays.items()}
    return StudyImages(stacked)


@pytest.mark.parametrize(
    ("classes", "columns", "names"),
    [
        ([], ["class 0", "class 1"], {"0", "1"}),
        (["0", "1"], ["class 0", "class 1"], {"0", "1"}),
        (["cat", "a_<dog> & 1"], ["cat", "a_<dog> & 1"], {"cat", "a_<dog> & 1"}),
    ],
)
def test_accuracy_by_class_has_the_names_of_the_records_through_an_export(classes, columns, names, tmp_path):
    """The record of the first run is older and has no names."""
    folder = write_study(tmp_path, accuracy={"none": 0.5, "learned-1d": 0.5}, seeds=2)
    for name, row in {"v0-s0": NONE[0], "v0-s1": NONE[1], "v1-s0": LEARNED[0], "v1-s1": LEARNED[1]}.items():
        add_hits(folder / name, row, LABELS, [] if name == "v0-s0" else classes)
    for source in (folder, export(read(str(folder)), tmp_path / "exported")):
        study = read(str(source))
        (table,) = question(analyze(study)).items
        assert [column.label for column in table.columns][-2:] == columns
        assert table.data[["class_0", "class_1"]].to_numpy().tolist() == [[0.75, 0.0], [1.0, 0.75]]  # by hand
        assert {row[1] for row in shown.texts(disagreement_table(study_images(study)))} == names


def test_a_study_without_predictions_has_no_table(tmp_path):
    assert question(results_of(tmp_path, seeds=2)) is None


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
    assert images.disagreements() == [3, 0, 1, 2]
