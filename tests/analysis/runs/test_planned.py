"""The runs of a user's plan: verdicts as of a study of ours with the same numbers, what is left, what is not used."""

import json
from types import SimpleNamespace

import pandas as pd
import pytest
import yaml
from synthetic import state_plan, write_study

from analysis import compare, read
from analysis.findings import analyze
from analysis.main import body
from analysis.runs import wandb_project
from analysis.runs.folder import read_folder
from analysis.runs.read import read as read_study
from analysis.runs.source_run import SourceRun
from analysis.verdicts.stopping import after_looks
from experiments.errors import UserError

ACCURACY = {"none": 0.72, "sinusoidal": 0.955, "learned-1d": 0.952, "learned-2d": 0.735}
PLAN = {
    "name": "position",
    "factors": {"kind": list(ACCURACY)},
    "baseline": "none",
    "metric": "acc",
    "chance": 0.1,  # of the ten classes of digits
    "margin": 0.01,
    "seeds": 5,
    "looks": [3, 5],
}
LOST = {("sinusoidal", 1): "diverged", ("learned-1d", 4): "absent"}


def ours(tmp_path, **options):
    """A study of ours, and its runs as a table: no row for those that are absent, an empty value for failed ones."""
    folder = write_study(tmp_path, accuracy=ACCURACY, seeds=5, epochs=1, looks=[3, 5], spread=0.01, **options)
    state_plan(folder)
    study = read_folder(folder)
    rows = study.runs[study.runs["status"] != "incomplete"]
    value = rows["test/acc"].where(rows["status"] == "finished")
    return study, pd.DataFrame({"kind": rows["variant"], "seed": rows["seed"], "acc": value}).reset_index(drop=True)


def shown(findings):
    """What a report says of each pair, but for the last digits of numbers."""
    return {
        pair: (one.verdict, one.reason, one.n, one.dropped, *map(pytest.approx, (one.adjusted.low, one.adjusted.high)))
        if one.tested
        else (one.verdict, one.reason, one.n, one.dropped)
        for pair, one in findings.comparisons.pairs.items()
    }


@pytest.mark.parametrize("statuses", [{}, LOST, {("none", 2): "absent"}, {("none", n): "diverged" for n in range(5)}])
@pytest.mark.parametrize("family", ["all", "baseline"])
def test_verdicts_are_those_of_a_study_of_ours_with_the_same_numbers(statuses, family, tmp_path):
    study, table = ours(tmp_path, statuses=statuses, family=family)
    found = compare(table.sample(frac=1, random_state=0), plan={**PLAN, "family": family}).findings
    theirs = analyze(study)
    assert shown(found) == shown(theirs)
    assert found.policy.looks == theirs.policy.looks
    assert found.conduct.finished == theirs.conduct.finished and found.conduct.planned == theirs.conduct.planned
    versus = {name: one.verdict for name, one in theirs.comparisons.versus.items()}
    assert {name: one.verdict for name, one in found.comparisons.versus.items()} == versus


def test_a_pair_waits_for_its_look(tmp_path):
    _, table = ours(tmp_path)
    early = compare(table[table["seed"] < 2], plan=PLAN)
    assert {one.reason for one in early.pairs.values()} == {"waiting for a look"}
    first = compare(table[table["seed"] < 4], plan=PLAN)  # the fourth seed is not tested before the second look
    assert {one.n for one in first.pairs.values()} == {3} and first.findings.policy.looks.next == 5


def test_what_the_plan_lacks_is_listed_with_a_near_name_and_not_used(tmp_path):
    _, table = ours(tmp_path)
    others = pd.DataFrame({"kind": ["sinusodal", "none", "none"], "seed": [0, 7, "0"], "acc": [0.9, 0.9, 0.9]})
    found = compare(pd.concat([table, others[:2]], ignore_index=True), plan=PLAN)
    assert shown(found.findings) == shown(compare(table, plan=PLAN).findings)
    assert any(line.startswith("Not used: row 21, which is not in the plan") for line in found.warnings)
    assert found.findings.study.troubles == {
        "row 21": "is not in the plan: kind is sinusodal; did you mean 'sinusoidal'? allowed: none, sinusoidal, "
        "learned-1d, learned-2d, so it is not used",
        "row 22": "is not in the plan: seed 7 of none; allowed: 0, 1, 2, 3, 4, so it is not used",
    }
    with pytest.raises(UserError, match="no run is in the plan, plan: row 1 is not in the plan: kind is x"):
        compare(pd.DataFrame({"kind": ["x"], "seed": [0], "acc": [0.5]}), plan=PLAN)
    with pytest.raises(UserError, match="rows 1 and 21 both have"):
        compare(pd.concat([table, others[2:]], ignore_index=True), plan=PLAN)


def lines(capsys, *more):
    capsys.readouterr()
    assert body(["runs.csv", "--plan", "plan.yaml", "--needed", *more]) == 0
    return capsys.readouterr().out.splitlines()


def test_runs_that_are_needed_until_all_variants_are_decided(tmp_path, monkeypatch, capsys):
    """A scheduler runs what is printed; which variants stop is that of a sweep of ours, from the rows of each look."""
    study, table = ours(tmp_path / "ours")
    monkeypatch.chdir(tmp_path)
    fields = {**PLAN, "until_decided": True, "command": "train {kind} {seed}"}
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(fields))
    first = lines(capsys)  # no file yet
    assert first == [f"train {kind} {seed}" for seed in range(3) for kind in ACCURACY]
    value = {f"train {row.kind} {row.seed}": row.acc for row in table.itertuples()}
    done = []

    def train(wanted):
        done.extend({"kind": line.split()[1], "seed": line.split()[2], "acc": value[line]} for line in wanted)
        pd.DataFrame(done).to_csv("runs.csv", index=False)

    train(first[1:])
    assert lines(capsys) == first[:1]
    train(first[:1])
    second = lines(capsys)
    look = study.runs[study.runs["seed"] < 3].to_dict("records")
    planned = study.plan.changed(until_decided={})
    _, sweep = after_looks(
        planned, [*look, *study.runs[study.runs["seed"] >= 3].assign(status="incomplete").to_dict("records")]
    )
    stopped = {label for label, look in sweep.stopped.items() if look == 3}
    assert stopped == {"sinusoidal", "learned-1d"}
    assert second == [f"train {kind} {seed}" for seed in (3, 4) for kind in ACCURACY if kind not in stopped]
    train(second)
    assert lines(capsys) == []
    answer = analyze(read_study("runs.csv", plan="plan.yaml"))
    more = [{"kind": "sinusoidal", "seed": 3, "acc": 0.1}]
    pd.DataFrame([*done, *more]).to_csv("runs.csv", index=False)
    again = analyze(read_study("runs.csv", plan="plan.yaml"))
    assert shown(again) == shown(answer)
    assert again.study.troubles == {
        "row 17": "is after the look at 3 seeds, which decides sinusoidal, so it is not used"
    }


def test_a_report_says_which_plan_it_has_and_notes_its_look(tmp_path, monkeypatch, capsys):
    _, table = ours(tmp_path / "ours", statuses=LOST)
    monkeypatch.chdir(tmp_path)
    table.to_csv("runs.csv", index=False)
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(PLAN))
    assert body(["runs.csv", "--plan", "plan.yaml"]) == 0
    page = (tmp_path / "runs-acc-report" / "report.md").read_text()
    assert "- Plan: plan.yaml (SHA-256 " in page and "within the margin, ±0.01, as its plan states" in page
    assert "--needed lists them): learned-1d, seed 4." in page and "holds no plan" not in page
    assert body(["runs.csv", "--plan", "plan.yaml", "--json"]) == 0
    (look,) = (tmp_path / "plan.looks.jsonl").read_text().splitlines()
    assert json.loads(look)["most"] == 5 and json.loads(look)["metric"] == "acc"
    assert json.loads(capsys.readouterr().out.partition("{")[2].join(["{", ""]))["look"]["planned"] == [3, 5]


def test_a_plan_is_for_tables_and_wandb_only(tmp_path):
    folder = write_study(tmp_path)
    with pytest.raises(UserError, match="plan: is for a table of runs"):
        read(folder, plan=PLAN)
    with pytest.raises(UserError, match="plan: 5 is not allowed: expected the path of a file, or a mapping"):
        read(folder, plan=5)


def test_runs_of_wandb_have_their_places(tmp_path, monkeypatch):
    _, table = ours(tmp_path, statuses=LOST)
    runs = [
        SourceRun(
            f"run {at} (id{at})",
            "finished" if row.acc == row.acc else "diverged",
            {"kind": row.kind, "seed": row.seed, "lr": 0.1},
            summary={"acc": row.acc if row.acc == row.acc else None},
        )
        for at, row in enumerate(table.itertuples())
    ]
    training = SourceRun("last (x)", "incomplete", {"kind": "learned-1d", "seed": 4})
    debug = SourceRun("debug (y)", "finished", {"kind": "learned-1d"}, summary={"acc": 0.1})  # without a seed
    monkeypatch.setattr(wandb_project, "find_runs", lambda address: [*runs[::-1], debug, training])
    found = read("wandb:me/project", plan=PLAN)
    assert shown(found.findings) == shown(compare(table, plan=PLAN).findings)


def test_a_project_of_wandb_without_runs_needs_all(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("wandb.Api", lambda timeout: SimpleNamespace(runs=lambda path, order: []))
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(PLAN))
    assert body(["wandb:me/project", "--plan", str(tmp_path / "plan.yaml"), "--needed"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == ["kind=none seed=0", "kind=sinusoidal seed=0"]


def test_runs_without_seeds_are_numbered_as_they_come():
    plan = {key: value for key, value in PLAN.items() if key not in ("seeds", "looks")} | {
        "runs": 3,
        "factors": {"kind": ["a", "b"]},
    }
    table = pd.DataFrame({"kind": [*"ababaab"], "acc": [0.5, 0.6, 0.51, 0.63, 0.52, 0.9, 0.61]})
    found = compare(table, plan={**plan, "baseline": "a"})
    assert found.table["mean"].to_list() == pytest.approx([0.51, (0.6 + 0.63 + 0.61) / 3])
    assert list(found.findings.study.troubles) == ["row 6"]
