"""`vit-report wandb:...`: the numbers of the records through W&B's real API, and what other programs log."""

from types import SimpleNamespace

import mirrored
import pytest

from analysis.findings.conduct import Conduct
from analysis.runs.read import read
from analysis.runs.wandb_project import find_runs, source_run
from experiments.errors import UserError
from experiments.runs import record


def test_a_project_read_with_the_real_api_has_the_records_numbers(server, tmp_path):
    mirrored.trained(tmp_path / "study", [mirrored.spec(seed) for seed in (0, 1)])
    study = read("wandb:tester/vit-ablation")
    assert (len(study.runs), study.troubles, study.variants, study.factors) == (2, {}, ["learned-1d"], {})
    for seed in (0, 1):
        original = record.read_run(tmp_path / "study" / f"s{seed}")
        (row,) = study.runs[study.runs["seed"] == seed].to_dict("records")
        for key in ("status", "epochs", "test/acc", "test/loss", "val/acc", "run_id"):
            assert row[key] == original.summary[key]
        assert row["params"] == original.summary["cost"]["params"]
        assert row["model.depth"] == original.config["model"]["depth"]
        curve = study.curves[study.curves["seed"] == seed].sort_values("epoch")
        for key in ("epoch", "lr", "train/loss", "val/acc"):
            assert curve[key].tolist() == [epoch[key] for epoch in original.rows]
    list(server.runs.values())[-1].history.pop(1)  # an epoch that W&B lost
    assert sorted(read("wandb:tester/vit-ablation").runs["status"]) == ["finished", "incomplete"]
    with pytest.raises(UserError, match="wandb:tester/other: the runs could not be read from W&B"):
        read("wandb:tester/other")


def api_run(name="r", variant=None, seed=0, job="", config=None, **given):
    """A run with the attributes of W&B's API."""
    given = {"summary": {"test/acc": 0.5}, "rows": [], **given}
    return SimpleNamespace(
        name=name,
        id=job,
        group=variant,
        job_type=job,
        state=given.get("state", "finished"),
        commit="c0ffee",
        config={"seed": seed} if config is None else config,
        summary=given["summary"],
        history=lambda **_: given["rows"],
    )


@pytest.fixture
def project(monkeypatch):
    """Two studies, and runs without one, as `wandb.Api` returns them."""
    kinds = ("none", "learned-1d")
    runs = [
        api_run(f"{kind}-{seed}", kind, seed, job, {"seed": seed, "kind": kind})
        for job in ("position", "head", "")
        for kind in kinds
        for seed in (0, 1)
    ]
    monkeypatch.setattr("wandb.Api", lambda timeout: SimpleNamespace(runs=lambda path, order: runs))


def test_the_job_type_is_the_study_and_the_group_the_variant(project):
    study = read("wandb:me/project/position", baseline="none")
    assert (study.name, study.variants, len(study.runs)) == ("position", ["none", "learned-1d"], 4)
    assert set(study.runs["commit"]) == {"c0ffee"}
    assert read("wandb:me/project/-").name == "project"  # the runs without a job type
    with pytest.raises(
        UserError, match="wandb:me/project: holds several studies; add /STUDY, one of: -, head, position"
    ):
        read("wandb:me/project")
    with pytest.raises(UserError, match="no study 'depth'"):
        read("wandb:me/project/depth")
    with pytest.raises(UserError, match="wandb:nothing: is not ENTITY/PROJECT"):
        read("wandb:nothing")


def test_runs_of_other_programs_may_have_no_seeds(monkeypatch):
    configs = {"theirs": ({"kind": "a"}, {"kind": "b"}), "ours": (OURS, OURS)}
    given = {
        name: [api_run(f"{i}", config=configs[name][i < 3], summary={"test/acc": i / 9, **own}) for i in range(5)]
        for name, own in (("theirs", {}), ("ours", {"run_id": "c0ffee"}))
    }
    runs = lambda path, order: given[path.partition("/")[2]]  # noqa: E731
    monkeypatch.setattr("wandb.Api", lambda timeout: SimpleNamespace(runs=runs))
    with pytest.raises(UserError, match="has no setting `seed`"):
        read("wandb:me/theirs")
    study = read("wandb:me/theirs", variance="unpaired")
    assert study.for_verdicts()[1] == {"a": {0: 3 / 9, 1: 4 / 9}, "b": {0: 0, 1: 1 / 9, 2: 2 / 9}}
    with pytest.raises(UserError, match="variance: 'unpaired' is not allowed: these runs are of vit-train, and have "):
        read("wandb:me/ours", variance="unpaired")
    with pytest.raises(UserError, match="margin: is for a table of runs"):
        read("wandb:me/theirs", margin=1)


def test_an_epoch_that_a_resumed_run_logs_twice_counts_once():
    rows = [{"epoch": epoch, "val/acc": value, "lr": "NaN"} for epoch, value in ((1, 0.1), (1, 0.2), (2, 0.3))]
    run = source_run(api_run(rows=[{"_step": 0}, *rows]))
    assert run.rows == [{"epoch": 1.0, "lr": None, "val/acc": 0.2}, {"epoch": 2.0, "lr": None, "val/acc": 0.3}]


def test_values_that_are_not_numbers_and_a_status_of_another_program():
    run = source_run(api_run(summary={"test/acc": "NaN", "val/acc": {"last": 0.5}, "_runtime": 3, "status": "ok"}))
    assert (run.status, run.summary["test/acc"], run.summary["val/acc"]) == ("finished", None, 0.5)
    assert "_runtime" not in run.summary and run.rows == []


def test_a_run_of_ours_has_its_settings_only():
    """Without the names that the mirror adds."""
    config = {"data": {}, "model": {"depth": 2}, "optim": {}, "train": {}, "seed": 1}
    for theirs, settings in (({**config, "run": "ab", "variant": "none"}, config), ({"run": "ab"}, {"run": "ab"})):
        assert source_run(api_run(config={**theirs, "_wandb": {}})).config == settings


def test_studies_of_one_name_in_a_project_are_told_apart_and_trials_are_left_out(monkeypatch):
    ours = {"run": "r", "variant": "none", "data": {}, "model": {"pos_embed": "none"}, "optim": {}, "train": {}}
    runs = [
        api_run(f"{key}-{seed}", "none", seed, job, {**ours, "seed": seed, "study": key})
        for key, job in (("position-aa", "run"), ("position-bb", "run"), ("", "trial"))
        for seed in (0, 1)
    ]
    monkeypatch.setattr("wandb.Api", lambda timeout: SimpleNamespace(runs=lambda path, order: runs))
    with pytest.raises(UserError, match="add /STUDY, one of: position-aa, position-bb$"):
        find_runs("me/project")
    assert {run.name[:11] for run in find_runs("me/project/position-bb")} == {"position-bb"}
    assert {run.study for run in find_runs("me/project/position-bb")} == {"position"}


THEIRS = {"lr": 0.1, "seed": 0}
OURS = {"run": "r", "variant": "none", "data": {}, "model": {}, "optim": {}, "train": {}, "seed": 0}


@pytest.mark.parametrize(
    ("state", "config", "status"),
    [
        *((state, THEIRS, "diverged") for state in ("crashed", "failed", "killed")),
        *((state, THEIRS, "incomplete") for state in ("running", "pending", "preempted")),
        *((state, OURS, "incomplete") for state in ("crashed", "failed", "killed", "running")),
        ("finished", THEIRS, "finished"),
    ],
)
def test_a_run_of_another_program_that_crashed_has_failed_and_one_of_ours_resumes(state, config, status):
    """Also where its own summary says that it finished, and whatever it calls its epochs."""
    summary = {"test/acc": 0.5, "status": "finished" if config is THEIRS else "running", "epochs": 9}
    found = source_run(api_run(state=state, config=config, summary=summary, rows=[{"epoch": 1}] * (config is THEIRS)))
    assert found.status == status


def test_a_run_without_a_result_has_failed_and_its_retry_is_named(monkeypatch):
    """The one that lost its metric, too. What is incomplete is not said to be resumed by a sweep of ours."""
    values = [("a", 0, 0.5), ("a", 1, "NaN"), ("b", 0, None), ("b", 1, 0.7), ("a", 1, 0.9)]
    runs = [
        api_run(f"r{i}", seed=seed, config={"kind": kind, "seed": seed}, summary={"val/acc": value} if value else {})
        for i, (kind, seed, value) in enumerate(values)
    ]
    runs.append(api_run("r5", state="running", config={"kind": "b", "seed": 2}, summary={}))
    monkeypatch.setattr("wandb.Api", lambda timeout: SimpleNamespace(runs=lambda path, order: runs))
    study = read("wandb:me/project")
    found = {row["run"][:2]: row["status"] for row in study.runs.to_dict("records")}
    assert found == {"r0": "finished", "r4": "finished", "r2": "diverged", "r3": "finished", "r5": "incomplete"}
    notes = "\n".join(study.plan.notes)
    assert "Another copy counts of runs that failed: r1 ()." in notes
    counted = Conduct(study).counted
    assert "1 incomplete (not started or not finished): b, seed 2." in counted and "sweep" not in counted
