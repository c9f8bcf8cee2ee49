"""Tables about the test images, from hits that are written by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import t
from synthetic import add_predictions, write_study

from analysis.report.headline import headline
from analysis.report.methods import scope
from analysis.report.study_report import study_document
from analysis.report.tables.images import agreement_table, classes_table, disagreement_table, images_table
from analysis.results.study_results import StudyResults, analyze
from analysis.sources.read import read
from experiments.runs import record
from experiments.runs.predictions import to_bytes

NONE = [[1, 1, 0, 0], [1, 0, 0, 0]]  # hits of two seeds on four images
LEARNED = [[1, 1, 1, 0], [1, 1, 1, 1]]
LABELS = [0, 0, 1, 1]


def results_of(tmp_path: Path, **hits: list[list[int]]) -> StudyResults:
    """Results of a study with these hits, by variant (with _ for -) and seed."""
    names = {name.replace("_", "-"): runs for name, runs in hits.items()}
    folder = write_study(tmp_path, accuracy=dict.fromkeys(names, 0.5), seeds=2)
    for index, runs in enumerate(names.values()):
        for seed, row in enumerate(runs):
            path = folder / f"v{index}-s{seed}"
            body = {k: v for k, v in record.read_summary(path).items() if k not in ("files", "digest")}
            record.write_bytes(path / record.PREDICTIONS, to_bytes(row, np.full(4, 0.5), LABELS))
            record.write_summary(path, {**body, "test/acc": sum(row) / 4})
    return analyze(read(str(folder)))


@pytest.fixture
def results(tmp_path: Path) -> StudyResults:
    return results_of(tmp_path, none=NONE, learned_1d=LEARNED)


def texts(table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.rows]


def test_intervals_of_differences_by_hand(results: StudyResults) -> None:
    """learned-1d - none: seed 0: 0 0 1 0, seed 1: 0 1 1 1. Means of seeds 1/4 and 3/4."""
    row = dict(zip((column.title for column in images_table(results).columns), images_table(results).rows[1]))
    value, low, high = row["new seeds: difference from none, points"].data
    half = t.ppf(0.975, 1) * 0.25
    assert (value, low, high) == pytest.approx((0.5, 0.5 - half, 0.5 + half))
    value, low, high = row["new seeds and images: difference from none, points"].data
    assert value == 0.5
    assert low <= 0.5 - half
    assert high >= 0.5 + half
    assert (row["n"].text, row["test images"].text) == ("2", "4")


def test_intervals_of_differences_have_the_level_of_a_planned_look(tmp_path: Path) -> None:
    """On the same seeds, the difference for new seeds is that of the table of differences."""
    folder = write_study(tmp_path, seeds=10, looks=[5, 10], statuses={("none", s): "incomplete" for s in range(5, 10)})
    add_predictions(folder)
    results = analyze(read(str(folder)))
    assert len(results.policy.looks.seeds) == 5
    for variant, versus in results.images.versus.items():
        found, expected = versus.seeds, results.versus[variant].diff
        assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert "level of the planned look" in images_table(results).notes[0]


def test_accuracy_by_class_by_hand(results: StudyResults) -> None:
    assert texts(classes_table(results)) == [["none", "75.0", "0.0"], ["learned-1d", "100.0", "75.0"]]


def test_agreement_by_hand(results: StudyResults) -> None:
    """The two runs of none agree on 3 of 4 images. With the runs of learned-1d they agree on 3, 2, 2 and 1 images."""
    assert texts(agreement_table(results)) == [["none", "75.0", "50.0"], ["learned-1d", "50.0", "75.0"]]


def test_images_on_which_variants_differ_most_come_first(results: StudyResults) -> None:
    assert texts(disagreement_table(results)) == [
        ["2", "1", "learned-1d: 100 %", "none: 0 %"],
        ["1", "0", "learned-1d: 100 %", "none: 50 %"],
        ["3", "1", "learned-1d: 50 %", "none: 0 %"],
    ]


def test_of_images_with_equal_differences_the_one_that_divides_the_variants_comes_first(tmp_path: Path) -> None:
    """All images differ by 100 points between two variants; only on the last are the four variants divided in half."""
    ones, row = [1, 1, 1, 1], [0, 0, 0, 1]
    found = results_of(tmp_path, none=[[0] * 4] * 2, learned_1d=[ones] * 2, relative=[row] * 2, cpe=[[0] * 4] * 2)
    assert [row[0].text for row in disagreement_table(found).rows] == ["3", "0", "1", "2"]


def test_variants_that_never_differ_give_no_table_of_disagreement(tmp_path: Path) -> None:
    assert disagreement_table(results_of(tmp_path, none=NONE, learned_1d=NONE)) is None


def test_records_without_predictions_give_no_tables(tmp_path: Path) -> None:
    results = analyze(read(str(write_study(tmp_path))))
    assert results.images is None
    for table in (images_table, classes_table, agreement_table, disagreement_table):
        assert table(results) is None
    assert "images" not in [section.id for section in study_document(results).sections]


def test_the_report_shows_the_tables(tmp_path: Path) -> None:
    folder = write_study(tmp_path)
    add_predictions(folder)
    document = study_document(analyze(read(str(folder))))
    names = [table.name for table in document.tables]
    assert names[0] == "variants"
    at = names.index("images")
    assert names[at : at + 4] == ["images", "classes", "agreement", "disagreement"]


@pytest.mark.parametrize(
    ("splits", "words"),
    [
        ([0, 0], "to other seeds on the same images, and not to other images"),
        (["per-seed", "per-seed"], "to other seeds and other splits of the same dataset"),
        ([0, "per-seed"], "in some variants the split"),
    ],
)
def test_methods_say_what_an_interval_covers(splits: list[int | str], words: str, tmp_path: Path) -> None:
    folder = write_study(
        tmp_path,
        accuracy={"a": 0.5, "b": 0.6},
        factors={"data.split_seed": splits},
        levels=lambda variant: {"data.split_seed": splits["ab".index(variant)]},
    )
    results = analyze(read(str(folder)))
    assert words in scope(results)[1]
    assert ("the same training and test images" in headline(results)[-1]) == ("per-seed" not in splits)
