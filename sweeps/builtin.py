"""The built-in studies, as data; and how a study is loaded by name or path."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from experiments.data.catalogue import DATASETS
from experiments.errors import UserError
from experiments.presets import PRESETS, preset
from experiments.study import STUDY
from sweeps.study import Study, read_study_file
from vit.registry import REGISTRY, nearest

# These settings were chosen on the validation images of split_seed 0; the study uses another split, on which nothing was
# chosen. A fixed penalty learns at small rates and small tables at large ones: a long warm-up suits both. Without
# clipping, a spike of the loss sometimes undoes what was learned.
PROBE_BASE = {
    "preset": "digits",
    "data.split_seed": 3,
    "model.num_heads": 8,
    "model.pool": "gap",
    "optim.lr": 3e-3,
    "optim.warmup_epochs": 20,
    "optim.grad_clip_norm": 1.0,
    "train.epochs": 100,
}
HIDDEN = "model.pos_drop_rate+model.proj_drop_rate+model.mlp_drop_rate"
TABLE_8 = {
    "model.pos_embed+model.pos_site": [
        ["none", "stem"],
        ["learned-1d", "stem"],
        ["learned-1d", "every-layer"],
        ["learned-1d", "every-layer-shared"],
        ["learned-2d", "stem"],
        ["learned-2d", "every-layer"],
        ["learned-2d", "every-layer-shared"],
        ["relative", "every-layer"],
    ]
}
SMALL_MNIST = {"preset": "mnist-small", "data.train_limit": 10_000, "data.val_fraction": 0.02, "eval.fewshot": "mnist"}
# Table 8 on MNIST in bfloat16 is equivalent to float32 within 0.1 points (analysis/reference/bfloat16).
SMALL_MNIST_BF16 = {**SMALL_MNIST, "train.epochs": 10, "train.precision": "bfloat16"}
# A run takes minutes on one core. The learning rate was chosen on the validation images of split_seed 1: 3e-3 against 1e-3.
SMALL_CIFAR_BF16 = {
    "preset": "cifar10-small",
    "model.patch_size": 8,
    "model.embed_dim": 64,
    "model.depth": 4,
    "optim.lr": 3e-3,
    "optim.warmup_epochs": 1,
    "train.epochs": 10,
    "train.precision": "bfloat16",
    "eval.fewshot": "cifar10",
}
CIFAR_64 = {
    "preset": "cifar10-small",
    "model.embed_dim": 64,
    "model.depth": 4,
    "optim.warmup_epochs": 3,
    "optim.grad_clip_norm": 1.0,
    "train.batch_size": 128,
    "train.epochs": 50,
}
SMALL_CIFAR = {**SMALL_CIFAR_BF16, "train.precision": "float32", "eval.img_sizes": "16,24,48,64"}


def _over_all_kinds(name: str, description: str, base: dict[str, Any]) -> Study:
    factors = {"model.pos_embed": list(REGISTRY)}
    return Study(name=name, description=description, factors=factors, baseline="none", base=base)


def _kind_x_site() -> Study:
    """Every kind that can be added both at the stem and before every layer, at both; and shared where it can be."""
    sites, shared = ["stem", "every-layer"], "every-layer-shared"
    kinds = [name for name, kind in REGISTRY.items() if set(sites) <= set(kind.sites)]
    return Study(
        name="kind-x-site",
        description="What matters: the kind of positional embedding, or the site where it enters?",
        factors={"model.pos_embed": kinds, "model.pos_site": sites},
        extra=[
            {"model.pos_embed": "none"},
            *({"model.pos_embed": kind, "model.pos_site": shared} for kind in kinds if shared in REGISTRY[kind].sites),
        ],
        baseline={"model.pos_embed": "none"},
    )


STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        Study(
            name="position",
            description="Does the positional embedding matter, and which one?",
            factors={"model.pos_embed": ["none", "sinusoidal", "learned-1d", "learned-2d"]},
            baseline="none",
        ),
        Study(
            name="head",
            description="How much accuracy is lost when cross-entropy gets probabilities instead of logits?",
            factors={"model.head": ["logits", "softmax"]},
            baseline="logits",
        ),
        Study(
            name="dropout",
            description="Does dropout help: on the embedding and the branches, or on the attention weights?",
            factors={HIDDEN: [[0.0] * 3, [0.1] * 3, [0.2] * 3], "model.attn_drop_rate": [0.0, 0.1]},
            names={HIDDEN: "hidden", "model.attn_drop_rate": "attention"},
        ),
        Study(name="depth", description="How many layers are enough?", factors={"model.depth": [1, 2, 4, 6]}),
        Study(
            name="table-8",
            description="Table 8 of arXiv 2010.11929: three positional embeddings at three sites, and none.",
            factors=TABLE_8,
        ),
        Study(
            name="table-8-lengths",
            description="Do the differences in Table 8 shrink with training? MNIST, a constant learning rate.",
            factors=TABLE_8,
            baseline="learned-1d, stem",
            # the preset's learning rate, 3e-3, is better on validation images than 1e-3
            base={**SMALL_MNIST, "optim.schedule": "constant", "train.epochs": 40, "eval.epochs": "5,10,20,40"},
        ),
        Study(
            name="table-8-sizes",
            description="Do the differences in Table 8 shrink with more training images? MNIST.",
            factors={**TABLE_8, "data.train_limit": [1000, 3000, 10_000]},
            baseline={"model.pos_embed+model.pos_site": ["learned-1d", "stem"], "data.train_limit": 10_000},
            base={**{k: v for k, v in SMALL_MNIST.items() if k != "data.train_limit"}, "train.epochs": 20},
        ),
        Study(
            name="table-8-cifar10",
            description="Table 8 of arXiv 2010.11929 on CIFAR-10, small enough for a CPU: also few-shot and at other sizes.",
            factors=TABLE_8,
            baseline="learned-1d, stem",
            base=SMALL_CIFAR,
        ),
        Study(
            name="table-8-tuned",
            description="Table 8 on CIFAR-10 at a constant rate, for `vit-sweep tune`: each cell with settings of its own.",
            factors=TABLE_8,
            baseline="learned-1d, stem",
            base={
                **SMALL_CIFAR_BF16,
                "optim.warmup_epochs": 0,
                "optim.schedule": "constant",
                "train.epochs": 25,
                "eval.epochs": "10,25",
            },
        ),
        Study(
            name="table-8-64",
            description="Table 8 of arXiv 2010.11929 on CIFAR-10 with 64 tokens, for the rates that table-8-64-rates finds.",
            factors=TABLE_8,
            baseline="learned-1d, stem",
            base={
                **CIFAR_64,
                "eval.fewshot": "cifar10",
                "eval.shots": "5",
                "eval.img_sizes": "40,48,64",
                "eval.max_shift": 2,
            },
            looks=[3, 5],
        ),
        Study(
            name="table-8-64-rates",
            description="The learning rate of each cell of table-8-64, by validation accuracy after a short training.",
            factors={"optim.lr": [2e-3, 1e-3, 4e-3, 5e-4, 8e-3], **TABLE_8},  # the middle first
            base={**CIFAR_64, "optim.warmup_epochs": 1, "train.epochs": 5},
            metric="val/acc",
            seeds=[100],
        ),
        Study(
            name="stem-x-kind",
            description="Does a convolutional stem make the positional embedding optional (CCT, arXiv 2104.05704)? MNIST.",
            factors={"model.stem": ["patchify", "conv"], "model.pos_embed": ["none", "learned-1d", "sincos-2d"]},
            base={**SMALL_MNIST_BF16, "model.patch_size": 4},
            seeds=10,
        ),
        Study(
            name="stem-x-lr",
            description="Is a convolutional stem less sensitive to the learning rate (arXiv 2106.14881)? MNIST.",
            factors={"model.stem": ["patchify", "conv"], "optim.lr": [1e-3, 3e-3, 1e-2, 3e-2]},
            base={**SMALL_MNIST_BF16, "model.patch_size": 4},
        ),
        Study(
            name="pool-x-lr",
            description="Do class token and mean pooling need different learning rates (arXiv 2010.11929, D.3)? MNIST.",
            factors={"model.pool": ["cls", "gap"], "optim.lr": [3e-4, 1e-3, 3e-3, 1e-2, 3e-2]},
            base=SMALL_MNIST_BF16,
        ),
        Study(
            name="registers",
            description="Do register tokens help a small model (Darcet et al. 2024)? MNIST.",
            factors={"model.reg_tokens": [0, 1, 4]},
            base=SMALL_MNIST_BF16,
            seeds=10,
        ),
        Study(
            name="table-std",
            description="Does a small initial table generalise better (arXiv 2406.08272)? MNIST.",
            factors={"model.pos_embed": ["learned-1d", "learned-2d"], "model.pos_std": [0.002, 0.02, 0.2, 1.0]},
            baseline={"model.pos_embed": "learned-1d", "model.pos_std": 0.02},
            base=SMALL_MNIST_BF16,
        ),
        Study(
            name="kinds-cifar10",
            description="Which positional embedding, each at its natural site? CIFAR-10, small enough for a CPU.",
            factors={"model.pos_embed": ["none", "learned-1d", "sincos-2d", "rope-2d", "relative-2d-kv"]},
            baseline="learned-1d",
            base={**SMALL_CIFAR_BF16, "train.epochs": 25},
        ),
        _over_all_kinds("positions", "Every positional embedding, at its natural site.", {}),
        _kind_x_site(),
        _over_all_kinds(
            "controls",
            "Control: the patches of each image are shuffled, so no positional embedding can help.",
            {"preset": "digits", "data.shuffle_patches": True},
        ),
        *(
            _over_all_kinds(name, f"{dataset.about[0].upper()}{dataset.about[1:]}", {**PROBE_BASE, "data.name": name})
            for name, dataset in DATASETS.items()
            if dataset.source == "generated"
        ),
    )
}


def load_study(name: str) -> Study:
    """A built-in study or a preset by name, or a user's study by the path of its YAML file. Raises `UserError`.

    A preset is a study with one variant.
    """
    if name in STUDIES:
        return STUDIES[name]
    if name in PRESETS:
        kind = preset(name).model.pos_embed
        return Study(name=name, description=PRESETS[name].about, factors={"model.pos_embed": [kind]}, base=name)
    if is_study(name):
        return read_study_file(Path(name))
    if os.path.exists(os.path.join(name, STUDY)):
        raise UserError(f"study: {name!r} is the folder of a study; to train what is left: vit-sweep worker {name}")
    raise UserError(f"study: {name!r} is not known; {nearest(name, [*STUDIES, *PRESETS])}, or the path of a YAML file")


def is_study(name: str) -> bool:
    """Whether a name is that of a built-in study, a preset or a study file."""
    return name in STUDIES or name in PRESETS or name.endswith((".yaml", ".yml")) or os.path.isfile(name)
