"""Studies as data: what is allowed, how variants and runs are named, what a folder keeps. Nothing is trained here."""

import json
from pathlib import Path

import pytest
import stubbed
import yaml
from commands import refusal
from study_file import read_study

from experiments.config import flatten, override, run_id
from experiments.errors import UserError
from experiments.presets import PRESETS, preset
from experiments.runs.history import read_looks
from experiments.study import FIELDS
from sweeps.plan import load_study, make_plan, parse_study, read_study_file
from sweeps.study_folder import StudyFolder
from vit.registry import REGISTRY

EXAMPLE = Path(__file__).resolve().parents[2] / "sweeps" / "example.yaml"
DEPTHS = {"name": "mine", "factors": {"model.depth": [1, 2]}}
LINKED = "model.pos_embed+model.pos_site"


def plan_of(**fields):
    return make_plan(parse_study({**DEPTHS, **fields}, "mine.yaml"))


def labels(plan):
    return list(dict.fromkeys(run.variant for run in plan.runs))


def test_all_is_every_kind_that_is_known(monkeypatch):
    monkeypatch.setitem(REGISTRY, "mine", REGISTRY["none"])
    study = parse_study({"name": "mine", "factors": {"model.pos-embed": "all", "model.depth": [1]}}, "mine.yaml")
    assert study.factors["model.pos_embed"] == list(REGISTRY) and study.factors["model.pos_embed"][-1] == "mine"
    with pytest.raises(UserError, match="mine.yaml: factors"):
        parse_study({"name": "mine", "factors": {"model.depth": "all"}}, "mine.yaml")


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_a_study_of_one_variant(name):
    plan = make_plan(load_study(name))
    assert [run.config for run in plan.runs] == [override(preset(name), {"seed": seed}) for seed in range(5)]
    assert (plan.preset, plan.name) == (name, name)


def test_runs_are_the_base_with_their_levels_and_seed_and_nothing_else():
    factors = {"model.patch_size": [2, 4], "model.embed_dim": [16, 32]}
    plan = plan_of(factors=factors, base={"train.epochs": 3}, seeds=[4, 9])
    assert len(plan.runs) == 8
    run = next(r for r in plan.runs if r.variant == "patch_size=4, embed_dim=16" and r.seed == 9)
    wanted = {"model.patch_size": 4, "model.embed_dim": 16, "train.epochs": 3, "seed": 9}
    assert run.config == override(preset("digits"), wanted)
    assert run.run_id == run_id(run.config)
    assert run.levels == {"model.patch_size": 4, "model.embed_dim": 16}
    assert run.name == f"patch_size=4,embed_dim=16-s9-{run.run_id[:8]}"


def test_linked_settings_move_together_and_are_split_up_in_the_runs():
    levels = [["none", "natural"], ["learned-1d", "stem"]]
    plan = plan_of(factors={LINKED: levels}, baseline=levels[1], seeds=1)
    assert labels(plan) == ["none, natural", "learned-1d, stem"]
    assert plan.baseline == "learned-1d, stem"
    assert plan.runs[1].levels == {"model.pos_embed": "learned-1d", "model.pos_site": "stem"}


def test_an_extra_variant_does_not_differ_in_a_factor_that_it_does_not_state():
    factors = {"model.pos_embed": ["learned-1d"], "model.depth": [3]}
    extra = [{"model.pos_embed": "none"}]
    with pytest.raises(UserError, match=r"'pos_embed=none' does not state model.depth; its value would be 2, which"):
        plan_of(factors=factors, extra=extra)


def test_extra_cells_stand_beside_the_product_and_leave_the_rest_to_the_base():
    plan = plan_of(
        factors={"model.pos_embed": ["learned-1d", "learned-2d"], "model.pos_site": ["stem"]},
        extra=[{"model.pos_embed": "none"}],
        baseline={"model.pos_embed": "none"},
        seeds=1,
    )
    assert labels(plan)[-1] == plan.baseline == "pos_embed=none"
    assert plan.runs[-1].levels == {"model.pos_embed": "none", "model.pos_site": "natural"}
    assert len(plan.runs) == 3


RATES = "model.pos_drop_rate+model.mlp_drop_rate"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"factors": {"data.name": ["digits"], "optim.name": ["sgd"]}}, ["data.name=digits, optim.name=sgd"]),
        ({"factors": {RATES: [[0, 0], [0.1, 0.1], [0.1, 0.2]]}, "names": {RATES: "p"}}, ["p=0", "p=0.1", "p=0.1/0.2"]),
    ],
)
def test_labels(fields, expected):
    """Paths that end alike are labelled in full; names shorten labels."""
    assert labels(plan_of(**fields, seeds=1)) == expected


def test_folder_names_are_safe_whatever_the_level(tmp_path):
    plan = plan_of(factors={"data.root+data.train_limit": [["../../etc/a b", 100], ["x" * 300, 200]]}, seeds=1)
    for run in plan.runs:
        assert (tmp_path / run.name).parent == tmp_path
        assert len(run.name) < 90
        assert not set(run.name) & set("/ \\:*?\"<>|'\n")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"factors": {}}, "factors"),
        ({"factors": {"model.depth": [[1], [2]]}}, "single value"),
        ({"factors": {"model.depth": [1, "1"]}}, "are the same"),
        ({"factors": {"data.root": ["here", "there"]}}, "are the same"),
        ({"factors": {"seed": [1, 2]}}, "seed cannot be a factor"),
        ({"factors": {"model.depth": [1], "model.depth+model.act": [[2, "gelu"]]}}, "'model.depth' occurs twice"),
        ({"factors": {LINKED: [["none"]]}}, "list of 2 values"),
        ({"factor": {}}, "factor: no such setting; did you mean 'factors'?"),
        ({"factors": {"model.depth": 3}}, "factors.model.depth: 3 is not allowed"),
        ({"metric": "fewshot/mnist"}, "metric: 'fewshot/mnist' is not allowed: expected train/loss"),
        ({"metric": "fewshot/digits/5"}, "'1' does not measure fewshot/digits/5; expected train/loss"),
        ({"margin": "1 point", "metric": "val/loss"}, "margin: '1 point' is not allowed"),
        ({"name": "a/b"}, "name: 'a/b' is not allowed: expected at most 80 of a-z, A-Z, 0-9"),
        ({"baseline": {True: "a", "True": "b"}}, "True, True: two of these are the same setting"),
        ({"factors": {"model.depth": []}}, "factors.model.depth: [] is not allowed: expected at least 1"),
        ({"margin": True, "metric": "test/loss"}, "margin: True is not allowed"),
        ({"base": {"train.batch-size": 8, "train.batch_size": 32}}, "base: train.batch-size, train.batch_size: two of"),
        (
            {"factors": {LINKED: [["none", "stem"]], "model.depth": [1]}, "names": {LINKED: "x", "model.depth": "x"}},
            "names: x, x",
        ),
        ({"extra": [{"model.head": "mlp"}]}, "model.head is not a factor"),
        ({"seeds": [1, 1]}, "seeds: [1, 1]"),
        ({"baseline": 3}, "baseline: '3' is not a variant; allowed: 1, 2"),
        ({"baseline": {"model.head": "mlp"}}, "baseline: model.head is not a factor"),
        ({"factors": {"model.depth": [1], "model.reg_tokens": [0, 1]}, "baseline": {"model.depth": 1}}, "several"),
        ({"base": "digitz"}, "mine: base: 'digitz' is not known; did you mean 'digits'?"),
        ({"seeds": 100_000_000}, "seeds: 100000000 is not allowed: expected a number of seeds from 1 to 100,000,"),
        (
            {"factors": {f"model.{n}": [*range(1, 1001)] for n in ("depth", "embed_dim", "num_heads")}},
            "5,000,000,000 runs",
        ),
        ({"base": {"model.depth": 3}}, "is a factor"),
        ({"base": {"seed": 3}}, "--seeds"),
        (
            {"factors": {"optim.lr+optim.warmup_epochs": [[1, 2], [2, 3]]}, "base": {"optim.schedule": "constant"}},
            "factors: optim.warmup_epochs: has no effect in any variant; it needs optim.schedule cosine",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_line_that_names_it(fields, said):
    assert said in refusal(plan_of, **fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"factors": {"optim.momentum": [0, 0.9], "optim.name": ["adamw", "sgd"]}, "extra": []},
        {"factors": {"optim.schedule+optim.warmup_epochs": [["constant", 0], ["cosine", 0], ["cosine", 5]]}},
        {"factors": {"optim.lr+optim.momentum": [[1e-3, 0.9], [1e-2, 0.9]]}},
        {"factors": {"data.test_fraction": [0.1, 0.2]}, "base": {"data.name": "mnist", "eval.fewshot": "digits"}},
        {"factors": {"data.test_fraction": [0.1, 0.2]}, "base": {"data.name": "imagefolder", "model.patch_size": 8}},
        {"base": {"optim.momentum": 0.5}},
    ],
)
def test_a_factor_with_an_effect_in_one_variant_and_a_base_setting_without_one_are_allowed(fields):
    assert plan_of(**fields).runs


@pytest.mark.parametrize(
    ("text", "margin"), [("1 point", 0.01), ("2 points", 0.02), ("0.5 %", 0.005), ("1%", 0.01), ("0.02", 0.02)]
)
def test_the_margin_of_an_accuracy_may_have_a_unit(text, margin):
    assert plan_of(margin=text).margin == margin


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("- a\n- b\n", "expected a mapping with `name` and `factors`, got list"),
        ("name: [x\n", "is not valid YAML: line 2"),
        ("factors: {model.depth: [1]}\n", "name: is required"),
        ("name: x\nfactors:\n  model.depth: [1]\n  model.depth: [2]\n", "'model.depth' occurs twice"),
        ("name: off\nfactors: {model.depth: [1]}\n", "name: False is not allowed: YAML reads yes, no, on and off as"),
        ("name: x\nseeds: 010\n", "is not valid YAML: line 2: 010 is not allowed: a number has neither a leading zero"),
        ("name: " + "[" * 5000 + "]" * 5000, "is not valid YAML"),
    ],
)
def test_a_file_that_is_no_study_is_refused_by_name(tmp_path, body, said):
    path = tmp_path / "mine.yaml"
    path.write_text(body)
    error = refusal(read_study_file, path)
    assert str(path) in error and said in error


def test_more_seeds_extend_a_study_and_fewer_forget_none(tmp_path):
    StudyFolder(tmp_path, plan_of(seeds=[0, 5])).write("first")
    StudyFolder(tmp_path, plan_of(seeds=2)).write("second")
    study = read_study(tmp_path)
    assert study["seeds"] == [0, 5, 1]
    assert len(study["runs"]) == len({run["run"] for run in study["runs"]}) == 6
    assert study["command"] == "second"


def finish(plan, study_dir, seeds):
    """Give the runs of these seeds a record. That of variant 2 and seed 0 has diverged."""
    for run in plan.runs:
        if run.seed in seeds:
            stubbed.finish(study_dir / run.name, run, "diverged" if (run.variant, run.seed) == ("2", 0) else "finished")


def test_seeds_that_are_added_to_finished_runs_are_a_look(tmp_path):
    plan = plan_of(seeds=3, looks=[3, 6])
    StudyFolder(tmp_path, plan).write("first")
    assert read_study(tmp_path)["looks"] == [3, 6]
    finish(plan, tmp_path, range(3))
    StudyFolder(tmp_path, plan).write("resumed")
    assert read_looks(tmp_path) == [] and "earlier" not in read_study(tmp_path)
    StudyFolder(tmp_path, plan_of(seeds=6, looks=[3, 6])).write("extended")
    assert read_study(tmp_path)["earlier"] == [{"runs": 6, "stated": {"seeds": [0, 1, 2]}}]
    (look,) = read_looks(tmp_path)
    assert (look.fewest, look.most, look.metric, look.command) == (2, 3, "test/acc", "vit-sweep")


def test_a_baseline_with_a_longer_label_is_the_same_baseline(tmp_path):
    """The study gains a factor, so its labels change, and a first level, which would be the baseline."""
    StudyFolder(tmp_path, plan_of()).write("first")
    finish(plan_of(), tmp_path, [0])
    factors = {"model.depth": [1, 2], "model.head": ["logits", "mlp"]}
    StudyFolder(tmp_path, plan_of(factors=factors)).write("second")
    assert read_study(tmp_path)["baseline"] == "depth=1, head=logits"
    StudyFolder(tmp_path, plan_of(factors=factors, baseline={"model.depth": 1, "model.head": "logits"})).write("third")
    more = {**factors, "model.depth": [3, 1, 2]}
    with pytest.raises(UserError, match="baseline is depth=1, head=logits there and depth=3, head=logits here"):
        StudyFolder(tmp_path, plan_of(factors=more)).write("fourth")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"base": {"train.epochs": 4}}, "base.train.epochs is 30 there and 4 here"),
        ({"factors": {"model.depth": [1, 3]}}, "factors.model.depth"),
        ({"factors": {"model.head": ["logits", "mlp"]}}, "factors.model.depth"),
        ({"factors": {"model.depth": [1, 2], "model.head": ["mlp", "softmax"]}}, "factors.model.head"),
    ],
)
def test_a_folder_is_kept_from_another_study(tmp_path, fields, said):
    StudyFolder(tmp_path, plan_of()).write("first")
    before = (tmp_path / "study.json").read_bytes()
    with pytest.raises(UserError, match="holds another study") as caught:
        StudyFolder(tmp_path, plan_of(**fields)).write("second")
    assert said in str(caught.value)
    assert (tmp_path / "study.json").read_bytes() == before


def test_a_study_gains_a_level_a_factor_and_names(tmp_path):
    """The runs keep their folders and ids, and get the labels of the larger study. The logits head is the base's."""
    StudyFolder(tmp_path, plan_of(seeds=2)).write("first")
    first = {(run["levels"]["model.depth"], run["seed"]): run for run in read_study(tmp_path)["runs"]}
    factors = {"model.depth": [1, 2, 3], "model.head": ["mlp", "logits"]}
    larger = StudyFolder.read(plan_of(seeds=3, factors=factors, names={"model.head": "output"}), tmp_path).plan
    StudyFolder(tmp_path, larger).write("second")
    runs = read_study(tmp_path)["runs"]
    assert [run["run"] for run in runs] == [run.name for run in larger.runs]
    assert len({run["run_id"] for run in runs}) == 3 * 2 * 3
    for run in runs:
        depth, head = run["levels"]["model.depth"], run["levels"]["model.head"]
        assert run["variant"] == f"depth={depth}, output={head}"
        old = first.pop((depth, run["seed"]), None) if head == "logits" else None
        if old:
            assert (run["run"], run["run_id"]) == (old["run"], old["run_id"])
    assert not first


def test_the_example_file_is_a_study_with_every_field():
    tree = yaml.safe_load(EXAMPLE.read_text())
    assert set(tree) == set(FIELDS)
    plan = make_plan(parse_study(tree, "example"))
    assert len(labels(plan)) == 3 * 2 + 1
    assert plan.baseline == "position=none, pooling=cls"


STATEMENTS = [{"margin": 0.05}, {"metric": "val/loss"}, {"looks": [5, 10]}, {"baseline": 2}, {"family": "baseline"}]


@pytest.mark.parametrize("fields", STATEMENTS, ids=str)
def test_what_counts_is_stated_before_the_runs_and_the_description_may_change(tmp_path, fields):
    (path,) = fields
    StudyFolder(tmp_path, plan_of()).write("first")
    StudyFolder(tmp_path, plan_of(**fields)).write("second thoughts")  # nothing has been seen yet
    finish(plan_of(), tmp_path, [0])
    before = (tmp_path / "study.json").read_bytes()
    with pytest.raises(UserError, match=f"{path} is .* cannot change after the first run has finished"):
        StudyFolder(tmp_path, plan_of()).write("third")
    assert (tmp_path / "study.json").read_bytes() == before
    named = {"description": "Another text.", "labels": {"1": "one layer"}}
    StudyFolder(tmp_path, plan_of(**fields, **named)).write("fourth")
    assert read_study(tmp_path)["description"] == "Another text."
    assert read_study(tmp_path)["labels"] == {"1": "one layer"}


def test_where_data_lie_makes_no_other_study(tmp_path):
    StudyFolder(tmp_path, plan_of(base={"data.root": "here"})).write("first")
    StudyFolder(tmp_path, plan_of(base={"data.root": "there"})).write("second")
    assert json.loads((tmp_path / "study.json").read_text())["base"]["data"]["root"] == "there"
    with pytest.raises(UserError, match="holds another study: base.train.epochs is .* there and 7 here"):
        StudyFolder(tmp_path, plan_of(base={"data.root": "elsewhere", "train.epochs": 7})).write("third")


def test_seeds_after_the_last_planned_look_are_refused():
    assert len(plan_of(looks=[2, 3], seeds=3).seeds) == 3
    with pytest.raises(UserError, match="seeds: 5 are more than the last planned look tests, 3"):
        plan_of(looks=[2, 3], seeds=5)


def test_the_base_of_a_built_in_study_is_taken_and_nothing_else(tmp_path):
    path, base = tmp_path / "mine.yaml", {"study": "kinds-cifar10", "train.epochs": 3}
    path.write_text(json.dumps({"name": "mine", "factors": {"model.depth": [1, 2]}, "base": base}))
    mine, theirs = make_plan(load_study(str(path))), make_plan(load_study("kinds-cifar10"))
    expected = {**dict(flatten(theirs.base)), "train.epochs": 3}
    differing = {path for path, value in flatten(mine.base) if value != expected[path]}
    assert differing == {"model.depth"}, "a factor is not taken"
    assert mine.factors == {"model.depth": [1, 2]} and len(mine.seeds) == 5
    path.write_text(json.dumps({"name": "mine", "factors": {"model.depth": [1, 2]}, "base": {"study": "kinds-cifar"}}))
    with pytest.raises(UserError, match="base.study: 'kinds-cifar' is not a built-in study; did you mean 'kinds-c"):
        load_study(str(path))
