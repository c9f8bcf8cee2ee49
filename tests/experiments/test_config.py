"""Configurations: bad input gives one clear line; defaults and run ids never change."""

import json
from typing import Any

import pytest
import yaml
from commands import refusal

from experiments.config import (
    SETTINGS,
    RunConfig,
    changed_settings,
    cohort_key,
    completed,
    flatten,
    load,
    override,
    run_id,
)
from experiments.errors import UserError
from experiments.presets import PRESETS, preset


def settings(text: str) -> dict[str, Any]:
    """Settings by dotted path, from YAML by section."""
    return dict(flatten(yaml.safe_load(text)))


# A run id is a hash of what differs from these, so a changed default would give old records a wrong id.
PUBLISHED = settings("""
data: {name: digits, root: data, download: false, img_size: null, num_classes: null, val_fraction: 0.1, test_fraction: 0.2,
  split_seed: 0, train_limit: null, shuffle_patches: false, hflip: false, crop_padding: 0, rrc_scale: 1.0, random_erasing: 0.0,
  mixup: 0.0, cutmix: 0.0, normalize: dataset}
model: {patch_size: 2, embed_dim: 32, depth: 2, num_heads: 4, mlp_ratio: 4.0, pos_embed: learned-1d, pos_site: natural,
  rope_base: null, pos_std: null, stem: patchify, pool: cls, head: logits, class_token: true, reg_tokens: 0, attn: fused, qkv_bias: true,
  norm: pre, final_norm: true, act: gelu, init: timm, pos_drop_rate: 0.0, attn_drop_rate: 0.0, proj_drop_rate: 0.0,
  mlp_act_drop_rate: 0.0, mlp_drop_rate: 0.0, drop_rate: 0.0, drop_path_rate: 0.0,
  norm_layer: layernorm, mlp: plain, layer_scale: null, qk_norm: false}
optim: {name: adamw, lr: 0.001, weight_decay: 0.05, momentum: 0.9, schedule: cosine, warmup_epochs: 0.0, grad_clip_norm: 0.0}
train: {epochs: 30, batch_size: 64, label_smoothing: 0.0, precision: float32}
seed: 0
""")


def test_published_defaults_are_unchanged():
    assert {path: SETTINGS[path].default for path in PUBLISHED if path in SETTINGS} == PUBLISHED


@pytest.mark.parametrize(
    ("changes", "identity"),
    [
        # sha256 of the changed settings as canonical JSON; for RunConfig() {"model.pos_site":"stem"}, the resolved site
        ({}, "62a8f688f3c08ee9"),
        ({"seed": 3, "model.pos_embed": "none"}, "2bb2839c290b9432"),
        (dict(flatten(preset("digits").model_dump())), "6c9cd04e5e32dbbe"),
        ({"optim.lr": 5e-3, "train.epochs": 7, "data.hflip": True, "model.pos_embed": "rope-2d"}, "4186f56c5fa2082a"),
    ],
)
def test_published_run_ids_are_unchanged(changes, identity):
    assert run_id(override(RunConfig(), changes)) == identity


@pytest.mark.parametrize(
    ("kind", "field", "default"),
    [
        ("rope-2d", "rope_base", 100.0),
        ("rope-mixed", "rope_base", 10.0),
        ("learned-2d", "pos_std", 0.02),
        ("sinusoidal", "pos_scale", 1.0),
    ],
)
def test_the_value_that_a_kind_has_by_default_keeps_its_run_id(kind, field, default):
    config = override(RunConfig(), {"model.pos_embed": kind})
    assert run_id(override(config, {f"model.{field}": default})) == run_id(config)
    assert run_id(override(config, {f"model.{field}": "10000"})) != run_id(config)


def test_the_standard_deviation_of_a_table_is_that_of_the_initial_weights():
    """With xavier the default is 1 / sqrt(embed_dim), so a stated 0.02 is another run."""
    config = override(RunConfig(), {"model.init": "xavier", "model.embed_dim": 64})
    assert run_id(override(config, {"model.pos_std": 0.125})) == run_id(config)
    assert run_id(override(config, {"model.pos_std": 0.02})) != run_id(config)


@pytest.mark.parametrize("name", ["digits", "cifar10", "torchvision:SVHN", "imagefolder"])
def test_run_id_depends_on_the_name_of_an_imagefolder_only(name, tmp_path, monkeypatch):
    """The last part of its path, however it is spelled."""
    monkeypatch.chdir(tmp_path)

    def id_of(root, **changes):
        return run_id(override(RunConfig(), {"data.name": name, "data.root": root, **changes}))

    spellings = ("here", "here/", "./here", "a/../here", "/b/here", str(tmp_path / "here"))
    assert len({id_of(root, **{"data.download": True}) for root in spellings}) == 1
    assert len({id_of(root) for root in ("here", "there", "here/there/..", "here/x", ".", "here-2")}) == (
        5 if name == "imagefolder" else 1
    )
    assert len({id_of("here", **{"data.img_size": side}) for side in (8, 16)}) == 2


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
_001 = settings("""
data: {name: cifar10, hflip: true, rrc_scale: 0.8, normalize: half, img_size: null}
model: {patch_size: 4, embed_dim: 48, depth: 4, num_heads: 4, mlp_ratio: 4.0, act: gelu-tanh, qkv_bias: true, attn: fused,
  norm: pre, final_norm: false, pos_embed: learned-1d, pool: cls, head: logits, init: bert-0.02, pos_drop_rate: 0.0,
  attn_drop_rate: 0.0, proj_drop_rate: 0.0, mlp_drop_rate: 0.0}
optim: {name: adamw, lr: 0.01, weight_decay: 0.01, schedule: constant, grad_clip_norm: 0.0}
train: {batch_size: 256, epochs: 100, label_smoothing: 0.0}
""")
_002 = _001 | settings("""
model: {pos_drop_rate: 0.1, attn_drop_rate: 0.1, proj_drop_rate: 0.1, mlp_drop_rate: 0.1}
optim: {lr: 0.001}
train: {epochs: 15}
""")
_003 = settings("""
data: {name: mnist, hflip: false, rrc_scale: 1.0, normalize: unit}
model: {patch_size: 4, embed_dim: 8, depth: 2, num_heads: 2, mlp_ratio: 4.0, act: gelu, qkv_bias: true, attn: sliced,
  norm: pre, final_norm: false, pos_embed: sinusoidal, pool: cls, head: softmax, init: torch}
optim: {name: adam, lr: 0.005, weight_decay: 0.0, schedule: constant, grad_clip_norm: 0.0}
train: {batch_size: 128, epochs: 5}
""")
# examples/main.py (its defaults, and CIFAR10Policy), vit_6 in src/vit.py, and src/utils/transformers.py
_lite = settings("""
data: {name: cifar10, hflip: true, rrc_scale: 1.0, crop_padding: 4, autoaugment: cifar10, normalize: dataset, img_size: null,
  randaugment: false, mixup: 0.0, cutmix: 0.0, random_erasing: 0.0}
model: {patch_size: 4, embed_dim: 256, depth: 6, num_heads: 4, mlp_ratio: 2.0, act: gelu, qkv_bias: false, attn: fused,
  pos_embed: learned-1d, pos_std: 0.2, pool: cls, head: logits, class_token: true, final_norm: true, pos_drop_rate: 0.0,
  attn_drop_rate: 0.1, proj_drop_rate: 0.0, mlp_act_drop_rate: 0.0, mlp_drop_rate: 0.0, drop_path_rate: 0.1}
optim: {name: adamw, lr: 0.0005, weight_decay: 0.03, schedule: cosine, warmup_epochs: 5, min_lr: 0.0, grad_clip_norm: 0.0}
train: {batch_size: 128, epochs: 200, label_smoothing: 0.1}
""")
# the model of 004; the training of arXiv 2010.11929, Table 3, with the exceptions that the preset lists
_004 = settings("""
data: {name: imagefolder, img_size: 224, normalize: half}
model: {patch_size: 16, embed_dim: 768, depth: 12, num_heads: 12, mlp_ratio: 4.0, act: gelu, pos_embed: learned-1d, pool: cls,
  pos_drop_rate: 0.1, mlp_act_drop_rate: 0.1, mlp_drop_rate: 0.1, norm: pre, final_norm: true}
optim: {name: adamw, lr: 0.001, weight_decay: 0.1, schedule: cosine, warmup_epochs: 5, grad_clip_norm: 1.0}
train: {batch_size: 512, epochs: 300}
""")


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("tintn-cifar10", _001),
        ("lodha-cifar10", _002),
        ("owen-cifar10", {**_001, "train.epochs": 50}),
        ("pulfer-mnist", _003),
        ("vit-lite-6-4", _lite),
        ("vit-lite-7-4", {**_lite, "model.depth": 7}),
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


@pytest.mark.parametrize("none", ["none", "None", "null", None])
def test_none_unsets_optional_settings(none):
    config = override(preset("vit-b16"), {"data.name": "cifar10", "data.num_classes": none, "data.img_size": none})
    assert (config.data.num_classes, config.data.img_size) == (None, None)
    with pytest.raises(
        UserError, match=f"model.depth: {none!r} is not allowed" if none else "model.depth: none is not"
    ):
        override(config, {"model.depth": none})


REFUSED = [  # changes -> words in the message: the setting, the value, what is allowed
    ({"model.pos_embd": "none"}, ["model.pos_embd", "did you mean 'model.pos_embed'?"]),
    ({"model.pos_embed": "sinusodal"}, ["model.pos_embed", "'sinusodal'", "did you mean 'sinusoidal'?", "learned-2d"]),
    ({"data.root": ""}, ["data.root: '' is not allowed", ". is the current one"]),
    ({"model.depth": "deep"}, ["model.depth", "'deep'", "integer"]),
    ({"model.depth": True}, ["model.depth: true", "expected a number, got a boolean"]),
    ({"data.name": "imagefolder", "eval.fewshot": "cifar10"}, ["eval.fewshot: cifar10 is not allowed for imagefolder"]),
    ({"optim.min_lr": 0.1}, ["optim.min_lr: 0.1 is not allowed: up to lr, 0.001"]),
    ({"optim.name": "lion"}, ["optim.name", "'lion'", "'adamw', 'adam' or 'sgd'"]),
    ({"data.split_seed": 2**31}, ["data.split_seed: ", str(2**31), "less than", "or 'per-seed'"]),
    ({"model.patch_size": 3}, ["model.patch_size: 3", "8 px"]),
    ({"data.crop_padding": 2, "data.rrc_scale": 0.5}, ["data.rrc_scale", "crop_padding"]),
    ({"data.autoaugment": "cifar10", "data.randaugment": True}, ["data.autoaugment", "randaugment", "not both"]),
    ({"data.num_classes": 7}, ["data.num_classes", "7", "digits"]),
    ({"data.crop_padding": 8}, ["data.crop_padding: 8", "8 px"]),
    ({"data.shuffle_patches": True, "data.crop_padding": 1}, ["data.crop_padding: 1", "shuffle_patches", "allowed: 0"]),
    ({"eval.fewshot": "cifar10"}, ["eval.fewshot: cifar10 has 3 channel(s), and digits 1"]),
    ({"eval.fewshot": "other-classes"}, ["eval.fewshot: other-classes is not allowed without data.classes"]),
    ({"data.classes": "3"}, ["data.classes: 3 is not allowed: expected at least two"]),
    ({"data.name": "probe-where", "data.classes": "1,2"}, ["data.classes: ", "is not allowed for probe-where"]),
    ({"eval.fewshot": "imagefolder"}, ["eval.fewshot: imagefolder is allowed only where it is also data.name"]),
    ({"eval.fewshot": "digits", "eval.shots": ""}, ["eval.shots: is empty"]),
    ({"eval.shots": "1,five"}, ["eval.shots: '1,five' is not allowed: expected whole numbers from 1, such as"]),
    ({"eval.epochs": "2"}, ["eval.epochs: 2 is not allowed with optim.schedule cosine"]),
    ({"eval.epochs": "31", "optim.schedule": "constant"}, ["eval.epochs: 31 is not allowed: up to train.epochs, 30"]),
    ({"eval.img_sizes": "9"}, ["eval.img_sizes: 9 is not allowed: a multiple of model.patch_size, 2"]),
    ({"eval.img_sizes": "4", "data.shuffle_patches": True}, ["eval.img_sizes: is not allowed with data.shuffle"]),
    ({"eval.max_shift": 8}, ["eval.max_shift: 8 is not allowed: less than the image side, 8 px"]),
    ({"data.name": "probe-where", "model.patch_size": 4}, ["model.patch_size: 4 is not the cell size", "allowed: 2"]),
    ({"data.name": "probe-where", "data.hflip": True}, ["data.hflip: true is not allowed for probe-where", ": false"]),
]


@pytest.mark.parametrize(("changes", "words"), REFUSED, ids=[str(changes) for changes, _ in REFUSED])
def test_bad_value_gives_one_line(changes, words):
    line = refusal(override, RunConfig(), changes)
    assert "\n" not in line
    assert [word for word in words if word not in line] == []


@pytest.mark.parametrize("tree", [{"model": 3}, {"modle": {}}, {"model": {"depht": 2}}, [1], "x"])
def test_invalid_tree_is_refused(tree):
    with pytest.raises(UserError):
        load(tree)


def test_every_setting_can_be_set_to_its_own_default():
    assert override(RunConfig(), {path: setting.default for path, setting in SETTINGS.items()}) == RunConfig()


def test_runs_of_different_splits_are_not_one_cohort():
    for split, together in ((0, True), ("per-seed", False)):
        first, other = (override(RunConfig(), {"data.split_seed": split, "seed": seed}) for seed in (0, 1))
        assert (cohort_key(first) == cohort_key(other)) == together


def test_a_tilde_is_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert override(RunConfig(), {"data.root": "~/x"}).data.root == f"{tmp_path}/x"


OF_0_1_0 = {"init_from": None, "init_weights": None}  # exports in analysis/reference have them


def test_settings_that_were_removed_change_nothing_where_they_had_no_effect():
    config = override(RunConfig(), {"model.depth": 3})
    earlier = {**config.model_dump(), **OF_0_1_0}
    assert load(earlier) == config and completed(earlier) == config.model_dump()
    assert changed_settings(earlier) == changed_settings(config.model_dump()) == {"model.depth": 3}
