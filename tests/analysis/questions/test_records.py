"""The list of all runs: differences from the baseline's run with the same seed, and links to the records."""

import pytest
import shown
from synthetic import results_of

from analysis.questions.records import runs_table


@pytest.fixture
def findings(tmp_path):
    return results_of(tmp_path, seeds=3, statuses={("none", 2): "diverged", ("learned-1d", 1): "incomplete"})


def test_a_run_has_its_own_difference_from_the_baseline(findings):
    rows = [row for row in shown.rows(runs_table(findings)) if row["variant"] == "learned-1d"]
    assert [(row["seed"], row["status"]) for row in rows] == [("0", "finished"), ("1", "incomplete"), ("2", "finished")]
    by_hand = 100 * (findings.means.values["learned-1d"][0] - findings.means.values["none"][0])
    assert [row["difference from none, points"] for row in rows] == [f"+{by_hand:.2f}", "–", "–"]
