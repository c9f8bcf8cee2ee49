"""How far each parameter moves in training, against float64: losses hardly show a wrong gradient.

No assertions here.
"""

import tiny
import torch
from torch import Tensor

from experiments.config import RunConfig, override
from experiments.data import loading
from experiments.training.fit import fit
from experiments.training.stacked import Stacked
from experiments.training.trainer import Solo

CPU = torch.device("cpu")
TOLERANCE = {"float64": 1e-6, "float32": 5e-3, "bfloat16": 0.15}  # of `errors`; a gradient that is missing gives 1
SHAPES = {  # digits have 8 x 8 pixels
    "17 tokens, width 4": {"model__embed_dim": 8, "model__num_heads": 2},
    "65 tokens, width 12": {"model__patch_size": 1, "model__embed_dim": 24, "model__num_heads": 2},
    "65 tokens, width 24": {"model__patch_size": 1, "model__embed_dim": 48, "model__num_heads": 2},
}


FLAGS: tuple[dict[str, object], ...] = (
    {"model__norm_layer": "rmsnorm"},
    {"model__mlp": "swiglu"},
    {"model__mlp": "swiglu", "model__layer_scale": 0.1},
    {"model__qk_norm": True, "model__norm_layer": "rmsnorm"},  # the bias of a norm of keys moves nothing
    {"model__norm": "post"},
    {"model__reg_tokens": 2},
    {"model__pool": "map"},
    {"model__stem": "conv"},
    {"model__qkv_bias": False, "model__attn_drop_rate": 0.1, "model__drop_path_rate": 0.1},
    {"model__attn": "sliced", "model__head": "mlp"},
    {"data__mixup": 0.8, "data__cutmix": 1.0, "data__random_erasing": 0.5},
)


def config(kind: str, precision: str, shape: str, seed: int = 0, **flags: object) -> RunConfig:
    """Six steps of SGD, whose movement is the sum of the gradients (Adam's is that of their signs)."""
    changes = {**SHAPES[shape], "model__pos_embed": kind, "train__precision": precision, "model__depth": 2, **flags}
    sgd = {"optim__name": "sgd", "optim__momentum": 0.0, "optim__lr": 0.05, "optim__schedule": "constant"}
    return tiny.config(seed=seed, data__hflip=True, model__pos_drop_rate=0.1, train__epochs=2, **changes, **sgd)


def movements(configs: list[RunConfig], device: torch.device) -> list[dict[str, Tensor]]:
    """The change of each parameter of each run, float64 on the CPU."""
    splits = loading.load(configs[0]).to(device)
    trainer = tiny.trainer(configs, device)
    begin = _weights(trainer)
    list(fit(trainer, splits))
    return [{n: last[n] - first[n] for n in first} for first, last in zip(begin, _weights(trainer), strict=True)]


def _weights(trainer: Solo | Stacked) -> list[dict[str, Tensor]]:
    runs = range(len(trainer.configs))
    return [{name: t.to(CPU, torch.float64, copy=True) for name, t in trainer.weights(r).items()} for r in runs]


def errors(configs: list[RunConfig], device: torch.device) -> dict[str, float]:
    """For each parameter the largest error of its movement over the runs, relative to the movement in float64 on the
    CPU.

    The divisor is at least a thousandth of the largest movement.
    """
    exact = movements([override(config, {"train.precision": "float64"}) for config in configs], CPU)
    found: dict[str, float] = {}
    for ours, theirs in zip(movements(configs, device), exact, strict=True):
        sizes = {name: float(t.norm()) / t.numel() ** 0.5 for name, t in theirs.items()}
        floor = max(sizes.values()) * 1e-3
        for name, t in theirs.items():
            error = float((ours[name] - t).norm()) / t.numel() ** 0.5 / max(sizes[name], floor)
            found[name] = max(found.get(name, 0.0), error)
    return found
