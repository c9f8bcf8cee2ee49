"""Named configurations: our own, and one for each published system with the accuracy it reports. Imports no torch."""

from dataclasses import dataclass, field
from typing import Any

from experiments.config import RunConfig, flatten, override
from experiments.errors import UserError
from experiments.yaml_file import parse_yaml
from vit.registry import nearest


@dataclass(frozen=True)
class Preset:
    """A named configuration: `changes` to `RunConfig()`.

    `source` is the publication, `claim` its test accuracy as a fraction, `scored` how that was measured. `measured` is
    our own test accuracy, of the runs with these settings in analysis/reference.
    """

    about: str
    changes: dict[str, Any] = field(default_factory=dict)
    source: str = ""
    claim: float | None = None
    scored: str = ""
    measured: str = ""


def _settings(text: str) -> dict[str, Any]:
    """Settings by dotted path, from YAML by section."""
    return dict(flatten(parse_yaml(text.encode(), "presets")))


_TINTN = _settings("""
  data: {name: cifar10, val_fraction: 0.02, normalize: half, hflip: true, rrc_scale: 0.8}
  model: {patch_size: 4, embed_dim: 48, depth: 4, num_heads: 4, act: gelu-tanh, final_norm: false, init: bert-0.02}
  optim: {lr: 0.01, weight_decay: 0.01, schedule: constant}
  train: {batch_size: 256, epochs: 100}
""")  # the sources have no validation set, so it is small
_LODHA = _TINTN | _settings("""
  model: {pos_drop_rate: 0.1, attn_drop_rate: 0.1, proj_drop_rate: 0.1, mlp_drop_rate: 0.1}
  optim: {lr: 0.001}
  train: {epochs: 15}
""")
_PULFER = _settings("""
  data: {name: mnist, val_fraction: 0.02, normalize: unit}
  model: {patch_size: 4, embed_dim: 8, depth: 2, num_heads: 2, attn: sliced, pos_embed: sinusoidal, head: softmax,
    final_norm: false, init: torch}
  optim: {name: adam, lr: 0.005, weight_decay: 0.0, schedule: constant}
  train: {batch_size: 128, epochs: 5}
""")
_CIFAR_SMALL = _settings("""
  data: {name: cifar10, hflip: true, crop_padding: 4}
  model: {patch_size: 4, embed_dim: 96, depth: 6, num_heads: 4, mlp_ratio: 2.0}
  optim: {lr: 0.001, weight_decay: 0.05, warmup_epochs: 5}
  train: {batch_size: 256, epochs: 100}
""")
# SHI-Labs/Compact-Transformers: examples/main.py has the recipe, src/vit.py (vit_6, vit_7) and
# src/utils/transformers.py have the model. They have no validation set, so it is small.
_VIT_LITE = _settings("""
  data: {name: cifar10, val_fraction: 0.02, hflip: true, crop_padding: 4, autoaugment: cifar10}
  model: {patch_size: 4, embed_dim: 256, depth: 6, num_heads: 4, mlp_ratio: 2.0, qkv_bias: false, pos_std: 0.2,
    attn_drop_rate: 0.1, drop_path_rate: 0.1}
  optim: {lr: 0.0005, weight_decay: 0.03, warmup_epochs: 5}
  train: {batch_size: 128, epochs: 200, label_smoothing: 0.1, precision: bfloat16, compile: default}
""")
_MNIST_SMALL = _settings("""
  data: {name: mnist}
  model: {patch_size: 7, embed_dim: 32, depth: 3, num_heads: 4, init: torch}
  optim: {lr: 0.01, warmup_epochs: 1}
  train: {batch_size: 256, epochs: 5}
""")
_IMAGENET = _settings("""
  data: {name: imagefolder, root: imagenet, img_size: 224, num_classes: 1000, hflip: true, rrc_scale: 0.08,
    normalize: half}
  model: {patch_size: 16, depth: 12, pos_drop_rate: 0.1, mlp_act_drop_rate: 0.1, mlp_drop_rate: 0.1}
  optim: {lr: 0.001, weight_decay: 0.1, warmup_epochs: 5, grad_clip_norm: 1.0}
  train: {batch_size: 512, epochs: 300}
""")


def _imagenet(embed_dim: int, num_heads: int) -> dict[str, Any]:
    return {**_IMAGENET, "model.embed_dim": embed_dim, "model.num_heads": num_heads}


_CCT = "A. Hassani et al., Escaping the Big Data Paradigm with Compact Transformers, arXiv 2104.05704"
_NOT_CCT = (
    "Not as in its code: the MLP is added to the tokens before its norm, biases, norms, tokens and positions have no "
    "weight decay, 2 % of the training images are for validation, the rate changes with each step, AutoAugment fills "
    "with black, the patch projection starts as in PyTorch"
)
_ONE_RUN = "published accuracy: one unseeded run, test set"
PRESETS: dict[str, Preset] = {
    "digits": Preset(
        "scikit-learn's digits: seconds on one core, nothing to download (the default)",
        {"model.init": "torch", "optim.lr": 5e-3, "optim.warmup_epochs": 2},
        measured="96.06 % (5 runs, CPU)",
    ),
    "mnist-small": Preset("MNIST: one minute on one core", _MNIST_SMALL),
    "cifar10-small": Preset("CIFAR-10, for a GPU", _CIFAR_SMALL),
    "pulfer-mnist": Preset(
        "MNIST: sliced heads, sinusoidal embedding, softmax before the loss",
        _PULFER,
        "B. Pulfer, Vision Transformers from Scratch (PyTorch), 2022",
        0.7885,
        "published accuracy: one run, torch seed 0, test set after 5 epochs",
        measured="73.71 % (5 runs, CPU)",
    ),
    "tintn-cifar10": Preset(
        "CIFAR-10: width 48, depth 4, tanh-GELU, AdamW with learning rate 1e-2",
        _TINTN,
        "tintn, Implementing Vision Transformer (ViT) from Scratch, 2023",
        0.755,
        _ONE_RUN + " after 100 epochs",
        measured="74.32 % (5 runs, CPU)",
    ),
    "lodha-cifar10": Preset(
        "as tintn-cifar10, with dropout 0.1, learning rate 1e-3 and 15 epochs",
        _LODHA,
        "D. Lodha, Vision Transformer, bare-bones-ml, 2025",
        0.556,
        _ONE_RUN + " after 15 epochs, in its notebook; the text gives no figure",
        measured="56.06 % (5 runs, CPU)",
    ),
    "owen-cifar10": Preset(
        "as tintn-cifar10 with 50 epochs; the source does not state depth, heads, MLP width, dropout, optimizer and "
        "augmentation",
        {**_TINTN, "train.epochs": 50},
        "Owen, 2025",
        0.64,
        _ONE_RUN + "; the source states both 50 and 100 epochs",
        measured="71.05 % (3 runs, CPU)",
    ),
    "vit-lite-6-4": Preset(
        f"CIFAR-10, for a GPU: ViT-Lite-6/4. {_NOT_CCT}",
        _VIT_LITE,
        _CCT,
        0.9094,
        "published accuracy: test set, after 200 epochs; the code prints the best epoch",
    ),
    "vit-lite-7-4": Preset(
        "as vit-lite-6-4, with 7 layers",
        {**_VIT_LITE, "model.depth": 7},
        _CCT,
        0.9138,
        "published accuracy: as for vit-lite-6-4",
    ),
    "vit-b16": Preset(
        "ViT-B/16 at 224 px with a linear head (the source has a tanh head: --model.head mlp). Training as in the "
        "paper, except AdamW, batch size 512, learning rate 1e-3, weight decay 0.1, 5 warm-up epochs, no dropout "
        "after the attention projection, and crops of centred squares",
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
