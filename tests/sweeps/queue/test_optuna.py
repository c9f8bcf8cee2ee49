"""The queue as a reader of its Optuna study sees it."""

import inspect
from dataclasses import replace

import optuna
import pytest
from stubbed import Stubbed, tiny_plan

from analysis.sources.optuna_storage import find_runs
from experiments.errors import UserError
from sweeps.queue.process import current_process
from sweeps.queue.queue import Queue
from sweeps.queue.snapshot import check_levels
from sweeps.study_folder import write_plan
from sweeps.workers.pool import run_sweep


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Stubbed:
    """The study after a sweep."""
    stubbed = Stubbed(tmp_path_factory.mktemp("trained"))
    assert stubbed.run()[0] == 0
    return stubbed


def test_trials_carry_the_run_its_levels_and_its_validation_accuracy(trained):
    plan = tiny_plan()
    trials = {trial.user_attrs["run"]: trial for trial in trained.trials()}
    assert trials.keys() == {run.name for run in plan.runs}
    for run in plan.runs:
        trial = trials[run.name]
        assert trial.params == {"model.head": run.variant}
        assert trial.user_attrs["seed"] == run.seed
        assert trial.user_attrs["run_id"] == run.run_id
        assert trial.value == 0.5 + run.seed / 100  # the stub's val/acc


def test_changing_the_metric_before_a_run_has_ended_changes_the_direction(queue):
    queue.reconcile()
    assert queue.study.metric_names == ["val/acc"]
    turned = Queue(tiny_plan(metric="test/loss"), queue.dir, current_process())
    assert turned.study.direction == optuna.study.StudyDirection.MINIMIZE
    assert turned.study.metric_names == ["val/loss"]
    assert len(turned.reconcile().waiting) == 6
    (assignment,) = turned.assign(current_process())
    again = Queue(tiny_plan(), queue.dir, current_process())  # unless a process is training
    assert list(again.reconcile().running) == [assignment.run.name]


def test_optunas_own_views_of_the_study_make_sense(trained):
    study = optuna.load_study(study_name="tiny", storage=f"sqlite:///{trained.dir}/optuna.db")
    assert (study.metric_names, study.direction.name) == (["val/acc"], "MAXIMIZE")
    assert study.best_trial.value == 0.52 and study.best_trial.user_attrs["seed"] == 2
    table = study.trials_dataframe()
    columns = {"value_val/acc", "params_model.head", "user_attrs_seed", "user_attrs_run", "state"}
    assert columns <= set(table.columns), table.columns
    assert set(table.state) == {"COMPLETE"} and len(table) == 6
    assert optuna.importance.get_param_importances(study).keys() == {"model.head"}
    assert "lucky seed" in study.user_attrs["note"]


def test_a_report_reads_the_seeds_and_values_of_the_queue(trained):
    _, metric, runs = find_runs(str(trained.dir / "optuna.db"), None)
    assert metric == "val/acc"
    found = {(run.variant, run.config["seed"]): (run.status, run.summary["val/acc"]) for run in runs}
    assert found == {
        (head, seed): ("finished", 0.5 + seed / 100) for head in ("logits", "softmax") for seed in range(3)
    }


def test_intermediate_values_are_those_of_the_validation_metric(queue):
    (assignment,) = queue.assign(current_process())
    queue.report(assignment, {"epoch": 1.0, "val/acc": 0.25, "val/loss": 2.0})
    queue.report(assignment, {"epoch": 2.0, "val/acc": float("nan"), "val/loss": 2.0})
    assert queue.study.get_trials()[0].intermediate_values == {1: 0.25}
    queue.settle(assignment, "interrupted")
    queue.report(assignment, {"epoch": 3.0, "val/acc": 0.75})  # another process has closed it: nothing to say
    assert queue.study.get_trials()[0].intermediate_values == {1: 0.25}


def earlier(plan, folder, state, run, **attrs):
    """Add a trial as versions did that stored the seed as a parameter, and made the trials of all runs in advance."""
    distributions = {
        "model.head": optuna.distributions.CategoricalDistribution(["logits", "softmax"]),
        "seed": optuna.distributions.IntDistribution(0, 2**31 - 1),
    }
    study = optuna.create_study(
        storage=f"sqlite:///{folder}/optuna.db", study_name="tiny", direction="maximize", load_if_exists=True
    )
    own = {"run": run.name, "run_id": run.run_id, "variant": run.variant, "seed": run.seed}
    value = 0.75 if state == "COMPLETE" else None
    params = {**run.levels, "seed": run.seed}
    study.add_trial(
        optuna.trial.create_trial(
            state=optuna.trial.TrialState[state],
            value=value,
            params=params,
            distributions=distributions,
            user_attrs={**own, **attrs},
        )
    )


def owner(process):
    """A process as earlier versions stored it."""
    stored = {"host": process.host, "pid": process.pid, "start": process.start, "beat": process.heartbeat}
    return {**stored, "sweep": {"pid": process.pid, "start": process.start}}


def test_a_database_of_an_earlier_version_is_converted(tmp_path):
    plan, dead = tiny_plan(), owner(replace(current_process(), start="1"))
    write_plan(plan, tmp_path, "here")
    first, second, third, fourth, *_ = plan.runs
    earlier(plan, tmp_path, "COMPLETE", first, owner=dead, status="finished")
    for _ in range(2):
        earlier(plan, tmp_path, "FAIL", second, owner=dead, reason="failed", error="no memory")
    earlier(plan, tmp_path, "RUNNING", third, owner=dead)
    earlier(plan, tmp_path, "WAITING", fourth)
    queue = Queue(plan, tmp_path, current_process())
    trials = queue.study.get_trials()
    assert [trial.state.name for trial in trials] == ["COMPLETE", "FAIL", "FAIL"]
    assert [trial.params for trial in trials] == [dict(run.levels) for run in (first, second, second)]
    assert (trials[0].value, trials[0].user_attrs["seed"], trials[1].user_attrs["error"]) == (0.75, 0, "no memory")
    assert len(queue.reconcile().waiting) == 6  # the first has no record


def test_a_database_in_use_by_an_earlier_version_is_refused(tmp_path):
    plan = tiny_plan()
    write_plan(plan, tmp_path, "here")
    earlier(plan, tmp_path, "RUNNING", plan.runs[0], owner=owner(current_process()))
    with pytest.raises(UserError, match="another sweep is training this study with other levels, or with an earlier"):
        Queue(plan, tmp_path, current_process())


def test_other_levels_are_refused_before_they_are_written_while_a_run_is_in_training(queue):
    wider = tiny_plan(factors={"model.head": ["logits", "softmax", "mlp"]})
    check_levels(wider, queue.dir)  # nothing is in training
    queue.assign(current_process())
    check_levels(tiny_plan(seeds=5), queue.dir)
    with pytest.raises(UserError, match="another sweep is training this study with other levels"):
        check_levels(wider, queue.dir)
    before = (queue.dir / "study.json").read_bytes()
    with pytest.raises(UserError, match="another sweep is training this study with other levels"):
        run_sweep(wider, queue.dir, "here", [])
    assert (queue.dir / "study.json").read_bytes() == before


def test_trials_keep_their_attempts_when_the_study_gains_a_level(queue):
    runs = list(queue.runs)
    for name in [runs[0]] * 3 + [runs[1]]:
        (assignment,) = queue.assign(current_process())
        assert assignment.run.name == name
        queue.settle(assignment, "failed", "no memory")
    queue.retry([runs[0]])
    for reason in ("failed", "interrupted"):
        (assignment,) = queue.assign(current_process())
        queue.settle(assignment, reason)
    wider = Queue(tiny_plan(factors={"model.head": ["logits", "softmax", "mlp"]}), queue.dir, current_process())
    wider.reconcile()
    assert [len(wider.index.failures(name)) for name in runs[:2]] == [1, 1]


def test_what_the_queue_uses_of_optuna_beside_its_documented_classes():
    """A storage's methods are public by name, and Optuna does not promise to keep them."""
    used = {
        "get_study_id_from_name": ["study_name"],
        "get_trial_id_from_study_id_trial_number": ["study_id", "trial_number"],
        "get_trial": ["trial_id"],
        "set_trial_user_attr": ["trial_id", "key", "value"],
        "set_trial_intermediate_value": ["trial_id", "step", "intermediate_value"],
    }
    for name, parameters in used.items():
        method = getattr(optuna.storages.BaseStorage, name, None)
        assert method, f"Optuna has removed BaseStorage.{name}, which sweeps/queue/queue.py uses"
        assert list(inspect.signature(method).parameters)[1:] == parameters, f"Optuna has changed BaseStorage.{name}"
    assert hasattr(optuna.storages, "get_storage"), "Optuna has removed get_storage, which sweeps/queue/queue.py uses"
    study = optuna.create_study()
    for number in range(3):
        study.add_trial(optuna.trial.create_trial(state=optuna.trial.TrialState.RUNNING))
        last = study.get_trials(deepcopy=False)[-1]
        assert last.number == number, "Optuna no longer numbers trials in the order in which they are added"
        assert last.state.name == "RUNNING", "Optuna no longer adds a trial that is running"
    storage, name = optuna.storages.get_storage(None), "s"
    optuna.create_study(storage=storage, study_name=name).add_trial(optuna.trial.create_trial(value=1.0))
    trial_id = storage.get_trial_id_from_study_id_trial_number(storage.get_study_id_from_name(name), 0)
    with pytest.raises(optuna.exceptions.UpdateFinishedTrialError):  # how the queue learns that it lost a run
        storage.set_trial_user_attr(trial_id, "a", 1)
