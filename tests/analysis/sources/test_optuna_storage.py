"""Studies read from an Optuna storage hold the numbers of its trials, under the metric that they are."""

import optuna
import pytest

from analysis.sources.optuna_storage import source_run
from analysis.sources.read import read
from experiments.errors import UserError

KINDS = optuna.distributions.CategoricalDistribution(["none", "learned-1d"])
SEEDS = optuna.distributions.IntDistribution(0, 9)


def storage(tmp_path, direction="maximize", names=None, values=(0.7, 0.9)):
    """An Optuna storage with a trial for each of two variants."""
    study = optuna.create_study(storage=f"sqlite:///{tmp_path / 'optuna.db'}", study_name="s", direction=direction)
    if names:
        with pytest.warns(optuna.exceptions.ExperimentalWarning):
            study.set_metric_names(names)
    for kind, value in zip(KINDS.choices, values, strict=True):
        study.add_trial(optuna.trial.create_trial(value=value, params={"kind": kind}, distributions={"kind": KINDS}))
    return f"optuna:{tmp_path / 'optuna.db'}"


def test_trials_are_runs_with_their_settings_seeds_and_values(tmp_path):
    study = optuna.create_study(storage=f"sqlite:///{tmp_path / 'optuna.db'}", direction="maximize")
    given = {("none", 0): 0.7, ("none", 1): 0.71, ("learned-1d", 0): 0.9, ("learned-1d", 1): 0.91}
    for (kind, seed), value in given.items():
        study.enqueue_trial({"model.pos_embed": kind, "seed": seed})
        trial = study.ask({"model.pos_embed": KINDS, "seed": SEEDS})
        trial.report(value / 2, step=1)
        study.tell(trial, value)
    study.enqueue_trial({"model.pos_embed": "none", "seed": 5})
    found = read(f"optuna:{tmp_path / 'optuna.db'}", metric="test/acc", baseline="none")
    finished = found.of("finished")
    assert dict(zip(zip(finished["model.pos_embed"], finished["seed"]), finished["test/acc"])) == given
    assert found.of("incomplete")["seed"].tolist() == [5] and found.variants == ["none", "learned-1d"]
    assert sorted(found.curves["test/acc"]) == sorted(value / 2 for value in given.values())


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("optuna:{}/nowhere.db", "nowhere.db: no such file"),
        ("optuna:{}/text.db", "text.db: is not an Optuna storage"),
        ("optuna:{}/optuna.db#other", "no study 'other'; add #STUDY, one of: a, b"),
        ("optuna:{}/optuna.db", "holds several studies; add #STUDY, one of: a, b"),
    ],
)
def test_a_storage_that_does_not_exist_is_one_line(tmp_path, place, reason):
    (tmp_path / "text.db").write_text("not a database, but longer than a page header would be " * 10)
    for name in ("a", "b"):
        optuna.create_study(storage=f"sqlite:///{tmp_path / 'optuna.db'}", study_name=name)
    with pytest.raises(UserError, match=reason):
        read(place.format(tmp_path), metric="test/acc")


@pytest.mark.parametrize(
    ("options", "metric", "reason"),
    [
        (
            {"names": ["val/acc"]},
            "test/acc",
            "its values are val/acc; --metric: 'test/acc' is not allowed: expected val/acc",
        ),
        (
            {"direction": "minimize"},
            "test/acc",
            "--metric: 'test/acc' is not allowed: the study has the direction minimize",
        ),
        ({"names": ["error"]}, "val/loss", "--metric: 'val/loss' is not allowed: the study has the direction maximize"),
        ({"names": ["score"]}, None, "its values are score; give --metric: expected train/loss, .*"),
        ({}, None, "its values are not named; give --metric: expected train/loss, .*"),
        ({"values": (70.0, 90.0)}, "test/acc", "trial 0: test/acc: 70 is not allowed: expected a fraction from 0 to 1"),
    ],
)
def test_values_are_not_taken_for_another_metric(tmp_path, options, metric, reason):
    source = storage(tmp_path, **options)
    with pytest.raises(UserError, match=f"^{source}: {reason}$"):
        read(source, metric=metric)


@pytest.mark.parametrize(("name", "metric"), [("val/acc", "val/acc"), ("val/acc", None), ("accuracy", "val/acc")])
def test_the_metric_is_that_of_the_storage_or_of_the_user(tmp_path, name, metric):
    study = read(storage(tmp_path, names=[name]), metric=metric)
    assert study.metric == "val/acc"
    assert study.runs["val/acc"].tolist() == [0.9, 0.7] and study.runs["test/acc"].isna().all()


def test_of_several_values_the_metric_is_read(tmp_path):
    directions = ["minimize", "maximize"]
    study = optuna.create_study(storage=f"sqlite:///{tmp_path / 'optuna.db'}", directions=directions)
    with pytest.warns(optuna.exceptions.ExperimentalWarning):
        study.set_metric_names(["val/loss", "val/acc"])
    study.add_trial(optuna.trial.create_trial(values=[0.3, 0.7]))
    source = f"optuna:{tmp_path / 'optuna.db'}"
    assert read(source, metric="val/acc").runs["val/acc"].tolist() == [0.7]
    with pytest.raises(UserError, match="its values are val/loss, val/acc; give --metric: expected val/loss, val/acc$"):
        read(source)


def test_a_status_of_another_program_is_no_status_of_ours():
    assert (
        source_run(optuna.trial.create_trial(value=0.5, user_attrs={"status": "ok"}), "test/acc").status == "finished"
    )
