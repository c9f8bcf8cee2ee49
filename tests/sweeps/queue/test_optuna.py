"""The queue as a reader of its Optuna study sees it."""

import optuna
import pytest
from stubbed import Stubbed, finish, tiny_plan

from analysis.sources.read import read
from sweeps.queue.process import current_process
from sweeps.queue.queue import Queue


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The study after a sweep."""
    stubbed = Stubbed(tmp_path_factory.mktemp("trained"))
    assert stubbed.run()[0] == 0
    return stubbed


def test_trials_carry_the_run_its_variant_and_its_validation_accuracy(trained):
    plan = tiny_plan()
    trials = {trial.user_attrs["run"]: trial for trial in trained.trials()}
    assert trials.keys() == {run.name for run in plan.runs}
    for run in plan.runs:
        trial = trials[run.name]
        assert trial.user_attrs["variant"] == run.variant
        assert trial.user_attrs["seed"] == run.seed
        assert trial.user_attrs["run_id"] == run.run_id
        assert trial.value == 0.5 + run.seed / 100  # the stub's val/acc


def test_the_values_stay_those_of_the_metric_that_the_optuna_study_is_made_with(queue):
    """A study may get another metric before a run has ended. Its values would then be of two metrics under one name."""
    again = Queue(tiny_plan(metric="test/loss"), queue.dir, current_process())
    assert (again.study.metric_names, again.study.direction.name) == (["val/acc"], "MAXIMIZE")
    end(again)
    assert [trial.value for trial in queue.study.get_trials()] == [0.5]


def test_optunas_own_views_of_the_study_make_sense(trained):
    study = optuna.load_study(study_name="tiny", storage=f"sqlite:///{trained.dir}/optuna.db")
    assert (study.metric_names, study.direction.name) == (["val/acc"], "MAXIMIZE")
    assert study.best_trial.value == 0.52 and study.best_trial.user_attrs["seed"] == 2
    table = study.trials_dataframe()
    columns = {"value_val/acc", "user_attrs_variant", "user_attrs_seed", "user_attrs_run", "state"}
    assert columns <= set(table.columns), table.columns
    assert set(table.state) == {"COMPLETE"} and len(table) == 6
    assert "lucky seed" in study.user_attrs["note"]


def test_a_report_reads_the_trials_from_their_table(trained, tmp_path):
    study = optuna.load_study(study_name="tiny", storage=f"sqlite:///{trained.dir}/optuna.db")
    study.trials_dataframe().to_csv(tmp_path / "trials.csv", index=False)
    columns = {"factor": ["user_attrs_variant"], "seed": "user_attrs_seed", "margin": 0.01}
    report = read(f"csv:{tmp_path / 'trials.csv'}", metric="value_val/acc", **columns)
    runs = report.of("finished")
    found = dict(zip(zip(runs["variant"], runs["seed"]), runs[report.metric]))
    assert found == {(head, seed): 0.5 + seed / 100 for head in ("logits", "softmax") for seed in range(3)}


def test_intermediate_values_are_those_of_the_validation_metric(queue):
    (assignment,) = queue.assign(current_process())
    queue.report(assignment, {"epoch": 1.0, "val/acc": 0.25, "val/loss": 2.0})
    queue.report(assignment, {"epoch": 2.0, "val/acc": float("nan"), "val/loss": 2.0})
    assert queue.study.get_trials()[0].intermediate_values == {1: 0.25}
    queue.settle(assignment, "interrupted")
    queue.report(assignment, {"epoch": 3.0, "val/acc": 0.75})  # another process has closed it: nothing to say
    assert queue.study.get_trials()[0].intermediate_values == {1: 0.25}


def end(queue: Queue) -> str:
    """Train the next run, as a worker does. Its name."""
    (assignment,) = queue.assign(current_process())
    finish(queue.dir / assignment.run.name, assignment.run)
    queue.settle(assignment)
    return assignment.run.name
