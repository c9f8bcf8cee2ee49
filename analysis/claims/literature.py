"""What was published: tables of accuracies, and statements about them, each with its source. Data only."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from analysis import words
from analysis.claims.claim import HEAD, KIND, SITE, Above, Alike, Claim, Images, Published
from experiments.metric import Metric
from vit.registry import NORMED, site_of

PAPER = "Dosovitskiy et al., arXiv 2010.11929, Table 8 and appendix D.4 (ViT-B/16, ImageNet 5-shot, one number a cell)"
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
    """(kind, site) in the paper's table -> variant; empty for a study without its factors (kind, site or both), its
    kinds or an accuracy. `varied`: the settings that the study varies. `settings`: those of each variant.
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
RIVAL_LEARNED = 0.8652  # at the stem; the two that it is compared with act in every layer

STEM, POOL = "model.stem", "model.pool"
ANY_WAY = (
    "while there is a large gap between the performances of the model with no positional embedding and models with "
    "positional embedding, there is little to no difference between different ways of encoding positional information"
)
STEM_KINDS = frozenset({"none", "learned-1d", "sincos-2d"})
CCT = "Hassani et al., arXiv 2104.05704 (CCT), README of the authors' code"
CPVT = (
    "Chu et al., arXiv 2102.10882 (CPVT, DeiT-Ti, ImageNet; its relative embedding is 2-D), "
    "as later papers cite its table"
)
CPVT_TABLE = "Table 1: no embedding 68.2, relative 70.5, learned 72.2"
CPVT_RELATIVE = "whether the source's relative embedding acts on values and is clamped, as here, is not known"
HEO = (
    "Heo et al., arXiv 2403.13298, README of the authors' code (ViT-S, ImageNet, trained at 224 px; its table leaves "
    "out the class token)"
)
BLOG = "Positional Embeddings in Transformer Models, ICLR Blogposts 2025 (ImageNet-100, trained at 224 px)"
NONE, LEARNED = frozenset({"none"}), frozenset({"learned-1d"})
LARGER = "On larger images than in training (here enlarged, and no training at other sizes), "
ROTARY_LARGER = LARGER.replace(")", ", rotary positions as they are)")


def _better(kind: str, than: str, id: str, source: str, quote: str, images: Images = "trained", **more: Any) -> Above:
    """One kind of embedding is better than another, by any amount."""
    statement = f"{kind} is better than {than}."
    higher, lower = frozenset({kind}), frozenset({than})
    if images == "larger":
        statement = (ROTARY_LARGER if "rope" in kind + than else LARGER) + statement
    return Above(id, statement, source, quote=quote, higher=higher, lower=lower, at_all=True, images=images, **more)


_larger = partial(_better, images="larger")


LITERATURE: tuple[Claim, ...] = (
    Above(
        "paper-none",
        "Without a positional embedding, accuracy is much lower than with each of the paper's embeddings in the study.",
        PAPER,
        quote=ANY_WAY,
        higher=PAPER_KINDS,
        lower=NONE,
    ),
    Alike(
        "paper-kinds",
        "The kind of positional embedding makes little or no difference, among the paper's kinds.",
        PAPER,
        quote=ANY_WAY,
        kinds=PAPER_KINDS,
        where=("model.pos_std", None),
    ),
    Alike(
        "paper-sites",
        "It matters little where the embedding is added, for learned 1-D and 2-D tables.",
        PAPER,
        quote="Table 8 (stem, every layer, shared): 1-D 0.64206, 0.63964, 0.64292; 2-D 0.64001, 0.64046, 0.64022",
        path=SITE,
        kinds=PAPER_KINDS,
        levels=frozenset(site for _, site in PAPER_TABLE_8),
    ),
    Above(
        "lape",
        "With a class token, a table with a LayerNorm of its own in each layer is better than one added at the stem.",
        "Yu et al., arXiv 2212.05262v1, abstract",
        quote="LaPE improves 0.94% accuracy for ViT-Lite on Cifar10",
        path=SITE,
        higher=frozenset({NORMED}),
        lower=frozenset({"stem"}),
        at_all=True,
        where=(POOL, "cls"),
    ),
    *(
        Above(
            f"rival-{kind}",
            f"{kind} is clearly better than learned-1d ({100 * accuracy:.2f} % against {100 * RIVAL_LEARNED:.2f} %).",
            RIVAL,
            quote=f"Learnable 86.52, {name} {100 * accuracy:.2f}",
            higher=frozenset({kind}),
            lower=LEARNED,
        )
        for kind, name, accuracy in (("rope-2d", "Rotary (RoPe)", 0.8849), ("relative-2d-kv", "Relative", 0.9057))
    ),
    _better("relative", "none", "relative-none", PAPER, "No Pos. Emb. 0.61382, Rel. Pos. Emb. 0.64032"),
    _better("relative-2d-kv", "none", "cpvt-relative", CPVT, CPVT_TABLE, incomparable=CPVT_RELATIVE),
    _better("learned-1d", "relative-2d-kv", "cpvt-learned", CPVT, CPVT_TABLE, incomparable=CPVT_RELATIVE),
    _larger(
        "cpe",
        "learned-1d",
        "cpe-larger",
        CPVT,
        "384 px, trained at 224: DeiT-Ti (learned) 71.2, CPVT-Ti 73.2",
        fewest_tokens=64,  # of 4 x 4 tokens, 12 touch the border from which cpe reads positions; the source has 14 x 14
    ),
    _better(
        "sincos-2d",
        "learned-1d",
        "sincos-2d",
        "Beyer et al., arXiv 2205.01580, Table 1 (ViT-S/16, ImageNet, 90, 150, 300 epochs)",
        "76.5, 78.5, 80.0; Posemb: sincos2d → learned: 75.0, 78.0, 79.6",
        where=(STEM, "patchify"),
    ),
    _better("rope-2d", "learned-1d", "rope-table", HEO, "224 px, the trained size: APE 80.4, RoPE-Axial 80.9"),
    _larger("rope-2d", "learned-1d", "rope-table-larger", HEO, "384 px: APE 79.4, RoPE-Axial 80.0"),
    _better("rope-2d-learned-1d", "learned-1d", "rope-and-table", HEO, "224 px: APE 80.4, RoPE-Axial + APE 80.7"),
    _larger(
        "rope-2d-learned-1d", "learned-1d", "rope-and-table-larger", HEO, "384 px: APE 79.4, RoPE-Axial + APE 81.2"
    ),
    _larger("rope-mixed", "rope-2d", "rope-mixed-larger", HEO, "384 px: RoPE-Axial 80.0, RoPE-Mixed 81.8"),
    _larger(
        "lookhere",
        "rope-2d",
        "lookhere-larger",
        "Fuller et al., arXiv 2405.13985, abstract (ViT-B/16, 1024 px, trained at 224)",
        "With extrapolation, LookHere outperforms the current SoTA position encoding method, 2D-RoPE, by 21.7% on "
        "ImageNet",
    ),
    _better(
        "alibi-2d",
        "learned-1d",
        "alibi-table",
        f"{BLOG}; the two are equal in arXiv 2405.13985, Table 1",
        "224 px: learned 55.48, 2-D ALiBi 60.74",
        both_work=True,
    ),
    _larger(
        "alibi-2d",
        "rope-mixed",
        "alibi-rope-larger",
        f"{BLOG}; against axial RoPE, arXiv 2405.13985 has the opposite at twice the size",
        "ALiBi exhibits better extrapolation performance over RoPE",
    ),
    _larger(
        "alibi-2d",
        "rope-2d",
        "bias-rotation-larger",
        "Analysing Extrapolation Capabilities of Modern Positional Embeddings in Vision Transformers, submission 9150 "
        "to TMLR, 2026, under review, abstract (RoPE, ALiBi, YaRN, FIRE; one ViT-Tiny, ImageNet-100, up to 1024 px, "
        "trained at 224); against axial RoPE, arXiv 2405.13985 has the opposite at twice the size",
        "additive attention-bias methods consistently outperform rotation-based methods at large scales",
    ),
    Above(
        "pape-larger",
        f"{ROTARY_LARGER}pape is better than alibi-2d, lookhere, rope-2d and rope-mixed.",
        "Øhrstrøm et al., arXiv 2602.01418v1, abstract (ImageNet, trained at 224 px; the others are those in the "
        "authors' code, but for an absolute embedding and none)",
        quote="PaPE extrapolates remarkably well, improving in absolute terms by up to 10.5% over the next-best "
        "position encoding",
        higher=frozenset({"pape"}),
        lower=frozenset({"alibi-2d", "lookhere", "rope-2d", "rope-mixed"}),
        at_all=True,
        images="larger",
    ),
    Above(
        "none-permuted",
        "On test images with permuted patches, a model without positional embedding is better than one with "
        "learned-1d.",
        "Naseer et al., arXiv 2105.10497, section 3.3 (DeiT, ImageNet)",
        quote="Without encoding, the ViT performs reasonably well and achieves better permutation invariance than a "
        "ViT using position encoding",
        higher=NONE,
        lower=LEARNED,
        at_all=True,
        images="permuted",
        incomparable="without an embedding, permuted patches change no prediction, so it follows from the construction",
    ),
    Alike(
        "optional-with-stem",
        "With CCT's tokenizer and sequence pooling, a model without positional embedding is about as accurate.",
        CCT,
        quote="replace the patch embedding with a convolutional embedding, allowing for better inductive bias and "
        "making positional embeddings optional",
        kinds=STEM_KINDS,
        where=(STEM, "conv"),
        incomparable="the source pools the output of its convolutions and reads all tokens, the models here do neither",
    ),
    Alike(
        "registers",
        "Register tokens change the accuracy of a small model little.",
        "Bach et al., Registers in Small Vision Transformers, TMLR 2025, abstract (DeiT-III-S)",
        quote="the overall performance gains are modest",
        path="model.reg_tokens",
    ),
    Above(
        "any-none",
        "Without a positional embedding, accuracy is much lower than with each embedding of the study.",
        lower=NONE,
    ),
    Alike("any-kinds", "The kind of positional embedding makes little or no difference, among all kinds."),
    _better("learned-1d", "relative", "relative-learned", "", ""),
    _larger("cape", "sincos-2d", "cape-larger", "", ""),
    Alike("any-sites", "It matters little where the embedding is added, for all kinds.", path=SITE),
    Alike(
        "none-with-stem",
        "With a convolutional stem without pooling, a model without positional embedding is about as accurate.",
        kinds=STEM_KINDS,
        where=(STEM, "conv"),
    ),
    Above(
        "softmax-head",
        "Softmax before cross-entropy gives a lower accuracy than logits.",
        path=HEAD,
        higher=frozenset({"logits"}),
        lower=frozenset({"softmax"}),
        at_all=True,
    ),
    Above(  # arXiv 2406.08272v3 says so of relational reasoning and brain data, not of images
        "small-table",
        "A table of positions with a small initial standard deviation (0.002) is better than one with a larger.",
        path="model.pos_std",
        higher=frozenset({0.002}),
        lower=frozenset({0.02, 0.2, 1.0}),
        at_all=True,
    ),
    Above(
        "attention-dropout",
        "Dropout on the attention weights helps, with and without other dropout.",
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
            statement=f"{name} has a test accuracy of {words.number(100 * preset.claim, 2)} %.",
            source=f"{preset.source} ({preset.scored})",
            quote=preset.quote,
            incomparable=preset.assumed,
            preset=name,
            accuracy=preset.claim,
        )
        for name, preset in PRESETS.items()
        if preset.claim is not None
    ]
    return (*LITERATURE, *figures)
