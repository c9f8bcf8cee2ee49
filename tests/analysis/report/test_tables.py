"""Tables: their numbers against numbers computed by hand, their marks and their notes."""

import pytest
from synthetic import write_factorial, write_study

from analysis.formatting import shared_decimals
from analysis.report.tables.factors import factor_tables
from analysis.results.study_results import analyze
from analysis.sources.folder import read_folder


def results_of(tmp_path, **options):
    return analyze(read_folder(write_study(tmp_path, **options)))


def test_factors_against_a_case_by_hand(tmp_path):
    # cells 80 70 / 90 75 without scatter: rows 75 and 82.5, columns 85 and 72.5, interaction +-1.25
    tables_ = {
        table.name: [[cell.text for cell in row] for row in table.rows]
        for table in factor_tables(analyze(read_folder(write_factorial(tmp_path, spread=1e-7))))
    }
    numbers_ = [float(row[2].split()[0]) for row in tables_["effects"]]
    assert [row[:2] for row in tables_["effects"]] == [
        ["depth", "1"],
        ["depth", "2"],
        ["head", "logits"],
        ["head", "softmax"],
    ]
    assert numbers_ == pytest.approx([75, 82.5, 85, 72.5], abs=1e-3)
    interaction = [float(row[3].split()[0].replace("−", "-")) for row in tables_["interactions"]]
    assert interaction == pytest.approx([-1.25, 1.25, 1.25, -1.25], abs=1e-3)
    assert [row[:2] for row in tables_["contrasts"]] == [["depth", "1 → 2"], ["head", "logits → softmax"]]
    simple = [[row[0], row[1], row[2], float(row[3].split()[0])] for row in tables_["simple-effects"]]
    assert [row[:3] for row in simple] == [["depth", "1 → 2", f"head = {head}"] for head in ("logits", "softmax")]
    assert [row[3] for row in simple] == pytest.approx([10, 5], abs=1e-3)  # 80 -> 90, and 70 -> 75
    assert [row[:2] for row in tables_["terms"]] == [["depth", "1"], ["head", "1"], ["depth × head", "1"]]


def test_shared_decimals_show_the_median_with_two_digits_and_the_smallest_with_one():
    assert shared_decimals([3.4, 2.4, 7.7, 0.80]) == 1
    assert shared_decimals([3.4, 2.4, 7.7, 0.08]) == 2
    assert shared_decimals([float("nan"), 0.0]) is None


def test_one_factor_has_no_factor_tables(tmp_path):
    assert factor_tables(results_of(tmp_path)) == []
