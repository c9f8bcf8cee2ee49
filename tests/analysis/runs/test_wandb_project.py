"""`vit-report wandb:ENTITY/PROJECT`: a project is a table, of which W&B's real API has the records' numbers."""

from types import SimpleNamespace

import mirrored
import pytest

import analysis
from analysis.runs.read import read
from experiments.errors import UserError
from experiments.runs import record


def api_run(name, kind, seed, value, state="finished", **more):
    """A run with the attributes of W&B's API."""
    config = {"kind": kind, "seed": seed, "_wandb": {}, **more}
    summary = {"val/acc": value, "_runtime": 3}
    return SimpleNamespace(name=name, group=None, state=state, config=config, summary=summary)


@pytest.fixture
def project(monkeypatch):
    """Let `wandb.Api` return these runs."""

    def of(*runs):
        monkeypatch.setattr("wandb.Api", lambda timeout: SimpleNamespace(runs=lambda path, order: runs))

    return of


def values(**asked):
    runs = analysis.read("wandb:me/theirs", factor="kind", **asked).findings.study
    return {name: dict(zip(of["seed"], of[runs.metric])) for name, of in runs.runs.groupby("variant", sort=False)}


def test_a_project_read_with_the_real_api_has_the_records_numbers(server, tmp_path):
    mirrored.trained(tmp_path / "study", [mirrored.spec(seed) for seed in (0, 1)])
    mirrored.trained(tmp_path / "deeper", [mirrored.spec(seed, model__depth=2) for seed in (0, 1)])
    study = read("wandb:tester/vit-ablation", metric="test/acc", factor=["model.depth"])
    assert len(study.runs) == 4 and "`vit-report FOLDER` has the study's own verdict." in " ".join(study.notes)
    for folder in ("study", "deeper"):
        for seed in (0, 1):
            original = record.read_run(tmp_path / folder / f"s{seed}")
            depth = original.config["model"]["depth"]
            (row,) = study.runs[(study.runs["seed"] == seed) & (study.runs["model.depth"] == str(depth))].to_dict(
                "records"
            )
            assert row["test/acc"] == pytest.approx(original.summary["test/acc"], rel=1e-12)
    with pytest.raises(UserError, match="wandb:tester/other: the runs could not be read from W&B"):
        read("wandb:tester/other")
    with pytest.raises(UserError, match="wandb:tester: is not wandb:ENTITY/PROJECT"):
        read("wandb:tester")


def test_finished_is_a_run_running_is_left_out_and_every_other_state_has_failed(project):
    runs = [
        api_run(f"{kind}{seed}", kind, seed, value + seed / 9)
        for kind, value in (("a", 0.1), ("b", 0.5))
        for seed in range(3)
    ]
    project(*runs, api_run("a3", "a", 3, 0.2, "running"), api_run("b3", "b", 3, 0.2, "pending"))
    assert {name: [*of] for name, of in values(metric="val/acc").items()} == {"a": [0, 1, 2], "b": [0, 1, 2]}
    (note,) = [line for line in read("wandb:me/theirs", metric="val/acc", factor=["kind"]).notes if "Left out" in line]
    assert "a3" in note and "b3" in note and "b2" not in note
    for state in ("crashed", "failed", "killed", "preempted"):
        project(*runs[:5], api_run("b2", "b", 2, 0.9, state))
        assert [value == value for value in values(metric="val/acc")["b"].values()] == [True, True, False]
        assert values(metric="val/acc", where="State=finished")["b"].keys() == {0, 1}
    project(*runs[:4], api_run("b1", "b", 1, 0.9, "killed"), api_run("b2", "b", 2, 0.9, "crashed"))
    assert [value == value for value in values(metric="val/acc", failed="State=killed")["b"].values()] == [1, 0, 1]


def test_runs_without_seeds_are_unpaired_and_names_in_both_parts_are_told_apart(project):
    runs = [api_run(f"r{place}", "ab"[place % 2], None, place / 9, lr=place) for place in range(6)]
    for run in runs:
        del run.config["seed"]
        run.summary |= {"lr": 0.5, "nested": {"last": 1.0, "max": 2.0}}
    project(*runs)
    with pytest.raises(UserError, match="--seed is required, or --unpaired.* config.lr, .*summary.lr, nested"):
        values(metric="val/acc")
    assert values(metric="val/acc", unpaired=True) == {
        "a": {0: 0, 1: pytest.approx(2 / 9), 2: pytest.approx(4 / 9)},
        "b": {0: pytest.approx(1 / 9), 1: pytest.approx(3 / 9), 2: pytest.approx(5 / 9)},
    }
