"""Named starting points: our own, and one for each published system with the figure that it claims. No torch here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from experiments.config import RunConfig, override
from experiments.errors import UserError
from vit.registry import nearest


@dataclass(frozen=True)
class Preset:
    """`changes` to `RunConfig()`; `claim` is the published test accuracy, a fraction, and `scored` how it was come by."""

    about: str
    changes: dict[str, Any] = field(default_factory=dict)
    source: str = ""
    claim: float | None = None
    scored: str = ""


_TINTN = {
    "data.name": "cifar10",
    "data.val_fraction": 0.02,  # the sources keep none; enough to watch, little enough to compare with them
    "data.normalize": "half",
    "data.hflip": True,
    "data.rrc_scale": 0.8,
    "model.patch_size": 4,
    "model.embed_dim": 48,
    "model.depth": 4,
    "model.num_heads": 4,
    "model.act": "gelu-tanh",
    "model.final_norm": False,
    "model.init": "bert-0.02",
    "optim.lr": 1e-2,
    "optim.weight_decay": 1e-2,
    "optim.schedule": "constant",
    "train.batch_size": 256,
    "train.epochs": 100,
}
_LODHA = {
    **_TINTN,
    "model.pos_drop_rate": 0.1,
    "model.attn_drop_rate": 0.1,
    "model.proj_drop_rate": 0.1,
    "model.mlp_drop_rate": 0.1,
    "optim.lr": 1e-3,
    "train.epochs": 15,
}
_PULFER = {
    "data.name": "mnist",
    "data.val_fraction": 0.02,
    "data.normalize": "unit",
    "model.patch_size": 4,
    "model.embed_dim": 8,
    "model.depth": 2,
    "model.num_heads": 2,
    "model.attn": "sliced",
    "model.pos_embed": "sinusoidal",
    "model.head": "softmax",
    "model.final_norm": False,
    "model.init": "torch",
    "optim.name": "adam",
    "optim.lr": 5e-3,
    "optim.weight_decay": 0.0,
    "optim.schedule": "constant",
    "train.batch_size": 128,
    "train.epochs": 5,
}
_CIFAR_SMALL = {
    "data.name": "cifar10",
    "data.hflip": True,
    "data.crop_padding": 4,
    "model.patch_size": 4,
    "model.embed_dim": 96,
    "model.depth": 6,
    "model.num_heads": 4,
    "model.mlp_ratio": 2.0,
    "optim.lr": 1e-3,
    "optim.weight_decay": 0.05,
    "optim.warmup_epochs": 5,
    "train.batch_size": 256,
    "train.epochs": 100,
    "train.precision": "bfloat16",
}
_MNIST_SMALL = {
    "data.name": "mnist",
    "model.patch_size": 7,
    "model.embed_dim": 32,
    "model.depth": 3,
    "model.num_heads": 4,
    "model.init": "torch",
    "optim.lr": 3e-3,
    "optim.warmup_epochs": 1,
    "train.batch_size": 256,
    "train.epochs": 5,
}


def _imagenet(embed_dim: int, num_heads: int) -> dict[str, Any]:
    return {
        "data.name": "imagefolder",
        "data.root": "imagenet",
        "data.img_size": 224,
        "data.num_classes": 1000,
        "data.hflip": True,
        "data.rrc_scale": 0.08,
        "data.normalize": "half",
        "model.patch_size": 16,
        "model.embed_dim": embed_dim,
        "model.depth": 12,
        "model.num_heads": num_heads,
        "model.pos_drop_rate": 0.1,
        "model.mlp_act_drop_rate": 0.1,
        "model.mlp_drop_rate": 0.1,
        "optim.lr": 1e-3,
        "optim.weight_decay": 0.1,
        "optim.warmup_epochs": 5,
        "optim.grad_clip_norm": 1.0,
        "train.batch_size": 512,
        "train.epochs": 300,
    }


_ONE_RUN = "one unseeded run, test set"
PRESETS: dict[str, Preset] = {
    "digits": Preset(
        "ours: scikit-learn's digits, seconds on one core; the default, for it works everywhere",
        {"model.init": "torch", "optim.lr": 5e-3, "optim.warmup_epochs": 2},
    ),
    "mnist-small": Preset("ours: MNIST, a minute on one core", _MNIST_SMALL),
    "cifar10-small": Preset("ours: CIFAR-10, for a GPU", _CIFAR_SMALL),
    "pulfer-mnist": Preset(
        "sliced heads, sinusoid, Softmax before the loss",
        _PULFER,
        "B. Pulfer, Vision Transformers from Scratch (PyTorch), 2022",
        0.7885,
        _ONE_RUN + " after 5 epochs",
    ),
    "tintn-cifar10": Preset(
        "width 48, depth 4, tanh-GELU, AdamW 1e-2",
        _TINTN,
        "tintn, Implementing Vision Transformer (ViT) from Scratch, 2023",
        0.755,
        _ONE_RUN + " after 100 epochs",
    ),
    "lodha-cifar10": Preset(
        "as tintn-cifar10, with dropout .1 and AdamW 1e-3",
        _LODHA,
        "D. Lodha, Vision Transformer, bare-bones-ml, 2025",
        0.556,
        _ONE_RUN + " after 15 epochs, in its notebook",
    ),
    "owen-cifar10": Preset(
        "depth, heads, MLP width, dropout, optimiser and augmentation unstated: taken from tintn-cifar10",
        {**_TINTN, "train.epochs": 50},
        "Owen, 2025",
        0.64,
        _ONE_RUN + '; epochs given as "50" and as "100"',
    ),
    "vit-b16": Preset(
        "ViT-B/16 at 224 px, a linear head (the source's tanh head: --model.head mlp), dropout after both MLP layers and the "
        "embedding; the paper's training, but AdamW, batch 512, lr 1e-3, decay .1, 5 epochs of warm-up, no dropout after attention's "
        "projection, crops of centred squares. Images are kept decoded: ImageNet-1k itself needs 180 GiB",
        _imagenet(768, 12),
        "Sharma, 2023, after arXiv 2010.11929 (which claims no figure for training on ImageNet-1k with this recipe)",
    ),
    "vit-s16": Preset("ViT-S/16, otherwise as vit-b16", _imagenet(384, 6), "Steiner et al., arXiv 2106.10270"),
    "vit-ti16": Preset("ViT-Ti/16, otherwise as vit-b16", _imagenet(192, 3), "Touvron et al., arXiv 2012.12877"),
}


def preset(name: str) -> RunConfig:
    """The configuration of a preset. Raises `UserError` for a name that is not one."""
    if name not in PRESETS:
        raise UserError(f"preset: {name!r} is not known; {nearest(name, list(PRESETS))}")
    return override(RunConfig(), PRESETS[name].changes)
