"""Optuna's copy of a study, as Optuna's dashboard and a reader of its table see it."""

import optuna
import pytest
from stubbed import Stubbed, finish, tiny_plan

from analysis.runs.read import read
from experiments.runs import record
from sweeps.dashboard import Dashboard
from sweeps.optuna_db import open_storage


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The study after a sweep."""
    stubbed = Stubbed(tmp_path_factory.mktemp("trained"))
    assert stubbed.run()[0] == 0
    return stubbed


def study_of(folder, name="tiny"):
    return optuna.load_study(study_name=name, storage=f"sqlite:///{folder}/optuna.db")


def test_optunas_own_views_of_the_study_make_sense(trained):
    study = study_of(trained.dir)
    assert (study.metric_names, study.direction.name) == (["val/acc"], "MAXIMIZE")
    assert study.best_trial.value == 0.52 and study.best_trial.user_attrs["seed"] == 2
    trials = {trial.user_attrs["run"]: trial for trial in study.get_trials()}
    assert len(trials) == 6
    for run in tiny_plan().runs:
        trial = trials[run.name]
        assert trial.params == {"model.head": run.variant} and trial.value == 0.5 + run.seed / 100  # the stub's val/acc
        assert (trial.user_attrs["variant"], trial.user_attrs["seed"]) == (run.variant, run.seed)
    assert "lucky seed" in study.user_attrs["note"]


def test_a_report_reads_the_trials_from_their_table(trained, tmp_path):
    study_of(trained.dir).trials_dataframe().to_csv(tmp_path / "trials.csv", index=False)
    columns = {"factor": ["user_attrs_variant"], "seed": "user_attrs_seed", "margin": 0.01}
    report = read(f"csv:{tmp_path / 'trials.csv'}", metric="value_val/acc", **columns)
    runs = report.of("finished")
    found = dict(zip(zip(runs["variant"], runs["seed"]), runs[report.metric]))
    assert found == {(head, seed): 0.5 + seed / 100 for head in ("logits", "softmax") for seed in range(3)}


def test_a_trial_is_an_attempt_and_keeps_a_few_of_its_epochs(tmp_path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("sweeps.dashboard.time.monotonic", lambda: clock[0])
    plan = tiny_plan(base={"train.epochs": 300})
    dashboard, run = Dashboard(plan, tmp_path, print), plan.runs[0]
    for epoch in range(1, 301):
        clock[0] += 10.0
        accuracy = float("nan") if epoch == 30 else epoch / 1000
        dashboard.epoch(run, {"epoch": epoch, "val/acc": accuracy, "val/loss": 2.0})
    dashboard.stopped(run, "interrupted")
    dashboard.epoch(run, {"epoch": 300, "val/acc": 0.3})  # within two seconds: it is not written
    finish(tmp_path / run.name, run)
    dashboard.ended(run, record.read_summary(tmp_path / run.name))
    lost, whole = study_of(tmp_path).get_trials()
    assert lost.intermediate_values == {epoch: epoch / 1000 for epoch in range(15, 301, 15) if epoch != 30}
    assert (lost.state.name, lost.user_attrs["reason"]) == ("FAIL", "interrupted")
    assert (whole.state.name, whole.value, whole.intermediate_values) == ("COMPLETE", 0.5, {})


def test_a_copy_that_is_lost_or_lacks_runs_is_made_from_the_records(tmp_path):
    plan, said = tiny_plan(), []
    dashboard = Dashboard(plan, tmp_path, said.append)
    dashboard.epoch(plan.runs[0], {"epoch": 1, "val/acc": 0.5})  # the driver is killed
    dashboard.study.enqueue_trial({"model.head": "logits"})
    for run, status in zip(plan.runs, ("finished", "diverged", "pruned")):
        finish(tmp_path / run.name, run, status)
    for _ in range(2):
        Dashboard(plan, tmp_path, said.append)
        states = [trial.state.name for trial in study_of(tmp_path).get_trials()]
        assert states == ["FAIL", "FAIL", "COMPLETE", "FAIL", "PRUNED"]
    (tmp_path / "optuna.db").unlink()
    Dashboard(plan, tmp_path, said.append)
    assert [trial.state.name for trial in study_of(tmp_path).get_trials()] == ["COMPLETE", "FAIL", "PRUNED"]
    assert said == []


@pytest.mark.parametrize("change", ["levels", "an earlier version"])
def test_a_copy_with_other_levels_or_of_an_earlier_version_is_made_anew_with_one_line(tmp_path, change):
    plan, said = tiny_plan(), []
    finish(tmp_path / plan.runs[0].name, plan.runs[0])
    if change == "levels":
        Dashboard(plan, tmp_path, said.append)
        plan = tiny_plan(factors={"model.head": ["logits", "softmax", "mlp"]})
    else:
        storage, _ = open_storage(tmp_path, print)
        study = optuna.create_study(storage=storage, study_name="tiny")
        study.add_trial(optuna.trial.create_trial(value=0.1))
    dashboard = Dashboard(plan, tmp_path, said.append)
    assert said == [f"{tmp_path}/optuna.db: made anew from the records: it has other levels, or is of another version"]
    dashboard.epoch(plan.runs[2], {"epoch": 1, "val/acc": 0.5})
    assert [trial.state.name for trial in study_of(tmp_path).get_trials()] == ["COMPLETE", "RUNNING"]


def test_a_file_that_is_no_database_is_kept_under_another_name(tmp_path):
    (tmp_path / "optuna.db").write_text("notes of mine" * 1000)
    said = []
    Dashboard(tiny_plan(), tmp_path, said.append)
    assert (tmp_path / "optuna.db.unreadable").read_text() == "notes of mine" * 1000
    assert said == [
        f"{tmp_path}/optuna.db: is no database; it is kept as optuna.db.unreadable, and made anew from the records"
    ]


def test_a_sweep_goes_on_without_its_copy(stubbed):
    stubbed.write_plan()
    (stubbed.dir / "optuna.db").mkdir()
    status, out, err = stubbed.run()
    assert status == 0 and "6 runs: 6 finished" in out
    assert (
        err.count("optuna.db: cannot be used (unable to open database file); Optuna's dashboard lacks this sweep") == 1
    )


def test_a_sweep_goes_on_where_another_program_deletes_optunas_study(stubbed):
    sweep = stubbed.start_run(nap=0.3)
    stubbed.wait_for("end", 1)
    optuna.delete_study(study_name="tiny", storage=f"sqlite:///{stubbed.dir}/optuna.db")
    out, err = sweep.communicate(timeout=60)
    assert sweep.returncode == 0 and "6 runs: 6 finished" in out and "Traceback" not in err
    assert err.count("optuna.db: cannot be used") == 1
