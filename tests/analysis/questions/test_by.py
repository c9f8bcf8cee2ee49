"""A difference that is asked about, `by`: which variants are better or worse by at least that."""

import hashlib
import json

import pandas as pd
import pytest

from analysis.asked import Asked
from analysis.runs.read import read_frame
from experiments.files import canonical
from experiments.table_plan import GivenPlan
from sweeps.plan import make_plan
from sweeps.study import parse_study

VALUES = {"a": [0.951, 0.953, 0.949], "b": [0.928, 0.930, 0.926], "c": [0.938, 0.940, 0.937], "e": [0.952, 0.95, 0.951]}
FRAME = pd.DataFrame(
    [(name, seed, value) for name, runs in VALUES.items() for seed, value in enumerate(runs)],
    columns=["method", "seed", "acc"],
)
PLAN = {"name": "p", "factors": {"method": ["a", "b", "c", "e"]}, "metric": "acc", "seeds": 3}


def report(tmp_path, vit_report, *more):
    FRAME.to_csv(tmp_path / "runs.csv", index=False)
    status, out, _ = vit_report(tmp_path / "runs.csv", "--metric", "acc", "--factor", "method", *more)
    assert status == 0
    return " ".join(out.split())


@pytest.mark.parametrize(
    ("by", "said"), [("0.5 points", "0.005: b and c"), ("0.015", "0.015: b"), ("0.09", "0.09: no variant")]
)
def test_the_answer_names_the_variants_whose_whole_interval_lies_beyond(by, said, tmp_path, vit_report):
    assert f"; by at least {said}." in report(tmp_path, vit_report, "--by", by)
    tables = tmp_path / "runs-acc-report" / "tables"
    for name in ("differences", "pairs"):
        rows = pd.read_csv(tables / f"{name}.csv")
        size = 0.005 if "points" in by else float(by)
        beyond = (rows["adjusted_low"] >= size) | (rows["adjusted_high"] <= -size)
        assert (rows["by_at_least"] == beyond.map({True: "yes", False: "no"})).all()


def test_verdicts_and_intervals_stay_and_without_it_nothing_is_said(tmp_path, vit_report):
    plain = json.loads(report(tmp_path, vit_report, "--json"))
    asked = json.loads(report(tmp_path, vit_report, "--json", "--by", "0.015"))
    said = [one.pop("by_at_least") for one in asked["comparisons"]]
    assert asked.pop("by") == 0.015 and asked == plain
    assert said == [min(abs(one["low"]), abs(one["high"])) >= 0.015 and one["verdict"] in ("better", "worse")
                    for one in plain["comparisons"]] and 0 < sum(said) < 6  # fmt: skip
    assert "by at least" not in report(tmp_path, vit_report)


def test_a_plan_states_it():
    study = read_plan({**PLAN, "by": "1.5 points"})
    assert study.plan.by == 0.015 and study.plan.tree()["by"] == 0.015
    tree = GivenPlan.of(PLAN).plan.model_dump(exclude={"by"})
    assert GivenPlan.of(PLAN).digest == hashlib.sha256(canonical(tree)).hexdigest()  # as of earlier versions
    assert "by" not in read_plan(PLAN).plan.tree()


def read_plan(plan):
    (study,) = read_frame(FRAME, Asked.of(plan=plan))
    return study


def test_a_study_states_it_and_study_json_has_it_only_then():
    stated = {"name": "s", "factors": {"model.depth": [1, 2]}, "seeds": 2}
    plain, asked = (make_plan(parse_study(tree, "s")) for tree in (stated, {**stated, "by": "0.5 points"}))
    assert "by" not in plain.tree() and "by" not in plain.tree()["study"]
    tree = asked.tree()
    assert (tree.pop("by"), tree["study"].pop("by")) == (0.005, 0.005) and tree == plain.tree()
    assert make_plan(parse_study({**stated, "by": None}, "s")).tree() == plain.tree()
