"""The accuracy by class, from hits that are written by hand."""

import pytest
from synthetic import add_hits, results_of, write_study

from analysis.findings import analyze
from analysis.questions.classes import question
from analysis.runs.exported import export
from analysis.runs.read import read

NONE = [[1, 1, 0, 0], [1, 0, 0, 0]]  # hits of two seeds on four images
LEARNED = [[1, 1, 1, 0], [1, 1, 1, 1]]
LABELS = [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("classes", "columns"),
    [
        ([], ["class 0", "class 1"]),
        (["0", "1"], ["class 0", "class 1"]),
        (["cat", "a_<dog> & 1"], ["cat", "a_<dog> & 1"]),
    ],
)
def test_accuracy_by_class_has_the_names_of_the_records_through_an_export(classes, columns, tmp_path):
    """The record of the first run is older and has no names."""
    folder = write_study(tmp_path, accuracy={"none": 0.5, "learned-1d": 0.5}, seeds=2)
    for name, row in {"v0-s0": NONE[0], "v0-s1": NONE[1], "v1-s0": LEARNED[0], "v1-s1": LEARNED[1]}.items():
        add_hits(folder / name, row, LABELS, [] if name == "v0-s0" else classes)
    for source in (folder, export(read(str(folder)), tmp_path / "exported")):
        study = read(str(source))
        (table,) = question(analyze(study)).items
        assert [column.label for column in table.columns][-2:] == columns
        assert table.data[["class_0", "class_1"]].to_numpy().tolist() == [[0.75, 0.0], [1.0, 0.75]]  # by hand


def test_a_study_without_predictions_has_no_table(tmp_path):
    assert question(results_of(tmp_path, seeds=2)) is None
