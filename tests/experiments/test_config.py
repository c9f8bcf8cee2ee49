"""Configurations: bad input gives one clear line; defaults and run ids never change."""

import json
import re

import pytest

from experiments.config import SETTINGS, RunConfig, cohort_key, load, override, run_id
from experiments.errors import UserError
from experiments.presets import PRESETS, preset
from vit.pos_embed import PosEmbed
from vit.registry import REGISTRY, Kind

# A run id is a hash of what differs from these, so a changed default would give old records a wrong id.
PUBLISHED = {
    "data.name": "digits",
    "data.root": "data",
    "data.download": False,
    "data.img_size": None,
    "data.num_classes": None,
    "data.val_fraction": 0.1,
    "data.test_fraction": 0.2,
    "data.split_seed": 0,
    "data.train_limit": None,
    "data.shuffle_patches": False,
    "data.hflip": False,
    "data.crop_padding": 0,
    "data.rrc_scale": 1.0,
    "data.normalize": "dataset",
    "model.patch_size": 2,
    "model.embed_dim": 32,
    "model.depth": 2,
    "model.num_heads": 4,
    "model.mlp_ratio": 4.0,
    "model.pos_embed": "learned-1d",
    "model.pos_site": "natural",
    "model.rope_base": None,
    "model.stem": "patchify",
    "model.pool": "cls",
    "model.head": "logits",
    "model.class_token": True,
    "model.reg_tokens": 0,
    "model.attn": "fused",
    "model.qkv_bias": True,
    "model.norm": "pre",
    "model.final_norm": True,
    "model.act": "gelu",
    "model.init": "timm",
    "model.pos_drop_rate": 0.0,
    "model.attn_drop_rate": 0.0,
    "model.proj_drop_rate": 0.0,
    "model.mlp_act_drop_rate": 0.0,
    "model.mlp_drop_rate": 0.0,
    "model.drop_rate": 0.0,
    "model.drop_path_rate": 0.0,
    "optim.name": "adamw",
    "optim.lr": 1e-3,
    "optim.weight_decay": 0.05,
    "optim.momentum": 0.9,
    "optim.schedule": "cosine",
    "optim.warmup_epochs": 0.0,
    "optim.grad_clip_norm": 0.0,
    "train.epochs": 30,
    "train.batch_size": 64,
    "train.label_smoothing": 0.0,
    "train.precision": "float32",
    "seed": 0,
}


def test_published_defaults_are_unchanged():
    assert {path: SETTINGS[path].default for path in PUBLISHED if path in SETTINGS} == PUBLISHED


@pytest.mark.parametrize(
    ("changes", "identity"),
    [
        # sha256 of the changed settings as canonical JSON; for RunConfig() {"model.pos_site":"stem"}, the resolved site
        ({}, "62a8f688f3c08ee9"),
        ({"seed": 3, "model.pos_embed": "none"}, "2bb2839c290b9432"),
        ({"optim.lr": 5e-3, "train.epochs": 7, "data.hflip": True, "model.pos_embed": "rope-2d"}, "4186f56c5fa2082a"),
    ],
)
def test_published_run_ids_are_unchanged(changes, identity):
    assert run_id(override(RunConfig(), changes)) == identity


def test_run_id_of_preset_digits_is_unchanged():
    assert run_id(preset("digits")) == "6c9cd04e5e32dbbe"


@pytest.mark.parametrize(
    "changes", [{"data.root": "/elsewhere"}, {"data.download": True}, {"data.root": "/a", "data.download": True}]
)
@pytest.mark.parametrize("name", ["digits", "mnist", "cifar10"])
def test_run_id_ignores_where_a_known_dataset_is_stored(name, changes):
    config = override(RunConfig(), {"data.name": name})
    assert run_id(override(config, changes)) == run_id(config)


@pytest.mark.parametrize(("kind", "base"), [("rope-2d", 100.0), ("rope-mixed", 10.0)])
def test_the_base_that_a_kind_has_by_default_keeps_its_run_id(kind, base):
    config = override(RunConfig(), {"model.pos_embed": kind})
    assert run_id(override(config, {"model.rope_base": base})) == run_id(config)
    assert run_id(override(config, {"model.rope_base": "10000"})) != run_id(config)
    with pytest.raises(UserError) as refused:
        override(config, {"model.rope_base": 50, "model.pos_embed": "cpe"})
    assert str(refused.value) == "model.rope_base: 50 is not allowed for cpe; only for rope-2d, rope-mixed"


def test_run_id_of_an_imagefolder_depends_on_its_folder():
    flowers, cars = (
        override(RunConfig(), {"data.name": "imagefolder", "data.root": root}) for root in ("flowers", "cars")
    )
    assert run_id(flowers) != run_id(cars)


@pytest.mark.parametrize(
    ("kind", "site"),
    [("learned-1d", "stem"), ("none", "stem"), ("rope-2d", "every-layer"), ("alibi-2d", "every-layer")],
)
def test_natural_site_has_the_run_id_of_the_site_it_stands_for(kind, site):
    natural = override(RunConfig(), {"model.pos_embed": kind})
    assert run_id(override(natural, {"model.pos_site": site})) == run_id(natural)


def test_run_id_depends_on_the_site():
    shared = override(RunConfig(), {"model.pos_site": "every-layer-shared"})
    assert len({run_id(shared), run_id(RunConfig()), run_id(override(shared, {"model.pos_site": "every-layer"}))}) == 3


@pytest.mark.parametrize(
    "path", [path for path, value in PUBLISHED.items() if isinstance(value, float) and value < 0.9]
)
def test_run_id_depends_on_every_number(path):
    assert run_id(override(RunConfig(), {path: 0.125})) != run_id(RunConfig())


def test_run_id_ignores_the_spelling_of_a_value():
    strings = {"optim.lr": "0.01", "train.epochs": "5", "data.hflip": "true", "optim.warmup_epochs": "2"}
    values = {"optim.lr": 1e-2, "train.epochs": 5.0, "data.hflip": True, "optim.warmup_epochs": 2}
    assert override(RunConfig(), strings) == override(RunConfig(), values)
    assert run_id(override(RunConfig(), strings)) == run_id(override(RunConfig(), dict(reversed(values.items()))))


@pytest.mark.parametrize("name", PRESETS)
def test_configuration_survives_json(name):
    config = preset(name)
    back = load(json.loads(json.dumps(config.model_dump())))
    assert back == config
    assert run_id(back) == run_id(config)


# As published in the code of each source.
_001 = {
    "data.name": "cifar10",
    "data.hflip": True,
    "data.rrc_scale": 0.8,
    "data.normalize": "half",
    "data.img_size": None,
    "model.patch_size": 4,
    "model.embed_dim": 48,
    "model.depth": 4,
    "model.num_heads": 4,
    "model.mlp_ratio": 4.0,
    "model.act": "gelu-tanh",
    "model.qkv_bias": True,
    "model.attn": "fused",
    "model.norm": "pre",
    "model.final_norm": False,
    "model.pos_embed": "learned-1d",
    "model.pool": "cls",
    "model.head": "logits",
    "model.init": "bert-0.02",
    "model.pos_drop_rate": 0.0,
    "model.attn_drop_rate": 0.0,
    "model.proj_drop_rate": 0.0,
    "model.mlp_drop_rate": 0.0,
    "optim.name": "adamw",
    "optim.lr": 1e-2,
    "optim.weight_decay": 1e-2,
    "optim.schedule": "constant",
    "optim.grad_clip_norm": 0.0,
    "train.batch_size": 256,
    "train.epochs": 100,
    "train.label_smoothing": 0.0,
}
_002 = {
    **_001,
    "model.pos_drop_rate": 0.1,
    "model.attn_drop_rate": 0.1,
    "model.proj_drop_rate": 0.1,
    "model.mlp_drop_rate": 0.1,
    "optim.lr": 1e-3,
    "train.epochs": 15,
}
_003 = {
    "data.name": "mnist",
    "data.hflip": False,
    "data.rrc_scale": 1.0,
    "data.normalize": "unit",
    "model.patch_size": 4,
    "model.embed_dim": 8,
    "model.depth": 2,
    "model.num_heads": 2,
    "model.mlp_ratio": 4.0,
    "model.act": "gelu",
    "model.qkv_bias": True,
    "model.attn": "sliced",
    "model.norm": "pre",
    "model.final_norm": False,
    "model.pos_embed": "sinusoidal",
    "model.pool": "cls",
    "model.head": "softmax",
    "model.init": "torch",
    "optim.name": "adam",
    "optim.lr": 5e-3,
    "optim.weight_decay": 0.0,
    "optim.schedule": "constant",
    "optim.grad_clip_norm": 0.0,
    "train.batch_size": 128,
    "train.epochs": 5,
}
_004 = {  # the model of 004; the training of arXiv 2010.11929, Table 3, with the exceptions that the preset lists
    "data.normalize": "half",
    "model.pos_drop_rate": 0.1,
    "optim.name": "adamw",
    "optim.lr": 1e-3,
    "optim.weight_decay": 0.1,
    "optim.schedule": "cosine",
    "optim.warmup_epochs": 5,
    "optim.grad_clip_norm": 1.0,
    "train.batch_size": 512,
    "train.epochs": 300,
    "data.name": "imagefolder",
    "data.img_size": 224,
    "model.patch_size": 16,
    "model.embed_dim": 768,
    "model.depth": 12,
    "model.num_heads": 12,
    "model.mlp_ratio": 4.0,
    "model.act": "gelu",
    "model.pos_embed": "learned-1d",
    "model.pool": "cls",
    "model.mlp_act_drop_rate": 0.1,
    "model.mlp_drop_rate": 0.1,
    "model.norm": "pre",
    "model.final_norm": True,
}


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("tintn-cifar10", _001),
        ("lodha-cifar10", _002),
        ("owen-cifar10", {**_001, "train.epochs": 50}),
        ("pulfer-mnist", _003),
        ("vit-b16", _004),
        ("vit-s16", {**_004, "model.embed_dim": 384, "model.num_heads": 6}),
        ("vit-ti16", {**_004, "model.embed_dim": 192, "model.num_heads": 3}),
    ],
)
def test_preset_matches_its_source(name, published):
    tree = preset(name).model_dump()
    assert {path: tree[path.split(".")[0]][path.split(".")[1]] for path in published} == published


def test_record_older_than_a_setting_loads():
    old = override(RunConfig(), {"seed": 4, "model.depth": 3}).model_dump()
    for section, field in (("data", "shuffle_patches"), ("model", "reg_tokens"), ("train", "label_smoothing")):
        del old[section][field]
    assert load(old) == override(RunConfig(), {"seed": 4, "model.depth": 3})


def test_configuration_is_frozen():
    with pytest.raises(ValueError, match="frozen"):
        RunConfig().seed = 1
    with pytest.raises(ValueError, match="frozen"):
        RunConfig().model.depth = 1


def test_none_unsets_optional_settings():
    config = override(preset("vit-b16"), {"data.name": "cifar10", "data.num_classes": "none", "data.img_size": "none"})
    assert (config.data.num_classes, config.data.img_size) == (None, None)
    with pytest.raises(UserError, match="model.depth: 'none' is not allowed"):
        override(config, {"model.depth": "none"})


@pytest.mark.parametrize(
    "reason, said",
    [
        ("img_size: 8 is too small", "data.img_size: 8 is too small"),
        ("depth: 2 is too small", "model.depth: 2 is too small"),
        ("a grid of 2 is too small", "model.pos_embed: 'mine' is not allowed: a grid of 2 is too small"),
    ],
)
def test_the_refusal_of_a_plugin_names_a_setting(reason, said, monkeypatch):
    class Mine(PosEmbed):
        @classmethod
        def check(cls, cfg):
            raise ValueError(reason)

    monkeypatch.setitem(REGISTRY.data, "mine", Kind(Mine, ("stem",)))
    with pytest.raises(UserError, match=f"^{re.escape(said)}$"):
        override(RunConfig(), {"model.pos_embed": "mine"})


def test_override_does_not_change_the_original():
    config = RunConfig()
    assert override(config, {"model.depth": 5}).model.depth == 5
    assert config == RunConfig()


def test_dashes_and_underscores_are_equal():
    assert override(RunConfig(), {"model.pos-embed": "none"}) == override(RunConfig(), {"model.pos_embed": "none"})


REFUSED = [  # changes -> words in the message: the setting, the value, what is allowed
    ({"model.pos_embd": "none"}, ["model.pos_embd", "did you mean model.pos_embed?"]),
    ({"pos_embed": "none"}, ["pos_embed", "did you mean model.pos_embed?"]),
    ({"model": {"depth": 2}}, ["model: no such setting"]),
    ({"zzz.qqq": 1}, ["zzz.qqq: no such setting"]),
    ({"model.pos_embed": "sinusodal"}, ["model.pos_embed", "'sinusodal'", "did you mean 'sinusoidal'?", "learned-2d"]),
    ({"data.name": "cifar"}, ["data.name", "'cifar'", "did you mean 'cifar10'?", "digits"]),
    ({"model.depth": "deep"}, ["model.depth", "'deep'", "integer"]),
    ({"model.depth": True}, ["model.depth: true", "expected a number, got a boolean"]),
    ({"optim.lr": True}, ["optim.lr: true", "expected a number, got a boolean"]),
    ({"optim.name": True}, ["optim.name: true", "expected a string, got a boolean"]),
    ({"data.name": "imagefolder", "eval.fewshot": "cifar10"}, ["eval.fewshot: cifar10 is not allowed for imagefolder"]),
    ({"data.img_size": False}, ["data.img_size: false", "expected a number, got a boolean"]),
    ({"model.depth": 0}, ["model.depth", "0", "greater than or equal to 1"]),
    ({"optim.lr": -1e-3}, ["optim.lr", "-0.001", "greater than 0"]),
    ({"optim.lr": "nan"}, ["optim.lr", "nan", "finite"]),
    ({"optim.lr": "inf"}, ["optim.lr", "inf", "finite"]),
    ({"optim.name": "lion"}, ["optim.name", "'lion'", "'adamw', 'adam' or 'sgd'"]),
    ({"train.epochs": -1}, ["train.epochs", "-1"]),
    ({"seed": -1}, ["seed", "-1"]),
    ({"seed": 2**31}, ["seed", str(2**31)]),
    ({"data.split_seed": 2**31}, ["data.split_seed: ", str(2**31), "less than", "or 'per-seed'"]),
    ({"data.split_seed": "by-seed"}, ["data.split_seed: 'by-seed' is not allowed", "integer", "or 'per-seed'"]),
    ({"model.patch_size": 3}, ["model.patch_size: 3", "8 px"]),
    ({"model.pos_embed": "none", "model.pos_site": "every-layer"}, ["model.pos_site", "'every-layer'", "none", "stem"]),
    ({"model.qkv_bias": "maybe"}, ["model.qkv_bias", "'maybe'", "boolean"]),
    ({"data.crop_padding": 2, "data.rrc_scale": 0.5}, ["data.rrc_scale", "crop_padding"]),
    ({"data.num_classes": 7}, ["data.num_classes", "7", "digits"]),
    ({"data.val_fraction": 1.0}, ["data.val_fraction", "1.0", "less than 1"]),
    ({"data.crop_padding": 8}, ["data.crop_padding: 8", "8 px"]),
    ({"data.shuffle_patches": True, "data.crop_padding": 1}, ["data.crop_padding: 1", "shuffle_patches", "allowed: 0"]),
    ({"model.depth": 10**19}, ["model.depth", "10000000000000000000", "less than 2147483648"]),
    ({"model.mlp_ratio": "1e300"}, ["model.mlp_ratio", "'1e300'", "1000"]),
    ({"optim.warmup_epochs": "1e308"}, ["optim.warmup_epochs", "'1e308'", "1000000"]),
]


@pytest.mark.parametrize(("changes", "words"), REFUSED, ids=[str(changes) for changes, _ in REFUSED])
def test_bad_value_gives_one_line(changes, words):
    with pytest.raises(UserError) as refusal:
        override(RunConfig(), changes)
    line = str(refusal.value)
    assert "\n" not in line
    assert [word for word in words if word not in line] == []


@pytest.mark.parametrize("tree", [{"model": 3}, {"modle": {}}, {"model": {"depht": 2}}, [1], "x"])
def test_invalid_tree_is_refused(tree):
    with pytest.raises(UserError):
        load(tree)


def test_every_setting_can_be_set_to_its_own_default():
    assert override(RunConfig(), {path: setting.default for path, setting in SETTINGS.items()}) == RunConfig()


def test_settings_list_their_choices():
    assert SETTINGS["optim.name"].choices == ("adamw", "adam", "sgd")
    assert SETTINGS["data.hflip"].choices == ("true", "false")
    assert {"none", "rope-2d"} < set(SETTINGS["model.pos_embed"].choices)
    assert SETTINGS["model.depth"].choices == ()


def test_every_setting_has_a_description():
    assert [path for path, setting in SETTINGS.items() if not setting.description] == []


def test_unknown_preset_is_refused():
    with pytest.raises(UserError, match="'digit' is not known; did you mean 'digits'"):
        preset("digit")


def test_the_split_is_fixed_or_varies_with_the_seed():
    fixed = override(RunConfig(), {"data.split_seed": "3", "seed": 5})
    varied = override(RunConfig(), {"data.split_seed": "per-seed", "seed": 5})
    assert (fixed.split_seed, varied.split_seed) == (3, 5)
    assert run_id(varied) != run_id(override(varied, {"data.split_seed": 5}))


def test_runs_of_different_splits_are_not_one_cohort():
    for split, together in ((0, True), ("per-seed", False)):
        first, other = (override(RunConfig(), {"data.split_seed": split, "seed": seed}) for seed in (0, 1))
        assert (cohort_key(first) == cohort_key(other)) == together
