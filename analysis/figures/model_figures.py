"""Figures of what trained models look at and know of place. Arrays in (see `models`), figures out; nothing is read or
written.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import CenteredNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis.figures.inspect import ModelInspection
from analysis.figures.style import FAINT, PALETTE, VERDICTS, WIDTH, Plot, short, style
from analysis.formatting import listing
from analysis.report.render import plain

ACROSS = 4  # panels side by side
TITLE_LINE = 68  # characters of a panel's title that fit over the whole width
MAP = "viridis"
ASKING = {
    "cls": "the class token",
    "gap": "the patches, whose mean is classified",
    "map": "all tokens, each by its weight in attention pooling",
}  # whose attention an overlay shows, by how a model pools


def inside_plots(looks: Sequence[ModelInspection], shown: Sequence[str]) -> list[Plot]:
    """Every figure that these looks give; attention is drawn for the variants in `shown`."""
    with style():
        made = [
            _position_similarity(looks),
            _position_logits(looks),
            _position_table(looks),
            _distance(looks),
            *(_overlay(look) for look in looks if look.variant in shown),
        ]
    return [plot for plot in made if plot is not None]


def mosaic(similarity: np.ndarray) -> np.ndarray:
    """[G, G, G, G] -> [G (G + 1) - 1] squared: patch (r, c)'s picture at row r, column c, with a NaN line between two."""
    grid = similarity.shape[0]
    apart = np.full((grid, grid, grid + 1, grid + 1), np.nan)
    apart[:, :, :grid, :grid] = similarity
    return apart.transpose(0, 2, 1, 3).reshape(grid * (grid + 1), -1)[:-1, :-1]


def _position_similarity(looks: Sequence[ModelInspection]) -> Plot | None:
    panels = {look.variant: mosaic(look.similarity) for look in looks if look.similarity is not None}
    caption = (
        "Position similarity: each small square is a patch, and shows the cosine similarity of its position with that "
        "of every other patch, in the first layer where there are several "
        "(arXiv 2010.11929, Figure 7). A kind that knows of place in two dimensions shows a cross or a spot at the "
        "patch's own place. "
        "Kinds that add nothing to the tokens are left out."
    )
    return _panels("position-similarity", panels, caption, "cosine similarity", {"vmin": -1, "vmax": 1, "cmap": "PuOr"})


def _position_logits(looks: Sequence[ModelInspection]) -> Plot | None:
    panels = {look.variant: mosaic(look.logits) for look in looks if look.logits is not None}
    caption = (
        "What position does to attention: each small square is a patch that asks, and shows what position alone adds "
        "to its attention logits "
        "for every other patch, the mean over heads of the first layer (for a query and a key of ones: where position "
        "acts by them, others see other values). Only kinds that bias or rotate are shown."
    )
    return _panels("position-logits", panels, caption, "logit", {"cmap": MAP})


def _position_table(looks: Sequence[ModelInspection]) -> Plot | None:
    panels = {look.variant: look.table for look in looks if look.table is not None}
    caption = (
        "What position adds: a row for each token (the class token first, where there is one), a column for each of "
        "the width's dimensions; of the first layer, where there are several."
    )
    return _panels(
        "position-table",
        panels,
        caption,
        "value",
        {"cmap": "PuOr", "aspect": "auto", "norm": CenteredNorm},
        ("dimension", "token"),
    )


def _distance(looks: Sequence[ModelInspection]) -> Plot | None:
    known = [look for look in looks if look.distance is not None]
    if not known:
        return None
    figure = Figure(figsize=(WIDTH, 3.2))
    axes = figure.subplots()
    handles = []
    for index, look in enumerate(known):
        layers = np.arange(1, len(look.distance) + 1) + 0.06 * (index - (len(known) - 1) / 2)
        colour = PALETTE[index % len(PALETTE)]
        axes.plot(
            np.repeat(layers, look.distance.shape[1]), look.distance.ravel(), "o", ms=3, mew=0, alpha=0.5, color=colour
        )
        handles.append(
            axes.plot(layers, look.distance.mean(1), "-", marker="osD^vP*X"[index % 8], ms=6, lw=1.4, color=colour)[0]
        )
    axes.set_xlabel("layer")
    axes.set_ylabel("attention distance, pixels")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(axis="y")
    figure.legend(
        handles,
        [short(look.variant) for look in known],
        loc="outside lower center",
        ncols=2 if len(known) > 4 else 4,
        fontsize=9,
    )
    caption = (
        "Mean attention distance by depth: each dot is a head, the mark their mean, over test images of one run a "
        "variant (arXiv 2010.11929, Figure 7)."
    )
    alt = "; ".join(
        f"{plain(look.variant)}: {', '.join(f'{value:.1f}' for value in look.distance.mean(1))} pixels from the first "
        "layer on"
        for look in known
    )
    return Plot("attention-distance", figure, caption, f"Mean attention distance by depth. {alt}.")


def _overlay(look: ModelInspection) -> Plot:
    """Images with the truth and the answer; over them the attention of what is pooled, and its rollout."""
    count = len(look.images)
    figure = Figure(figsize=(WIDTH, 3.3))
    axes = figure.subplots(3, count, squeeze=False)
    for at in range(count):
        right = look.truth[at] == look.predicted[at]
        picture = look.images[at].mean(-1)
        axes[0][at].imshow(look.images[at].squeeze(), cmap="gray", vmin=0, vmax=1)
        axes[0][at].set_title(
            f"{_name(look.truth[at])}\n{_name(look.predicted[at])}",
            fontsize=8,
            fontweight="normal",
            color=VERDICTS["equivalent" if right else "worse"][0],
        )
        for row, over in ((1, look.attention[at]), (2, look.rollout[at])):
            axes[row][at].imshow(picture, cmap="gray", vmin=0, vmax=1)
            axes[row][at].imshow(over, cmap="inferno", alpha=0.6, interpolation="bilinear")
    axes[0][0].text(-0.12, 1.06, "true\nanswer", transform=axes[0][0].transAxes, fontsize=8, ha="right", va="bottom")
    for row, words in ((1, "attention"), (2, "rollout")):
        axes[row][0].set_ylabel(words, fontsize=8, rotation=0, ha="right", va="center")
    for each in axes.ravel():
        _bare(each)
    right = sum(a == b for a, b in zip(look.truth, look.predicted))
    caption = (
        f"What {look.variant} looks at (run {look.run}): the first {count} test images with the true class above the "
        f"answer; below, the attention of {ASKING[look.pool]}, "
        "in the last layer, mean over heads, and its rollout through all layers (arXiv 2005.00928). Brighter is more."
    )
    name = f"attention-{look.run}"
    return Plot(
        _file(name),
        figure,
        caption,
        f"Attention overlays of {plain(look.variant)} on {count} test images, {right} of them answered rightly.",
    )


def _panels(
    name: str,
    panels: dict[str, np.ndarray],
    caption: str,
    bar: str,
    options: dict,
    labels: tuple[str, str] | None = None,
) -> Plot | None:
    if not panels:
        return None
    across = min(ACROSS, len(panels))
    down = -(-len(panels) // across)
    figure = Figure(figsize=(WIDTH, (WIDTH / max(across, 3) + 0.35) * down))
    axes = figure.subplots(down, across, squeeze=False)
    for each in axes.ravel()[len(panels) :]:
        each.set_visible(False)
    for each, (variant, values) in zip(axes.ravel(), panels.items()):
        scaled = (
            {**options, "norm": options["norm"]()} if "norm" in options else options
        )  # each panel has a scale of its own
        image = each.imshow(values, interpolation="nearest", **scaled)
        each.set_title(textwrap.fill(short(variant), TITLE_LINE // across), loc="left", fontsize=9)
        figure.colorbar(image, ax=each, shrink=0.7, label=bar if "vmin" not in options else "").ax.tick_params(
            labelsize=7
        )
        if labels is None:
            _bare(each)
        else:
            each.set_xlabel(labels[0], fontsize=8)
            each.set_ylabel(labels[1], fontsize=8)
            each.tick_params(labelsize=7)
    return Plot(
        name,
        figure,
        caption,
        f"{caption.partition(':')[0]} of {listing([plain(variant) for variant in panels])}, as coloured grids.",
    )


def _bare(axes: Axes) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_color(FAINT)
        spine.set_visible(False)


def _name(text: str) -> str:
    text = plain(text)
    return text if len(text) <= 9 else f"{text[:8]}…"


def _file(name: str) -> str:
    """A name that is a file's on any system: run folders are made of such characters, but a user can rename one."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "-_=.,") else "-" for c in name)
