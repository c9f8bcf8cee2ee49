"""Tables: their numbers against numbers computed by hand, their marks and their notes."""

import csv
import io
import re

import numpy as np
import pytest
from synthetic import write_factorial, write_study

from analysis.formatting import shared_decimals
from analysis.report import render
from analysis.report.tables.cells import counts_note
from analysis.report.tables.comparisons import baseline_table
from analysis.report.tables.cost import cost_table
from analysis.report.tables.factors import factor_tables
from analysis.report.tables.runs import runs_table
from analysis.report.tables.variants import spread_table, variants_table
from analysis.results.study_results import analyze
from analysis.sources.folder import read_folder


def results_of(tmp_path, **options):
    return analyze(read_folder(write_study(tmp_path, **options)))


def exact(tmp_path, values):
    """Results of a study in which variant v's seed s reached exactly values[v][s]."""
    import json

    from experiments.runs import record

    folder = write_study(tmp_path, accuracy=dict.fromkeys(values, 0.5), seeds=len(next(iter(values.values()))))
    for index, runs in enumerate(values.values()):
        for seed, value in enumerate(runs):
            run = folder / f"v{index}-s{seed}"
            summary = json.loads((run / "summary.json").read_text())
            record.write_summary(
                run, {k: v for k, v in {**summary, "test/acc": value}.items() if k not in ("schema", "files", "digest")}
            )
    return analyze(read_folder(folder))


def test_main_table_against_a_case_by_hand(tmp_path):
    # none .70 .72 .74: mean .72, sd .02, half = 4.3027 * .02 / sqrt 3 = .04968
    # other differs by .20 .21 .22: mean .21, sd .01, half = .02484
    table = variants_table(exact(tmp_path, {"none": [0.70, 0.72, 0.74], "learned-1d": [0.90, 0.93, 0.96]}))
    none, other = ([cell.text for cell in row] for row in table.rows)
    assert none[:5] == ["none", "3", "72.0 ± 5.0", "", "baseline"]
    assert other[:5] == ["learned-1d", "3", "93.0 (85.5 to 100)", "+21.0 ± 2.5", "better"]
    assert table.rows[1][2].mark == "best" and table.rows[0][2].mark == ""


def test_variants_not_shown_to_be_worse_than_the_best_are_bold(tmp_path):
    # learned-2d is 1 point below learned-1d, but the differences scatter by 5 points: t = -0.45, p = 0.68
    best = [0.95, 0.95, 0.95, 0.95, 0.95]
    open_ = [0.90, 1.00, 0.90, 0.99, 0.91]
    results = exact(tmp_path, {"none": [0.7, 0.71, 0.72, 0.69, 0.7], "learned-1d": best, "learned-2d": open_})
    assert [row[2].mark for row in variants_table(results).rows] == ["", "best", "best"]


def test_variants_equivalent_to_the_best_are_marked(tmp_path):
    # learned-1d is .001 below on average, and never more than .003 off: well within the margin of .01
    runs = [0.950, 0.960, 0.955, 0.952, 0.958]
    close = [value - lower for value, lower in zip(runs, [0.001, 0.002, 0.0, 0.003, -0.001])]
    results = exact(tmp_path, {"none": [0.7, 0.71, 0.72, 0.69, 0.7], "learned-1d": close, "learned-2d": runs})
    assert [row[2].mark for row in variants_table(results).rows] == ["", "equal", "best"]
    assert "†" in variants_table(results).notes[0]
    assert "\\dag{}" in render.to_latex(variants_table(results)) and "†" in render.to_markdown(variants_table(results))


def test_the_note_counts_and_names_every_excluded_run(tmp_path):
    statuses = {("none", 3): "diverged", ("none", 4): "incomplete", ("learned-1d", 2): "absent"}
    note = counts_note(results_of(tmp_path, statuses=statuses))
    assert "17 of 20 planned runs finished." in note
    assert re.search(r"1 diverged .*: none, seed 3\.", note) and re.search(
        r"2 incomplete .*: learned-1d, seed 2; none, seed 4\.", note
    )


def test_a_diverged_run_is_excluded_and_counts_as_dropped(tmp_path):
    results = results_of(tmp_path, statuses={("learned-1d", 0): "diverged"})
    rows = {row[0].text: row for row in baseline_table(results).rows}
    assert rows["learned-1d"][1].text == "4 (1)" and rows["sinusoidal"][1].text == "5"
    assert results.mean("learned-1d").n == 4


def test_csv_holds_the_data_in_full(tmp_path):
    results = results_of(tmp_path)
    rows = list(csv.DictReader(io.StringIO(render.to_csv(variants_table(results)))))
    for row in rows:
        values = np.array(list(results.values[row["variant"]].values()))
        assert float(row["test/acc"]) == pytest.approx(values.mean(), rel=1e-14) and int(row["n"]) == 5
    assert [float(row["flops_per_image"]) for row in rows] == [9.1e5, 9.2e5, 9.3e5, 9.4e5]


def test_a_mean_of_one_seed_has_no_interval(tmp_path):
    table = variants_table(results_of(tmp_path, seeds=1))
    assert "±" not in table.rows[1][2].text and {row[4].text for row in table.rows} == {
        "baseline",
        "not enough evidence",
    }
    assert any("a single seed" in note for note in table.notes)


def test_cost_against_the_baseline(tmp_path):
    table = cost_table(results_of(tmp_path))
    assert (
        table.rows[0][7].text == "× 1.00" and table.rows[3][7].text == "× 1.07"
    )  # 4.3 s over 4.0 s: 1.075, which binary rounds down
    assert table.rows[2][1].text == "26,000" and table.rows[2][3].text == "930 k"


def test_a_run_has_its_own_difference_from_the_baseline(tmp_path):
    results = results_of(tmp_path, seeds=3)
    table = runs_table(results)
    at = [column.title for column in table.columns].index("difference from none, points")
    rows = [row for row in table.rows if row[0].text == "learned-1d"]
    assert [row[1].text for row in rows] == ["0", "1", "2"]
    for seed, row in enumerate(rows):
        by_hand = 100 * (results.values["learned-1d"][seed] - results.values["none"][seed])
        assert row[at].text == f"+{by_hand:.2f}" and row[1].href == f"../v2-s{seed}/summary.json"


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


def test_a_study_of_two_factors_has_a_column_for_each(tmp_path):
    results = analyze(read_folder(write_factorial(tmp_path, seeds=3)))
    table = variants_table(results)
    assert [column.title for column in table.columns[:3]] == ["depth", "head", "n"]
    assert [[cell.text for cell in row[:2]] for row in table.rows] == [
        ["1", "logits"],
        ["1", "softmax"],
        ["2", "logits"],
        ["2", "softmax"],
    ]
    rows = list(csv.DictReader(io.StringIO(render.to_csv(table))))
    assert [row["variant"] for row in rows] == results.variants.names
    assert [row["model.head"] for row in rows] == ["logits", "softmax"] * 2


def test_seeds_won_counts_ties_as_half(tmp_path):
    results = exact(tmp_path, {"none": [0.5, 0.6, 0.7, 0.8], "learned-1d": [0.6, 0.6, 0.8, 0.7]})
    table = baseline_table(results)
    at = [column.title for column in table.columns].index("seeds won")
    assert table.rows[0][at].text == "2.5 of 4"  # better, equal, better, worse


def test_intervals_of_a_column_have_the_same_decimals(tmp_path):
    # two significant digits each would give 72.0 ± 5.0 and 93.00 ± 0.35 (a spread of at least half an image of 360)
    table = variants_table(exact(tmp_path, {"none": [0.70, 0.72, 0.74], "learned-1d": [0.9298, 0.93, 0.9302]}))
    assert [row[2].text for row in table.rows] == ["72.00 ± 4.97", "93.00 ± 0.35"]


def test_shared_decimals_show_the_median_with_two_digits_and_the_smallest_with_one():
    assert shared_decimals([3.4, 2.4, 7.7, 0.80]) == 1
    assert shared_decimals([3.4, 2.4, 7.7, 0.08]) == 2
    assert shared_decimals([float("nan"), 0.0]) is None


def test_columns_without_a_value_are_left_out_but_stay_in_the_csv(tmp_path):
    table = cost_table(results_of(tmp_path))
    titles = [column.title for column in table.without_empty_columns().columns]
    assert "peak memory" not in titles and "parameters" in titles  # a CPU has no measured memory
    assert "peak_memory_bytes" in render.to_csv(table).splitlines()[0]
    assert "peak memory" not in render.to_markdown(table) and "peak memory" not in render.to_latex(table)


def test_a_level_that_is_a_number_has_the_name_of_its_factor(tmp_path):
    results = results_of(
        tmp_path,
        accuracy={"0.001": 0.8, "0.01": 0.9},
        factors={"optim.lr": [0.001, 0.01]},
        levels=lambda v: {"optim.lr": float(v)},
    )
    assert [row[0].text for row in variants_table(results).rows] == ["lr = 0.001", "lr = 0.01"]


def test_one_factor_has_no_factor_tables(tmp_path):
    assert factor_tables(results_of(tmp_path)) == []


def test_spread_against_numpy(tmp_path):
    results = results_of(tmp_path, seeds=8)
    for row in csv.DictReader(io.StringIO(render.to_csv(spread_table(results)))):
        values = sorted(results.values[row["variant"]].values())
        assert float(row["sd"]) == pytest.approx(np.std(values, ddof=1), rel=1e-12)
        assert (float(row["lowest"]), float(row["highest"])) == (values[0], values[-1])
