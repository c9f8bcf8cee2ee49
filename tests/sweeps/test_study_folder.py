"""The plan in a study's folder is the plan that was written there."""

import json

import pytest

from experiments.errors import UserError
from experiments.runs import record
from sweeps.builtin import STUDIES
from sweeps.plan import apply_tuned, make_plan
from sweeps.study import parse_study
from sweeps.study_folder import plan_of, write_plan

OWN = [
    {
        "factors": {"data.train_limit": [None, 200], "optim.lr": ["1e-3", 1]},
        "baseline": {"data.train_limit": 200, "optim.lr": 1},
        "seeds": [3, 1],
    },
    {
        "factors": {"model.pos_embed+model.pos_site": [["none", "stem"], ["cpe", "stem"]]},
        "extra": [{"model.pos_embed+model.pos_site": ["learned-1d", "every-layer"]}],
        "names": {"model.pos_embed+model.pos_site": "position"},
        "looks": [5, 10],
        "margin": "2 points",
    },
    {"factors": {"train.epochs": [3, 4]}, "metric": "val/loss", "margin": 0.1, "base": "tintn-cifar10"},
]


@pytest.mark.parametrize(
    "study",
    [*STUDIES.values(), *(parse_study({"name": "own", **fields}, "own") for fields in OWN)],
    ids=lambda study: study.name,
)
def test_the_plan_read_back_is_the_plan_that_was_written(study, tmp_path):
    plan = make_plan(study, changes={"train.batch_size": "17"})
    write_plan(plan, tmp_path, "here")
    assert plan_of(tmp_path) == plan


def test_tuned_settings_are_part_of_the_plan(tmp_path):
    plan = make_plan(parse_study({"name": "own", "factors": {"model.pool": ["cls", "gap"]}}, "own"))
    variants = {
        pool: {"levels": {"model.pool": pool}, "settings": {"optim.lr": rate}}
        for pool, rate in (("cls", 0.01), ("gap", 0.02))
    }
    tuned = apply_tuned(plan, {"variants": variants, "trials": [], "space": ["optim.lr"], "budget": 1})
    write_plan(tuned, tmp_path, "here")
    assert plan_of(tmp_path) == tuned
    assert {run.config.optim.lr for run in plan_of(tmp_path).runs} == {0.01, 0.02}


def test_runs_that_an_earlier_command_planned_are_in_the_plan(tmp_path):
    tree = {"name": "own", "factors": {"model.depth": [1, 2]}}
    for seeds in (3, 2):
        write_plan(make_plan(parse_study({**tree, "seeds": seeds}, "own")), tmp_path, "here")
    assert sorted(run.seed for run in plan_of(tmp_path).runs) == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    "change, said",
    [
        ({"export": {}}, "holds an exported study"),
        ({"study": None}, "study.json"),
        ({"runs": [3]}, "holds no plan that can be trained"),
        ({"base": {"model": {"depth": "deep"}}}, "model.depth: 'deep'"),
        ({"base": {"model": {"depth": 7, "patch_size": 2}}}, "this version differs"),
    ],
)
def test_a_file_that_is_no_plan_is_refused(tmp_path, change, said):
    plan = make_plan(parse_study({"name": "own", "factors": {"model.head": ["logits", "softmax"]}}, "own"))
    write_plan(plan, tmp_path, "here")
    path = tmp_path / record.STUDY
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(UserError, match=said):
        plan_of(tmp_path)
