"""Runs give the same results alone and in a cohort, in any order; the sizes of cohorts, also after an interruption."""

import os
import shutil
from functools import cache

import pytest
import tiny
import torch

from experiments.compared import RunSpec
from experiments.config import RunConfig, cohort_key, override
from experiments.data import loading
from experiments.runs import run as run_module
from experiments.runs.provenance import model_cost
from experiments.runs.run import cohort_sizes, train
from experiments.training.fit import evaluate, fit
from experiments.training.stacked import Stacked
from experiments.training.trainer import Solo
from vit.config import ViTConfig
from vit.pos_embed import Additive
from vit.registry import REGISTRY, Kind

TINY = {
    "data.train_limit": 120,
    "model.embed_dim": 16,
    "model.num_heads": 2,
    "train.epochs": 2,
    "train.batch_size": 50,
    "optim.lr": 5e-3,
    "model.init": "torch",
}
DROPOUT = {
    "model.pos_drop_rate": 0.1,
    "model.attn_drop_rate": 0.1,
    "model.mlp_drop_rate": 0.2,
    "model.drop_path_rate": 0.2,
}
AUGMENTED = {"data.hflip": True, "data.crop_padding": 1, "data.random_erasing": 0.3, "data.mixup": 1, "data.cutmix": 1}
# float32: Adam's first steps amplify rounding, because they follow the signs of gradients
TOLERANCE = {"float64": 1e-5, "float32": 2e-3}


def config(seed: int, **changes: object) -> RunConfig:
    return override(RunConfig(), {**TINY, "seed": seed, **changes})


@cache
def splits() -> loading.Splits:
    return loading.load(config(0))


def metrics(trainer: Solo | Stacked) -> list[dict[str, float]]:
    """The last row and the test metrics of each run after training."""
    *_, rows = fit(trainer, splits())
    tests = evaluate(trainer, splits(), splits().test)
    return [{**row, "test/loss": test.loss, "test/acc": test.accuracy} for row, test in zip(rows, tests, strict=True)]


def assert_same(alone: dict, together: dict, tolerance: float) -> None:
    assert alone.keys() == together.keys()
    for key in alone:
        assert together[key] == pytest.approx(alone[key], abs=tolerance, rel=0), key


@pytest.mark.parametrize("kind", REGISTRY)
def test_every_variant_alone_and_in_a_cohort_in_another_order(kind):
    changes = {"model.pos_embed": kind, "train.precision": "float64", **DROPOUT, **AUGMENTED}
    configs = [config(seed, **changes) for seed in range(3)]
    alone = [metrics(tiny.trainer([c]))[0] for c in configs]
    for run, together in zip((2, 0, 1), metrics(tiny.trainer([configs[i] for i in (2, 0, 1)])), strict=True):
        assert_same(alone[run], together, TOLERANCE["float64"])


@pytest.mark.parametrize(
    "model",
    [
        {"model.pool": "map", "model.head": "mlp"},
        {"model.attn": "sliced", "model.norm": "post", "model.head": "softmax"},
        {"model.reg_tokens": 2, "model.head": "mlp"},
        {"model.stem": "conv", "model.head": "softmax"},
        {"model.norm_layer": "rmsnorm", "model.qk_norm": True, "model.pos_embed": "rope-2d"},
        {"model.mlp": "swiglu", "model.mlp_act_drop_rate": 0.1, "model.layer_scale": 0.1},
        {"model.pos_embed": "cpe", "model.pos_site": "after-first-layer"},
    ],
)
def test_every_part_of_the_model_stacks(model):
    configs = [config(seed, **{**model, "train.precision": "float64"}) for seed in range(2)]
    for c, together in zip(configs, metrics(tiny.trainer(configs)), strict=True):
        assert_same(metrics(tiny.trainer([c]))[0], together, TOLERANCE["float64"])


class HalfFrozen(Additive):
    """A plug-in with a frozen parameter, a random non-persistent buffer and an unused parameter."""

    def __init__(self, cfg: ViTConfig) -> None:
        super().__init__(cfg)
        self.frozen = torch.nn.Parameter(torch.randn(cfg.grid_size**2, cfg.embed_dim), requires_grad=False)
        self.register_buffer("sampled", torch.randn(cfg.embed_dim), persistent=False)
        self.spare = torch.nn.Parameter(torch.ones(3))

    def add(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.nn.functional.pad(self.frozen * self.sampled, (0, 0, x.shape[1] - len(self.frozen), 0))


@pytest.mark.parametrize("max_norm", [0.0, 0.5])
def test_frozen_and_unused_parameters_do_not_change(max_norm, monkeypatch):
    monkeypatch.setitem(REGISTRY, "half-frozen", Kind(HalfFrozen, HalfFrozen.sites))
    changes = {"model.pos_embed": "half-frozen", "train.precision": "float64", "optim.grad_clip_norm": max_norm}
    configs = [config(seed, **changes) for seed in range(2)]
    stack = tiny.trainer(configs)
    begun = [{name: t.clone() for name, t in stack.weights(r).items()} for r in range(2)]
    for c, together in zip(configs, metrics(stack), strict=True):
        assert_same(metrics(tiny.trainer([c]))[0], together, TOLERANCE["float64"])
    for r, weights in enumerate(begun):
        kept = {name for name, t in weights.items() if torch.equal(t, stack.weights(r)[name])}
        assert kept == {"pos.0.frozen", "pos.0.spare"}
    cost = model_cost(stack.model)
    assert cost["params_fixed"] == 16 * 16  # 4 x 4 patches of width 16
    assert cost["params"] == sum(t.numel() for name, t in begun[0].items() if name != "pos.0.frozen")


def test_runs_of_different_variants_are_not_stacked():
    assert cohort_key(config(0)) == cohort_key(config(1)) != cohort_key(config(1, **{"optim.lr": 1e-2}))
    assert cohort_key(config(0)) != cohort_key(config(0, **{"model.pos_embed": "none"}))
    with pytest.raises(ValueError, match="may differ only in seed"):
        tiny.trainer([config(0), config(0, **{"model.depth": 3})])


def test_cohorts_are_as_few_and_as_even_as_the_kernels_of_a_gpu_allow():
    cuda = torch.device("cuda")
    assert cohort_sizes(10, 128, cuda) == [10]
    assert cohort_sizes(10, 8192, cuda) == [5, 5]  # 7 of them are 57,344 images; not 7 and 3
    assert cohort_sizes(2, 10**6, cuda) == [1, 1]
    assert cohort_sizes(9, 10**6, torch.device("cpu")) == [9]


def test_after_an_interruption_the_same_runs_train_together(tmp_path, monkeypatch):
    """Also where another division is now faster, and where runs were added.

    The numbers are those without interruption.
    """
    specs = [RunSpec.of(f"s{seed}", tiny.config(seed=seed)) for seed in range(6)]

    def divided(sizes):
        monkeypatch.setattr(run_module, "cohort_sizes", lambda configs, *_: sizes)

    divided([2, 2])
    train(specs[:4], tmp_path / "whole", device="cpu")
    with pytest.raises(tiny.Stop):
        # the last one of the second cohort
        train(specs[:4], tmp_path / "cut", device="cpu", on_row=tiny.stop_after(2, job=3))
    divided([1, 1])  # asked only for the two runs that were added
    found = train(specs, tmp_path / "cut", device="cpu")
    ids = [spec.run_id for spec in specs]
    assert [summary["cost"]["cohort_runs"] for summary in found] == [ids[:2]] * 2 + [ids[2:4]] * 2 + [
        [ids[4]],
        [ids[5]],
    ]
    for name in ("s0", "s1", "s2", "s3"):
        assert tiny.results(tmp_path / "cut" / name) == tiny.results(tmp_path / "whole" / name)


SMALL = {
    "model__patch_size": 4,
    "data__train_limit": 64,
    "train__epochs": 2,
    "train__precision": "float64",
    "model__pos_drop_rate": 0.1,
}


@pytest.mark.slow
@pytest.mark.parametrize("runs", [1, 2], ids=["alone", "as a cohort"])
def test_a_compiled_run_gives_the_results_of_a_plain_one(runs, tmp_path):
    if not shutil.which(os.environ.get("CXX", "g++")):
        pytest.skip("needs a C++ compiler")
    plain, fast = (
        train(
            [RunSpec.of(str(seed), tiny.config(seed=seed, train__compile=mode, **SMALL)) for seed in range(runs)],
            tmp_path / mode,
            device="cpu",
        )
        for mode in ("none", "default")
    )
    for a, b in zip(plain, fast, strict=True):
        assert {k: b[k] for k in b if "/" in k} == pytest.approx({k: a[k] for k in a if "/" in k}, abs=1e-9)
        assert a["run_id"] != b["run_id"]  # the two have different ids
