"""What was published: tables of accuracies, and statements about them, each with its source. Data only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from analysis import formatting
from analysis.claims.claim import HEAD, KIND, SITE, Above, Alike, Claim, Published, site_of
from analysis.claims.contrasts import Gain, Sensitivity
from experiments.metric import Metric

PAPER = "Dosovitskiy et al., arXiv 2010.11929, Table 8 and appendix D.4 (ViT-B/16, ImageNet 5-shot, one run per cell)"
PAPER_TABLE_8: dict[tuple[str, str], float] = {
    ("none", "stem"): 0.61382,
    ("learned-1d", "stem"): 0.64206,
    ("learned-1d", "every-layer"): 0.63964,
    ("learned-1d", "every-layer-shared"): 0.64292,
    ("learned-2d", "stem"): 0.64001,
    ("learned-2d", "every-layer"): 0.64046,
    ("learned-2d", "every-layer-shared"): 0.64022,
    ("relative", "stem"): 0.64032,
}
"""(row, column) -> accuracy, as printed. "stem" is the column "Default/Stem", which also holds relative attention."""


def paper_places(
    metric: Metric, varied: Iterable[str], settings: Mapping[str, Mapping[str, Any]]
) -> dict[tuple[str, str], str]:
    """(kind, site) in the paper's table -> variant; empty for a study without its factors and kinds.

    Its factors are the kind, the site or both, and the metric is an accuracy. `varied`: the settings that the study varies.
    `settings`: those of each variant.
    """
    varied, kinds = set(varied), {kind for kind, _ in PAPER_TABLE_8}
    if KIND not in varied or not varied <= {KIND, SITE} or not metric.is_accuracy:
        return {}
    places = {}
    for variant, own in settings.items():
        kind, site = str(own.get(KIND)), str(own.get(SITE))
        places[kind, "stem" if (kind, "stem") in PAPER_TABLE_8 and site == site_of(kind) else site] = variant
    return places if len(places) > 1 and all(kind in kinds for kind, _ in places) else {}


PAPER_KINDS = frozenset(kind for kind, _ in PAPER_TABLE_8) - {"none"}

RIVAL = "s-chh, 2D-Positional-Encoding-Vision-Transformer, 2024 (CIFAR-10, 200 epochs, one unseeded run per cell)"
RIVAL_CIFAR_10 = {
    "none": 0.7963,
    "learned-1d": 0.8652,
    "sincos-2d": 0.8609,
    "rope-2d": 0.8849,
    "relative-2d-kv": 0.9057,
}
"""kind -> accuracy. There, relative-2d-kv and rope act in every layer and the others at the stem."""

STEM, POOL, LR = "model.stem", "model.pool", "optim.lr"
CCT = "Hassani et al., arXiv 2104.05704 (CCT)"
COMMON = "The paper's conclusion as it is often repeated, applied to all embeddings of this study"
LITERATURE: tuple[Claim, ...] = (
    Above(
        "paper-none",
        "Without a positional embedding, accuracy is much lower than with the paper's embeddings.",
        PAPER,
        higher=PAPER_KINDS,
        lower=frozenset({"none"}),
    ),
    Above(
        "any-none",
        "Without a positional embedding, accuracy is much lower than with any embedding.",
        COMMON,
        lower=frozenset({"none"}),
    ),
    Alike(
        "paper-kinds",
        "The kind of positional embedding makes little or no difference, among the paper's kinds.",
        PAPER,
        kinds=PAPER_KINDS,
    ),
    Alike("any-kinds", "The kind of positional embedding makes little or no difference, among all kinds.", COMMON),
    Alike(
        "paper-sites",
        "It matters little where the embedding is added, for the paper's kinds.",
        PAPER,
        path=SITE,
        kinds=PAPER_KINDS,
    ),
    Alike("any-sites", "It matters little where the embedding is added, for all kinds.", COMMON, path=SITE),
    Above(
        "softmax-head",
        "Softmax before cross-entropy trains worse than logits.",
        "torch.nn.CrossEntropyLoss, which expects logits; Pulfer, 2022, gives it probabilities (the loss cannot fall below 1.461)",
        path=HEAD,
        higher=frozenset({"logits"}),
        lower=frozenset({"softmax"}),
        at_all=True,
    ),
    *(
        Above(
            f"rival-{kind}",
            f"{kind} is clearly better than learned-1d ({100 * accuracy:.2f} % against {100 * RIVAL_CIFAR_10['learned-1d']:.2f} %).",
            RIVAL,
            higher=frozenset({kind}),
            lower=frozenset({"learned-1d"}),
        )
        for kind, accuracy in RIVAL_CIFAR_10.items()
        if accuracy > RIVAL_CIFAR_10["learned-1d"] + 0.01
    ),
    Alike(
        "sincos-2d",
        "Fixed 2-D sinusoids are as good as a learned 1-D table.",
        "Beyer et al., arXiv 2205.01580",
        kinds=frozenset({"sincos-2d", "learned-1d"}),
    ),
    Above(
        "rope-mixed-larger",
        "On larger images than in training, rope-mixed is better than rope-2d.",
        "Heo et al., arXiv 2403.13298",
        higher=frozenset({"rope-mixed"}),
        lower=frozenset({"rope-2d"}),
        at_all=True,
        enlarged=True,
    ),
    Above(
        "lookhere-larger",
        "On larger images than in training, lookhere is better than rope-2d.",
        "Fuller et al., arXiv 2405.13985",
        higher=frozenset({"lookhere"}),
        lower=frozenset({"rope-2d"}),
        at_all=True,
        enlarged=True,
    ),
    Alike(
        "optional-with-stem",
        "With a convolutional tokenizer, the positional embedding is optional.",
        CCT,
        kinds=frozenset({"none", "learned-1d", "sincos-2d"}),
        where=(STEM, "conv"),
    ),
    Gain(
        "less-with-stem",
        "The positional embedding gains less with a convolutional tokenizer than without.",
        CCT,
        path=KIND,
        higher=frozenset({"learned-1d", "sincos-2d"}),
        lower=frozenset({"none"}),
        by=STEM,
        more="patchify",
        less="conv",
    ),
    Sensitivity(
        "stem-lr",
        "A convolutional stem is less sensitive to the learning rate.",
        "Xiao et al., arXiv 2106.14881",
        path=LR,
        by=STEM,
        more="patchify",
        less="conv",
    ),
    Gain(
        "pool-lr",
        "Mean pooling needs a larger learning rate than the class token: at a small rate it loses more.",
        "Dosovitskiy et al., arXiv 2010.11929, appendix D.3 (the two need different rates)",
        path=POOL,
        higher=frozenset({"cls"}),
        lower=frozenset({"gap"}),
        by=LR,
    ),
    Alike(
        "registers",
        "Register tokens change the accuracy of a small model little.",
        "Darcet et al., arXiv 2309.16588, whose registers help large models; TMLR 2025 on small ones",
        path="model.reg_tokens",
    ),
    Above(
        "small-table",
        "A table of positions with a small initial standard deviation (0.002) is better than one with a larger.",
        "arXiv 2406.08272 (a small initial table generalises better)",
        path="model.pos_std",
        higher=frozenset({0.002}),
        lower=frozenset({0.02, 0.2, 1.0}),
        at_all=True,
    ),
    Above(
        "depth",
        "Each additional layer helps, up to 6 layers.",
        "Dosovitskiy et al., arXiv 2010.11929, appendix D.2 (ViTs improve with depth up to 64 layers)",
        path="model.depth",
        at_all=True,
    ),
    Above(
        "attention-dropout",
        "Dropout on the attention weights helps.",
        "Lodha, 2025, who trains a small ViT with 0.1",
        path="model.attn_drop_rate",
        at_all=True,
    ),
)


def published_claims() -> tuple[Claim, ...]:
    """Every claim known here: the literature's, and the figure that each preset's source reports."""
    from experiments.presets import PRESETS

    figures = [
        Published(
            id=f"headline-{name}",
            statement=f"{name} has a test accuracy of {formatting.number(100 * preset.claim, 2)} %.",
            source=f"{preset.source} ({preset.scored})",
            preset=name,
            accuracy=preset.claim,
        )
        for name, preset in PRESETS.items()
        if preset.claim is not None
    ]
    return (*LITERATURE, *figures)
