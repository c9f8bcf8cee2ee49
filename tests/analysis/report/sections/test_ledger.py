"""The ledger in this repository is what `vit-report` writes, and its numbers are those of the records."""

import re
import shutil
from pathlib import Path

import pandas as pd
import pytest

from analysis.main import main

REFERENCE = Path(__file__).resolve().parents[4] / "analysis" / "reference"
SUBJECT = re.compile(r"(?:^|: )([^:]+): ([+−]?[\d.]+) points")  # `a − b` or `(a − b) − (c − d)`, and its value


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The index of a copy of the reference studies, which has no reports of the user's own."""
    copy = tmp_path_factory.mktemp("ledger") / "reference"
    shutil.copytree(REFERENCE, copy, ignore=shutil.ignore_patterns("report", "report-*"))
    with pytest.raises(SystemExit, match="0"):
        main([str(copy)])
    return copy / "report"


def test_the_ledger_is_up_to_date(written):
    assert (REFERENCE / "ledger" / "report.md").read_text() == (written / "report.md").read_text(), (
        "run `vit-report analysis/reference`, then copy report.md and figures from analysis/reference/report to ledger"
    )


def test_differences_on_the_page_are_those_of_the_records(written):
    tests, checked = pd.read_csv(written / "tables" / "claim_tests.csv"), 0
    for row in tests.itertuples():
        subject, value = SUBJECT.search(row.evidence).groups()
        names = re.split(r"\)? − \(?", subject.strip("()"))
        runs = pd.read_csv(REFERENCE / row.study / "runs.csv").set_index(["variant", "seed"])[row.metric]
        if not set(names) <= set(runs.index.levels[0]):  # a published figure, a spread or a trend
            continue
        shared = pd.concat([runs[name] for name in names], axis=1, join="inner").mean()
        difference = shared.iloc[0] - shared.iloc[1] - (shared.iloc[2] - shared.iloc[3] if len(names) == 4 else 0)
        places = len(value.partition(".")[2])
        assert 100 * difference == pytest.approx(float(value.replace("−", "-")), abs=0.51 * 10**-places), row.evidence
        checked += 1
    assert checked >= 50


def test_a_claim_stands_once_with_each_study_under_its_outcome(written):
    claims = pd.read_csv(written / "tables" / "claims.csv").set_index("id")
    tests = pd.read_csv(written / "tables" / "claim_tests.csv")
    assert claims.index.is_unique and len(claims) >= 20 and claims["source"].notna().all()
    for (claim, outcome), own in tests.groupby(["id", "verdict"]):
        named = set(re.split(", | and ", claims.loc[claim, outcome]))
        assert named == set(own["study"])
