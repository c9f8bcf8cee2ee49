"""Named configurations: our own, and one for each published system with the accuracy it reports. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from experiments.config import RunConfig, override
from experiments.errors import UserError
from vit.registry import nearest


@dataclass(frozen=True)
class Preset:
    """A named configuration: `changes` to `RunConfig()`.

    `source` is the publication, `claim` its test accuracy as a fraction, `scored` how that was measured.
    """

    about: str
    changes: dict[str, Any] = field(default_factory=dict)
    source: str = ""
    claim: float | None = None
    scored: str = ""


_TINTN = {
    "data.name": "cifar10",
    "data.val_fraction": 0.02,  # the sources have no validation set, so it is small
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


_ONE_RUN = "published accuracy: one unseeded run, test set"
PRESETS: dict[str, Preset] = {
    "digits": Preset(
        "scikit-learn's digits: seconds on one core, nothing to download (the default)",
        {"model.init": "torch", "optim.lr": 5e-3, "optim.warmup_epochs": 2},
    ),
    "mnist-small": Preset("MNIST: one minute on one core", _MNIST_SMALL),
    "cifar10-small": Preset("CIFAR-10, for a GPU", _CIFAR_SMALL),
    "pulfer-mnist": Preset(
        "MNIST: sliced heads, sinusoidal embedding, softmax before the loss",
        _PULFER,
        "B. Pulfer, Vision Transformers from Scratch (PyTorch), 2022",
        0.7885,
        _ONE_RUN + " after 5 epochs",
    ),
    "tintn-cifar10": Preset(
        "CIFAR-10: width 48, depth 4, tanh-GELU, AdamW with learning rate 1e-2",
        _TINTN,
        "tintn, Implementing Vision Transformer (ViT) from Scratch, 2023",
        0.755,
        _ONE_RUN + " after 100 epochs",
    ),
    "lodha-cifar10": Preset(
        "as tintn-cifar10, with dropout 0.1, learning rate 1e-3 and 15 epochs",
        _LODHA,
        "D. Lodha, Vision Transformer, bare-bones-ml, 2025",
        0.556,
        _ONE_RUN + " after 15 epochs, in its notebook",
    ),
    "owen-cifar10": Preset(
        "as tintn-cifar10 with 50 epochs; the source does not state depth, heads, MLP width, dropout, optimizer and "
        "augmentation",
        {**_TINTN, "train.epochs": 50},
        "Owen, 2025",
        0.64,
        _ONE_RUN + "; the source states both 50 and 100 epochs",
    ),
    "vit-b16": Preset(
        "ViT-B/16 at 224 px with a linear head (the source has a tanh head: --model.head mlp). Training as in the paper, "
        "except AdamW, batch size 512, learning rate 1e-3, weight decay 0.1, 5 warm-up epochs, no dropout after the "
        "attention projection, and crops of centred squares",
        _imagenet(768, 12),
        "Sharma, 2023, after arXiv 2010.11929 (which reports no accuracy for this recipe on ImageNet-1k)",
    ),
    "vit-s16": Preset("as vit-b16, with ViT-S/16", _imagenet(384, 6), "Steiner et al., arXiv 2106.10270"),
    "vit-ti16": Preset("as vit-b16, with ViT-Ti/16", _imagenet(192, 3), "Touvron et al., arXiv 2012.12877"),
}


def preset(name: str) -> RunConfig:
    """The configuration of a preset. Raises `UserError` for an unknown name."""
    if name not in PRESETS:
        raise UserError(f"preset: {name!r} is not known; {nearest(name, PRESETS)}")
    return override(RunConfig(), PRESETS[name].changes)
