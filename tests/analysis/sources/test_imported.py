"""Studies read from W&B (a stand-in for the API) and from Optuna hold the same numbers as the records."""

import json
from types import SimpleNamespace

import optuna
import pytest
from synthetic import write_study
from wandb.apis.public.summary import SummarySubDict

from analysis.report.provenance import digest
from analysis.results.study_results import analyze
from analysis.sources import optuna_storage, wandb_project
from analysis.sources.folder import read_folder
from analysis.sources.inferred import infer
from analysis.sources.read import read
from analysis.sources.runs_table import factor_levels
from analysis.sources.settings import PLACES, flatten, nested
from analysis.sources.source_run import SourceRun
from experiments.config import SETTINGS
from experiments.errors import UserError
from experiments.metric import METRICS
from experiments.runs import record

ACCURACY = {"none": 0.7, "learned-1d": 0.9}


def recorded(tmp_path, **options):
    return write_study(tmp_path, accuracy=ACCURACY, seeds=2, epochs=2, **options)


def same_numbers(results, folder):
    """The same statistics from both, to the last bit."""
    ours = analyze(read_folder(folder))
    assert results.values == ours.values and repr(results.versus) == repr(
        ours.versus
    )  # as text: NaN is not equal to itself
    return True


class HttpSummary(SummarySubDict):
    """The summary of a run as `wandb.Api` returns it: W&B's own class, which no `for` can iterate over."""

    def __init__(self, values):
        super().__init__()
        self._json_dict = values

    def _root_get(self, path, child_dict):
        values = self._json_dict
        for name in path[:-1]:
            values = values[name]
        if path[-1] in values:
            value = values[path[-1]]
            child_dict[path[-1]] = SummarySubDict(self, path) if isinstance(value, dict) else value


class Api:
    """A stand-in for `wandb.Api`: runs with the attributes that we read. It cannot show that W&B has these attributes."""

    summary = dict
    jobs = ("position", "head")

    def __init__(self, timeout=None):
        pass

    def runs(self, path, order=None):
        assert path == "me/project"
        return [self.run(seed, variant, job) for job in self.jobs for variant in ACCURACY for seed in (0, 1)]

    def run(self, seed, variant, job):
        reached = ACCURACY[variant] + seed / 100
        history = [
            {"_step": at, "epoch": epoch, "val/acc": reached * epoch / 2, "lr": "NaN"}
            for at, epoch in enumerate((1, 1, 2))
        ]
        return SimpleNamespace(
            name=f"{variant}-{seed}",
            id=f"{job}{variant}{seed}",
            group=variant,
            job_type=job,
            state="finished",
            commit="c0ffee",
            config={"seed": seed, "model": {"pos_embed": variant}, "_wandb": {}},
            history=lambda **_: history,
            summary=self.summary(
                {
                    "test/acc": reached,
                    "val/acc": {"last": reached},
                    "status": "finished",
                    "_runtime": 3,
                    "cost": {"params": 7},
                }
            ),
        )


class RealApi(Api):
    summary = HttpSummary


@pytest.mark.parametrize("api", [Api, RealApi])
def test_a_wandb_project(monkeypatch, api):
    monkeypatch.setattr("wandb.Api", api)
    study = read("wandb:me/project/position", baseline="none")
    runs = study.runs.set_index(["variant", "seed"])
    assert (
        len(runs) == 4 and runs.loc[("learned-1d", 1), "test/acc"] == 0.91 and runs.loc[("none", 0), "val/acc"] == 0.7
    )
    assert set(runs["params"]) == {7} and set(runs["commit"]) == {"c0ffee"}
    assert len(study.curves) == 8  # an epoch logged twice, as a resumed run does, is one
    assert study.variants == ["none", "learned-1d"]  # the baseline first


def test_a_wandb_project_of_several_studies_asks_which(monkeypatch):
    monkeypatch.setattr("wandb.Api", Api)
    with pytest.raises(UserError, match="wandb:me/project: holds several studies; add /STUDY, one of: head, position"):
        read("wandb:me/project")
    with pytest.raises(UserError, match="no study 'depth'"):
        read("wandb:me/project/depth")


def test_runs_without_a_job_type_can_be_chosen(monkeypatch):
    monkeypatch.setattr("wandb.Api", Api)
    monkeypatch.setattr(Api, "jobs", ("position", ""))
    with pytest.raises(UserError, match="holds several studies; add /STUDY, one of: -, position$"):
        read("wandb:me/project")
    assert read("wandb:me/project/-").name == "project"


def test_wandb_out_of_reach_is_one_line(monkeypatch):
    def refuse(timeout=None):
        raise OSError("no route to host")

    monkeypatch.setattr("wandb.Api", refuse)
    with pytest.raises(UserError, match="wandb:me/project: the runs could not be read from W&B: no route to host"):
        read("wandb:me/project")


def without_image_counts(folder):
    """Make the records like older ones, which do not hold the number of images; an Optuna storage does not either."""
    for path in folder.glob("*/summary.json"):
        summary = json.loads(path.read_text())
        kept = {key: value for key, value in summary.items() if key not in ("data", "files", "digest", "schema")}
        record.write_summary(path.parent, kept)


def test_an_optuna_study_gives_the_records_numbers(tmp_path):
    folder = recorded(tmp_path)
    without_image_counts(folder)  # else the records know the smallest possible difference of two accuracies
    study = optuna.create_study(
        storage=f"sqlite:///{tmp_path / 'optuna.db'}", study_name="position", direction="maximize"
    )
    for entry in json.loads((folder / "study.json").read_text())["runs"]:
        value = json.loads((folder / entry["run"] / "summary.json").read_text())["test/acc"]
        study.enqueue_trial({"model.pos_embed": entry["variant"], "seed": entry["seed"]})
        trial = study.ask(
            {
                "model.pos_embed": optuna.distributions.CategoricalDistribution(list(ACCURACY)),
                "seed": optuna.distributions.IntDistribution(0, 9),
            }
        )
        study.tell(trial, value)
    study.enqueue_trial({"model.pos_embed": "none", "seed": 5})
    found = read(f"optuna:{tmp_path / 'optuna.db'}", metric="test/acc", baseline="none")
    assert (
        found.runs["status"].tolist().count("incomplete") == 1 and found.runs["status"].tolist().count("finished") == 4
    )
    assert same_numbers(analyze(found), folder)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("optuna:{}/nowhere.db", "nowhere.db: no such file"),
        ("optuna:{}/text.db", "text.db: is not an Optuna storage"),
        ("optuna:{}/optuna.db#other", "no study 'other'; add #STUDY, one of: a, b"),
        ("optuna:{}/optuna.db", "holds several studies; add #STUDY, one of: a, b"),
        ("wandb:nothing", "wandb:nothing: is not ENTITY/PROJECT"),
    ],
)
def test_a_source_that_does_not_exist_is_one_line(tmp_path, place, message):
    (tmp_path / "text.db").write_text("not a database, but longer than a page header would be " * 10)
    for name in ("a", "b"):
        optuna.create_study(storage=f"sqlite:///{tmp_path / 'optuna.db'}", study_name=name)
    with pytest.raises(UserError, match=message):
        read(place.format(tmp_path), metric="test/acc")


def storage(tmp_path, direction="maximize", names=None, values=(0.7, 0.9)):
    """An Optuna storage with a trial for each of two variants."""
    study = optuna.create_study(storage=f"sqlite:///{tmp_path / 'optuna.db'}", study_name="s", direction=direction)
    if names:
        with pytest.warns(optuna.exceptions.ExperimentalWarning):
            study.set_metric_names(names)
    kinds = optuna.distributions.CategoricalDistribution(list(ACCURACY))
    for kind, value in zip(ACCURACY, values, strict=True):
        study.add_trial(optuna.trial.create_trial(value=value, params={"kind": kind}, distributions={"kind": kinds}))
    return f"optuna:{tmp_path / 'optuna.db'}"


@pytest.mark.parametrize(
    ("options", "metric", "said"),
    [
        ({"names": ["val/acc"]}, "test/acc", "val/acc; --metric: 'test/acc' is not allowed: expected val/acc"),
        (
            {"direction": "minimize"},
            "test/acc",
            "--metric: 'test/acc' is not allowed: the study has the direction minimize",
        ),
        ({"names": ["error"]}, "val/loss", "--metric: 'val/loss' is not allowed: the study has the direction maximize"),
        ({"names": ["score"]}, None, "score; give --metric: expected train/loss, .*"),
        ({}, None, "not named; give --metric: expected train/loss, .*"),
        ({"values": (70.0, 90.0)}, "test/acc", "trial 0: test/acc is 70; expected a fraction from 0 to 1"),
    ],
)
def test_optuna_values_are_not_taken_for_another_metric(tmp_path, options, metric, said):
    source = storage(tmp_path, **options)
    with pytest.raises(UserError, match=f"^{source}: (its values are )?{said}$"):
        read(source, metric=metric)


@pytest.mark.parametrize("metric", ["val/acc", None])
def test_optuna_storage_that_names_its_metric_needs_no_flag(tmp_path, metric):
    study = read(storage(tmp_path, names=["val/acc"]), metric=metric)
    assert study.metric == "val/acc"
    assert study.runs["val/acc"].tolist() == [0.9, 0.7] and study.runs["test/acc"].isna().all()


def test_metric_of_another_program_is_named_by_the_user(tmp_path):
    assert read(storage(tmp_path, names=["accuracy"]), metric="test/acc").metric == "test/acc"


def test_metric_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(UserError, match="^--metric: 'accuracy' is not allowed: expected train/loss, .*$"):
        read(storage(tmp_path), metric="accuracy")


def test_what_the_plan_does_not_state_is_exploratory(tmp_path):
    folder = recorded(tmp_path)
    planned = read(str(folder))
    same = read(str(folder), metric=planned.metric, baseline=planned.baseline)
    assert same.plan == planned.plan
    (other,) = {*planned.variants} - {planned.baseline}
    explored = read(str(folder), metric="val/loss", baseline=other)
    assert (explored.metric, explored.baseline) == ("val/loss", other)
    said = " ".join(explored.plan.notes)
    assert f"exploratory: its metric is val/loss, and the plan states {planned.metric}" in said
    assert f"exploratory: its baseline is {other}, and the plan states {planned.baseline}" in said
    assert "Do not read the equivalence tests" in said
    with pytest.raises(UserError, match="--baseline: 'nobody' is not a variant"):
        read(str(folder), baseline="nobody")


def run(name, seed, depth=1, variant="", status="finished", **model):
    return SourceRun(
        name,
        status,
        {"seed": seed, "model": {"depth": depth, **model}, "data": {"root": name}},
        variant,
        {"test/acc": 0.5},
    )


def test_factors_are_what_differs_and_what_moves_together_is_one():
    found = [run(f"r{depth}{seed}", seed, depth, width=8 * depth, act="gelu") for depth in (1, 2) for seed in (0, 1)]
    study = infer("x", "wandb:x", found, "test/acc", None)
    assert study.factors == {"model.depth+model.width": ["1, 8", "2, 16"]} and study.variants == ["1, 8", "2, 16"]
    assert study.base == {"model.act": "gelu"} and set(PLACES) & set(study.base) == set()


def test_a_setting_that_is_named_like_a_column_of_ours_keeps_its_values():
    """The records say 4 epochs of each run, the settings of another program 3 and 5."""
    found = [
        SourceRun(f"r{n}", "finished", {"epochs": n, "lr": 0.1, "seed": 0}, "", {"test/acc": 0.5, "epochs": 4}, [])
        for n in (3, 5)
    ]
    study = infer("x", "wandb:x", found, "test/acc", None)
    assert study.factors == {"config.epochs": ["3", "5"]} and study.variants == ["3", "5"]
    assert factor_levels(study.runs, "config.epochs").tolist() == ["3", "5"] and set(study.runs["epochs"]) == {4}


def test_two_copies_of_one_run_count_once():
    found = [run("broken", 0, status="incomplete"), run("whole", 0), run("other", 1, depth=2)]
    study = infer("x", "wandb:x", found, "test/acc", None)
    assert sorted(study.runs["run"]) == ["other", "whole"] and list(study.troubles) == ["broken"]


def test_a_group_of_runs_with_different_settings_is_several_variants():
    """Groups of another program: exp-a holds two learning rates, exp-b holds one."""
    given = [("exp-a", 0.1, 0, 0.9), ("exp-a", 0.01, 0, 0.5), ("exp-a", 0.01, 1, 0.5), ("exp-b", 0.1, 0, 0.7)]
    found = [
        SourceRun(f"r{i}", "finished", {"lr": lr, "seed": seed}, group, {"test/acc": value})
        for i, (group, lr, seed, value) in enumerate(given)
    ]
    copy = SourceRun("r4", "incomplete", {"lr": 0.01, "seed": 1}, "exp-a")
    study = infer("x", "wandb:x", [*found, copy], "test/acc", None)
    values = {variant: runs["test/acc"].tolist() for variant, runs in study.runs.groupby("variant")}
    assert values == {"exp-a: 0.1": [0.9], "exp-a: 0.01": [0.5, 0.5], "exp-b: 0.1": [0.7]}
    assert study.troubles == {"r4": "is another copy of r2 (exp-a: 0.01, seed 1), so it is not used"}


def test_every_source_gives_the_same_columns(tmp_path):
    imported = infer("x", "wandb:x", [run("a", 0), run("b", 0, depth=2)], "test/acc", None)
    folder = read_folder(recorded(tmp_path))
    settings = SETTINGS.keys() - {"seed"}
    core = [column for column in folder.runs.columns if column not in settings]
    assert core == [column for column in imported.runs.columns if column not in settings] and set(METRICS) < set(core)


def test_a_metric_that_only_later_epochs_have_is_kept():
    rows = [{"epoch": 1.0, "train/loss": 2.0}, {"epoch": 2.0, "train/loss": 1.0, "val/acc": 0.5}]
    found = [
        SourceRun(name, "finished", {"seed": seed}, "v", {"test/acc": 0.5}, rows) for seed, name in enumerate("ab")
    ]
    curves = infer("x", "wandb:x", found, "test/acc", None).curves
    assert curves["val/acc"].dropna().tolist() == [0.5, 0.5]


def test_runs_without_a_seed_that_are_otherwise_alike_are_refused():
    alike = [SourceRun(name, "finished", {"model": {"depth": 2}}, "", {"test/acc": 0.5}) for name in ("a", "b", "c")]
    with pytest.raises(UserError, match="wandb:x: b: has no setting `seed`, and a has the same settings"):
        infer("x", "wandb:x", alike, "test/acc", None)
    apart = [SourceRun(str(depth), "finished", {"depth": depth}, "", {"test/acc": 0.5}) for depth in (1, 2)]
    assert infer("x", "wandb:x", apart, "test/acc", None).variants == ["1", "2"]


def test_a_setting_whose_name_continues_another_name_is_kept():
    flat = {"optimizer": "adam", "optimizer.lr": 0.1, "model.depth": 2, "model.width.max": 3, "seed": 0}
    for settings in (flat, dict(reversed(flat.items()))):
        assert dict(flatten(nested(settings))) == settings
    assert nested({"model.depth": 2, "model.width": 3}) == {"model": {"depth": 2, "width": 3}}


def test_the_digest_of_an_imported_study_changes_with_the_status_of_its_runs():
    before, after = (
        infer("x", "wandb:x", [run("a", 0), run("b", 1, status=status)], "test/acc", None)
        for status in ("incomplete", "finished")
    )
    assert digest(before) != digest(after) and digest(before) == digest(before)


def api_run(config=None, summary=None, rows=()):
    """A run of W&B's API."""
    return SimpleNamespace(
        name="r",
        id="1",
        group=None,
        state="finished",
        config=config or {"seed": 0},
        summary=summary or {},
        history=lambda **_: rows,
    )


def test_a_history_without_epochs_and_values_that_are_not_numbers():
    found = wandb_project.source_run(api_run({}, {"test/acc": "NaN", "val/acc": {"last": 0.5}}, [{"_step": 1}]))
    assert found.summary["test/acc"] is None and found.summary["val/acc"] == 0.5 and found.rows == []


def test_names_of_ours_may_have_another_meaning_in_the_runs_of_another_program(tmp_path):
    trial = optuna.trial.create_trial(value=0.5, user_attrs={"status": "ok"})
    assert optuna_storage.source_run(trial, "test/acc").status == "finished"
    theirs = SourceRun("a", "finished", {"seed": 0}, "", {"cost": 0.5, "data": "cifar", "test/acc": 0.9}, [])
    study = infer("theirs", "wandb:x/y", [theirs, run("b", 1)], "test/acc", None)
    assert study.runs["test/acc"].max() == 0.9
    assert study.runs["params"].isna().any()


def test_a_wandb_run_of_ours_has_its_settings_only():
    """Without the names that the mirror adds."""
    config = {"data": {}, "model": {"depth": 2}, "optim": {}, "train": {}, "seed": 1}
    for theirs, settings in (({**config, "run": "ab", "variant": "none"}, config), ({"run": "ab"}, {"run": "ab"})):
        assert wandb_project.source_run(api_run({**theirs, "_wandb": {}})).config == settings
