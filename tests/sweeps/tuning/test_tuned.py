"""tuned.yaml: the best trials in it, what it changes in a study, and one line for each kind of bad
file.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import study_file

from experiments.config import load
from experiments.errors import UserError
from experiments.presets import preset
from experiments.study import Study
from experiments.tuned import Tuned, TunedTrial, best_trial
from sweeps.plan import make_plan, parse_study
from sweeps.tuning.tuned import check_result, make_tuned, write_tuned
from sweeps.tuning.tuning_plan import TuningPlan, make_space

STUDY = {
    "name": "mine",
    "factors": {"model.pool": ["cls", "gap"]},
    "seeds": 2,
    "base": {"data.train_limit": 80, "model.depth": 1, "model.embed_dim": 8, "model.num_heads": 2, "train.epochs": 1},
}


def tuned_tree(**rates) -> dict:
    """The content of a tuned.yaml that gives the variants these learning rates."""
    levels = {name: {"model.pool": name} for name in rates}
    return study_file.tuned(levels, {name: {"optim.lr": rate} for name, rate in rates.items()})


TREE = tuned_tree(cls=0.002, gap=0.03)
FURTHER = {"optim.lr": 0.03, "model.depth": 2}


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(json.dumps(STUDY))
    return path


def tuned_file(folder: Path, tree: dict | None = None, name: str = "tuned.yaml") -> Path:
    path = folder / name
    path.write_text(json.dumps(TREE if tree is None else tree))  # JSON is YAML
    return path


@pytest.fixture
def run(vit_sweep, study):
    options = ("--out", study.parent, "--workers", 1, "--tracking", "off", "--device", "cpu")
    return lambda *words: vit_sweep("run", study, *options, *words)


def test_a_result_of_another_tuning_or_changed_by_hand_is_kept(tmp_path):
    """Also one that has tried the same settings, for fewer epochs or with another search."""
    known, path = Tuned.model_validate(TREE), tmp_path / "tuned.yaml"
    trials = {trial.variant: [trial] for trial in known.trials}
    plan = TuningPlan(make_plan(parse_study(STUDY, "mine")), known.space, 1, "tpe", "none")
    check_result(plan, trials, path)
    write_tuned(path, make_tuned(plan, trials))
    check_result(plan, trials, path)
    changes = ({"settings": {"optim.lr": 0.5}}, {"val_acc": 0.123}, {"trial": 7})
    others = [{**trials, "gap": [trials["gap"][0].model_copy(update=change)]} for change in changes]
    plans = [replace(plan, **change) for change in ({"sampler": "random"}, {"pruner": "halving"}, {"seeds": 2})]
    for other in (*((plan, one) for one in ({}, *others)), *((one, trials) for one in plans)):
        with pytest.raises(UserError, match="is of another tuning, or was changed by hand; move it, or give"):
            check_result(*other, path)


def test_a_study_file_says_what_is_tuned_and_the_command_line_may_say_otherwise(vit_sweep, study, monkeypatch):
    (study.parent / "rates").mkdir()
    tuned_file(study.parent / "rates", name="best.yaml")
    study.write_text(json.dumps({**STUDY, "tuned": "rates/best.yaml"}))
    other = tuned_file(study.parent, tuned_tree(cls=0.004, gap=0.005))
    usual = preset("digits").optim.lr
    cases = {(): (0.002, 0.03), ("--tuned", other): (0.004, 0.005), ("--tuned", "none"): (usual, usual)}
    for number, (words, expected) in enumerate(cases.items()):
        assert vit_sweep("plan", study, "--out", study.parent / str(number), *words)[0] == 0
        plan = Study.read(study.parent / str(number) / "mine").configured()
        assert tuple(run.config.optim.lr for run in plan.variants.values()) == expected
    status, _, err = vit_sweep("plan", study, "--optim.lr", "0.1")
    assert status == 2 and "optim.lr: is not allowed without --tuned none: " in err

    def train(plan, *_):
        assert {run.config.optim.lr for run in plan.study.runs} == {usual}
        raise UserError("looked at what is tuned")

    monkeypatch.setattr("sweeps.tuning.trials.tune", train)
    assert "looked at what is tuned" in vit_sweep("tune", study, "--trials", "1", "--device", "cpu")[2]


def changed(**fields) -> dict:
    return {**TREE, **fields}


def with_setting(part: str, key) -> dict:
    """The file with a place of the data among the settings of a variant or a trial."""
    tree = json.loads(json.dumps(TREE))
    tree[part][key]["settings"]["data.root"] = "/elsewhere"
    return tree


@pytest.mark.parametrize(
    "tree, words, said",
    [
        (tuned_tree(cls=0.002), (), "'gap' has no settings"),
        (tuned_tree(cls=0.002, gap=0.1, mean=0.1), (), "'mean' is not a variant"),
        (tuned_tree(cls=0.002, gap=-1.0), (), "variant 'gap': optim.lr: -1.0 is not allowed"),
        (changed(trials=[{**trial, "seed": 1} for trial in TREE["trials"]]), (), "seed 1 was used for tuning"),
        (TREE, ("--optim.lr", "0.1"), "optim.lr: is not allowed with --tuned"),
        (changed(budget="many"), (), "budget: "),
        (
            changed(variants={**TREE["variants"], "gap": {**TREE["variants"]["gap"], "settings": FURTHER}}),
            (),
            "tuned.yaml: variants.gap.settings: model.depth is not in `space`; expected optim.lr",
        ),
        (
            changed(variants={**TREE["variants"], "gap": {**TREE["variants"]["gap"], "settings": {"optim.lr": 0.09}}}),
            (),
            "{'optim.lr': 0.09} and val/acc 0.5 is not the best of its `trials`: trial 0 with {'optim.lr': 0.03}",
        ),
        (STUDY | {"runs": []}, (), "was not tuned"),
        (with_setting("variants", "cls"), (), "variants.cls.settings: data.root: is not allowed"),
        (with_setting("trials", 0), (), "trials.0.settings: data.root: is not allowed"),
    ],
)
def test_a_bad_file_is_refused_in_one_line_and_leaves_nothing(run, study, tree, words, said):
    path = tuned_file(study.parent, tree)
    status, _, err = run("--tuned", path, *words)
    assert status == 2 and said in err and err.count("\n") == 1, err
    assert not (study.parent / "mine").exists()


def trial(number: int, accuracy: float, loss: float = 1.0, status: str = "finished", **settings) -> TunedTrial:
    values = {"val/acc": accuracy, "val/loss": loss, "settings": settings}
    return TunedTrial(variant="v", trial=number, seed=number, status=status, epochs=1, **values)


def test_the_best_is_decided_by_accuracy_then_loss_then_number():
    rows = [trial(0, 0.9, 0.5), trial(1, 0.95, 0.4), trial(2, 0.95, 0.3), trial(3, 0.95, 0.3)]
    assert best_trial([*rows, trial(4, 0.99, 0.1, "pruned")]).trial == 2


def test_the_default_space_leaves_factors_and_a_warm_up_without_effect_out():
    plan = make_plan(parse_study({**STUDY, "factors": {"optim.lr": [0.1, 0.2]}}, "mine"))
    assert list(make_space(None, load(plan.base), plan.runs)) == ["optim.weight_decay", "optim.warmup_epochs"]
    plan = make_plan(parse_study({**STUDY, "base": {"optim.schedule": "constant", "optim.lr": 0.02}}, "mine"))
    space = make_space(None, load(plan.base), plan.runs)
    assert list(space) == ["optim.lr", "optim.weight_decay"]
    assert (space["optim.lr"].low, space["optim.lr"].high, space["optim.lr"].log) == (0.002, 0.2, True)
