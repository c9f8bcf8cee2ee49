"""The list of all runs: differences from the baseline's run with the same seed, and links to the records."""

from pathlib import Path

import pytest
import shown
from synthetic import results_of

from analysis.findings import analyze
from analysis.options import ReportOptions
from analysis.questions.records import question, runs_table


@pytest.fixture
def findings(tmp_path):
    return results_of(tmp_path, seeds=3, statuses={("none", 2): "diverged", ("learned-1d", 1): "incomplete"})


def test_a_run_has_its_own_difference_from_the_baseline(findings):
    rows = [row for row in shown.rows(runs_table(findings)) if row["variant"] == "learned-1d"]
    assert [(row["seed"], row["status"]) for row in rows] == [("0", "finished"), ("1", "incomplete"), ("2", "finished")]
    by_hand = 100 * (findings.means.values["learned-1d"][0] - findings.means.values["none"][0])
    assert [row["difference from none, points"] for row in rows] == [f"+{by_hand:.2f}", "–", "–"]


@pytest.mark.parametrize(("place", "linked"), [("report", True), ("elsewhere/report", False)])
def test_a_seed_links_to_its_record_where_the_report_lies_in_the_studys_folder(findings, place, linked):
    study = findings.study
    section = question(analyze(study, ReportOptions(out=str(Path(study.folder, place)))))
    rows = [row for row in section.items[0].shown().rows if row[0].text == "learned-1d"]
    links = [cell.link for row in rows for cell in row if cell.link]
    assert links == (["../v2-s0/summary.json", "../v2-s2/summary.json"] if linked else [])
    assert section.paragraphs[0].startswith("A seed links") == linked
