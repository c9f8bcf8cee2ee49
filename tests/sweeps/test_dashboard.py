"""Optuna's copy of a study, as Optuna's dashboard and a reader of its table see it."""

import optuna
import pytest
from stubbed import Stubbed, finish, tiny_plan

from analysis.runs.read import read
from sweeps.dashboard import write_trials
from sweeps.optuna_db import open_storage
from sweeps.study_folder import StudyFolder


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


def write(plan, folder, *statuses):
    """Finish the first runs of the plan with these statuses, and write the trials. What it says, and their states."""
    said = []
    for run, status in zip(plan.runs, statuses):
        finish(folder / run.name, run, status)
    write_trials(StudyFolder.read(plan, folder), said.append)
    return said, [trial.state.name for trial in study_of(folder).get_trials()]


def test_each_ended_run_is_one_trial_however_often_they_are_written(tmp_path):
    plan = tiny_plan()
    assert write(plan, tmp_path, "finished") == ([], ["COMPLETE"])
    for _ in range(2):
        assert write(plan, tmp_path, "finished", "diverged", "pruned") == ([], ["COMPLETE", "FAIL", "PRUNED"])
    (tmp_path / "optuna.db").unlink()
    assert write(plan, tmp_path) == ([], ["COMPLETE", "FAIL", "PRUNED"])


@pytest.mark.parametrize("change", ["levels", "an earlier version"])
def test_a_copy_with_other_levels_or_of_an_earlier_version_is_made_anew_with_one_line(tmp_path, change):
    plan = tiny_plan()
    if change == "levels":
        write(plan, tmp_path, "finished")
        plan = tiny_plan(factors={"model.head": ["logits", "softmax", "mlp"]})
    else:
        storage, _ = open_storage(tmp_path, print)
        study = optuna.create_study(storage=storage, study_name="tiny")
        study.add_trial(optuna.trial.create_trial(value=0.1))
    said, states = write(plan, tmp_path, "finished")
    assert said == [f"{tmp_path}/optuna.db: made anew from the records: it has other levels, or is of another version"]
    assert states == ["COMPLETE"]


def test_a_file_that_is_no_database_is_kept_under_another_name(tmp_path):
    (tmp_path / "optuna.db").write_text("notes of mine" * 1000)
    said, _ = write(tiny_plan(), tmp_path)
    assert (tmp_path / "optuna.db.unreadable").read_text() == "notes of mine" * 1000
    assert said == [
        f"{tmp_path}/optuna.db: is no database; it is kept as optuna.db.unreadable, and made anew from the records"
    ]


def test_a_sweep_ends_well_without_its_copy(stubbed):
    stubbed.write_plan()
    (stubbed.dir / "optuna.db").mkdir()
    status, out, err = stubbed.run()
    assert status == 0 and "6 runs: 6 finished" in out
    assert (
        err.count("optuna.db: cannot be used (unable to open database file); Optuna's dashboard lacks these runs") == 1
    )
