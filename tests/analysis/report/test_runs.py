"""The list of runs."""

import shown
from synthetic import write_study

from analysis.report.sections.metrics import runs_table
from analysis.results.study_results import analyze
from analysis.sources.read import read


def test_a_run_has_its_own_difference_from_the_baseline(tmp_path):
    folder = write_study(tmp_path, seeds=3, statuses={("none", 2): "diverged", ("learned-1d", 1): "incomplete"})
    results = analyze(read(str(folder)))
    table = runs_table(results.study, results.variants, results.means)
    rows = [row for row in shown.rows(table) if row["variant"] == "learned-1d"]
    assert [(row["seed"], row["status"]) for row in rows] == [("0", "finished"), ("1", "incomplete"), ("2", "finished")]
    by_hand = 100 * (results.means.values["learned-1d"][0] - results.means.values["none"][0])
    assert [row["difference from none, points"] for row in rows] == [f"+{by_hand:.2f}", "–", "–"]
    columns, cells = table.shown()
    seed = [column.label for column in columns].index("seed")
    links = [row[seed].link for row in cells if row[0].text == "learned-1d"]
    assert links == ["../v2-s0/summary.json", "", "../v2-s2/summary.json"]
    assert not any(
        row[seed].link for row in runs_table(results.study, results.variants, results.means, linked=False).shown().rows
    )
