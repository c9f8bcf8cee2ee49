"""What do trained models look like inside? The figures of papers and tutorials, for `--models`."""

import re
from collections.abc import Sequence
from operator import eq

from analysis import words
from analysis.figures import models as figures
from analysis.figures.style import Plot
from analysis.findings import Findings
from analysis.runs.inspect import ModelInspection, inspect_models
from analysis.write.document import Item, Section

MOST_REASONS = 3  # runs without figures that the page names
CAPTIONS = {
    "table": (
        "Position embeddings as added to the patches: a row for each patch in raster order, a column for each "
        "channel, in the first layer that adds one. Only embeddings that do not depend on the image are shown."
    ),
    "similarity": (
        "Similarity of position embeddings (as in arXiv 2010.11929, Figure 7). Each tile belongs to one patch and "
        "shows the cosine similarity between its position embedding and that of every other patch, in the first layer "
        "that adds one. An embedding that encodes two-dimensional position has its maximum at the patch itself and "
        "high values in its row and column, or around it. Only embeddings that are added to the tokens are shown."
    ),
    "logits": (
        "Effect of position on attention. Each tile belongs to one query patch and shows what position adds to its "
        "attention logit for every key patch: the mean over the heads of the first layer that see it. For embeddings "
        "that act on queries and keys, the values are those for a query and a key of length 1 with equal components."
    ),
}
POOLED = {
    "cls": "the class token",
    "gap": "the patches, averaged (the model classifies their mean)",
    "map": "all tokens, weighted as in attention pooling",
}


def question(findings: Findings) -> Section | None:
    """Position embeddings and attention of one model for each variant; nothing without checkpoints. Imports torch."""
    if findings.study.folder is None or not findings.options.models:
        return None
    styles, best = findings.styles, (findings.means.best, findings.variants.baseline)
    inspected, missing = inspect_models(findings.study, styles.coloured, findings.options.skip_unreadable)
    items: list[Item] = [*_position_plots(inspected)]
    if distances := {model.variant: model.distance for model in inspected if model.distance is not None}:
        means = {v: ", ".join(words.number(heads.mean(), 1) for heads in layers) for v, layers in distances.items()}
        alt = "; ".join(f"{variant}: {layers} pixels" for variant, layers in means.items()) + "."
        caption = (
            "Mean attention distance by layer (as in arXiv 2010.11929, Figure 7). Each dot is a head, the larger mark "
            "their mean. One run of each variant, averaged over test images."
        )
        items.append(Plot("attention-distance", lambda: figures.attention_distance(distances, styles), caption, alt))
    items += [_overlay(model) for model in inspected if model.variant in best]
    about = (
        "Each variant is shown by one finished run, the one with the lowest seed. These figures are examples. "
        "Attention on test images is shown only for the baseline and the variant with the best mean."
    )
    lost = [f"No figures for {run}: {reason}." for run, reason in missing[:MOST_REASONS]]
    lost += [f"No figures for {len(missing) - MOST_REASONS} more."] if len(missing) > MOST_REASONS else []
    return Section("models", "Inside the models", items, ([about] if inspected else []) + lost)


def _position_plots(models: Sequence[ModelInspection]) -> list[Plot]:
    """The embeddings' similarity and what they add to attention, each of the models that have it."""
    plots = []
    for kind, caption in CAPTIONS.items():
        values = {model.variant: getattr(model, kind) for model in models if getattr(model, kind) is not None}
        if values:
            alt = f"Variants: {words.listing(list(values))}."
            plots.append(Plot(f"position-{kind}", lambda v=values, k=kind: figures.heat_maps(v, k), caption, alt))  # type: ignore[misc]
    return plots


def _overlay(model: ModelInspection) -> Plot:
    """Test images with the attention of the model's pooled tokens."""
    alt = f"Images classified correctly: {sum(map(eq, model.truth, model.predicted))} of {len(model.images)}."
    # a user can rename a run's folder, and any file system accepts these characters
    run = re.sub(r"[^A-Za-z0-9_=.,-]", "-", model.run)
    caption = (
        f"Attention of {model.variant} (run {model.run}) on the first {len(model.images)} test images. Above: true "
        f"class and prediction. Middle: attention of {POOLED[model.pool]} in the last layer, mean over heads. Below: "
        "attention rollout over all layers (arXiv 2005.00928). The colour runs from black (least attention in the "
        "image) to pale yellow (most). The image shows through."
    )
    shown = model.images, (model.attention, model.rollout), model.truth, model.predicted
    return Plot(f"attention-{run}", lambda: figures.overlay(*shown), caption, alt)
