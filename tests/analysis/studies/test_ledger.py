"""The ledger in this repository is what `vit-report` writes, and its numbers are those of the records."""

import json
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest

from analysis.main import main

REFERENCE = Path(__file__).resolve().parents[3] / "analysis" / "reference"
UNTESTED = "not tested (the study does not compare them)."  # of a study of pairs with the baseline only
SUBJECT = re.compile(r"(?:^|: )([^:]+): ([+−]?[\d.]+) points")  # `a − b`, and its value


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
        "run `vit-report analysis/reference`, then copy report.md from analysis/reference/report to ledger"
    )


def test_differences_on_the_page_are_those_of_the_records(written):
    tests, checked = pd.read_csv(written / "tables" / "claim_tests.csv"), 0
    for row in tests.itertuples():
        if row.evidence.endswith(UNTESTED):
            assert row.verdict == "undecided here"
            continue
        subject, value = SUBJECT.search(row.evidence).groups()
        names = subject.split(" − ")
        runs = pd.read_csv(REFERENCE / row.study / "runs.csv").set_index(["variant", "seed"])[row.metric]
        if not set(names) <= set(runs.index.levels[0]):  # a published figure
            continue
        common = pd.concat([runs[name] for name in names], axis=1, join="inner").dropna().sort_index()
        looks = json.loads((REFERENCE / row.study / "study.json").read_text()).get("looks", [])
        assert row.n in {len(common), *looks}  # a planned look has the first seeds only
        shared = common.head(int(row.n)).mean()
        difference = shared.iloc[0] - shared.iloc[1]
        places = len(value.partition(".")[2])
        assert 100 * difference == pytest.approx(float(value.replace("−", "-")), abs=0.51 * 10**-places), row.evidence
        checked += 1
    assert checked >= 50


@pytest.fixture(scope="module")
def tables(written):
    """The tests behind each outcome, and each claim once, by its id."""
    of_claims = [pd.read_csv(written / "tables" / f"{name}.csv") for name in ("claims", "own")]
    return pd.read_csv(written / "tables" / "claim_tests.csv"), pd.concat(of_claims).set_index("id"), of_claims


def test_a_claim_stands_once_with_each_study_and_its_setting_under_its_outcome(tables):
    tests, claims, (published, own) = tables
    assert claims.index.is_unique and len(published) >= 20 and "any-none" in set(own["id"])
    assert published["quote"].notna().all() and own["source"].isna().all()
    for (claim, outcome), decided in tests.groupby(["id", "verdict"]):
        groups = re.findall(r"(?:^|; )([^;(]+) \(([^)]+)\)", claims.loc[claim, outcome])
        named = {study: setting for studies, setting in groups for study in re.split(", | and ", studies)}
        assert named == dict(zip(decided["study"], decided["setting"]))


def test_an_outcome_can_be_read_from_the_printed_interval(tables):
    tests, read = tables[0], 0
    for row in tests[(tests["verdict"] != "not comparable") & ~tests["evidence"].str.endswith(UNTESTED)].itertuples():
        low, high = (float(end.replace("−", "-")) for end in re.search(r"\[([^,]+), ([^\]]+)\]", row.evidence).groups())
        bound = 100 * row.bound
        above = {"holds here": low > bound, "does not hold here": high < bound}
        within = {"holds here": max(-low, high) <= bound, "does not hold here": low > bound or high < -bound}
        shown = [outcome for outcome, shows in (above if row.relation == "above" else within).items() if shows]
        assert (shown or ["undecided here"]) == [row.verdict], row.evidence
        read += 1
    assert read >= 100


def test_the_page_counts_the_statements_that_a_study_can_test_or_decides(tables, written):
    published = tables[2][0]
    decided = published[["holds here", "does not hold here"]].notna().any(axis=1)
    tested = decided | published["undecided here"].notna()
    said = f"{len(published)} statements of .*: {tested.sum()} can be tested in a study here, and {decided.sum()} hold"
    assert re.search(said, (written / "report.md").read_text()) and 0 < decided.sum() < tested.sum() < len(published)


def test_studies_that_share_runs_count_once(tables):
    """bfloat16/table-8 and mnist-small/positions repeat runs of mnist-small/table-8; pool-x-lr has both rates."""
    tests, claims, _ = tables
    against = tests[(tests["id"] == "paper-kinds") & (tests["verdict"] == "does not hold here")]
    assert len(against) == 7
    assert claims.loc["paper-kinds", "groups"] == 9  # undecided ones as well, such as digits and table-8-64


def test_the_matrix_has_the_outcome_of_each_claim_in_each_study_and_leads_to_its_tests(tables, written):
    tests, _, _ = tables
    matrix, page = (
        pd.read_csv(written / "tables" / "matrix.csv").set_index("claim"),
        (written / "report.html").read_text(),
    )
    said = {"yes": "holds here", "no": "does not hold here", "?": "undecided here"}
    for claim, row in matrix.iterrows():
        for study, outcome in row.dropna().items():
            own = tests[(tests["id"] == claim) & (tests["study"] == study)]["verdict"]
            assert said[outcome] in set(own)
            assert outcome != "?" or not set(own) & {"holds here", "does not hold here"}
    known = tests["verdict"].isin(said.values())
    assert matrix.notna().sum().sum() == len(tests[known].drop_duplicates(["id", "study"]))
    links = set(re.findall(r'href="#(test-[^"]*)"', page))
    assert len(links) > 50 and all(f'id="{link}"' in page for link in links)
