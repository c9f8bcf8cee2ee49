"""Figures of trained models: position embeddings and attention. Arrays in, figures out; nothing is read or written."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import CenteredNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis.figures import captions
from analysis.figures.inspect import ModelInspection
from analysis.figures.labels import VariantStyle
from analysis.figures.style import FAINT, MARKERS, PALETTE, VERDICTS, Plot, narrow, plot, short, shorts, width
from analysis.formatting import plain

ACROSS = 4  # panels side by side
TITLE_LINE, NARROW_TITLE_LINE = 68, 44  # characters of panel titles that fit side by side
CLASS_NAME = 9  # characters of a class that fit above an image


def model_plots(
    inspections: Sequence[ModelInspection],
    overlays: Collection[str | None],
    styles: Mapping[str, VariantStyle] | None = None,
) -> list[Plot]:
    """Return every figure of the inspected models; attention overlays only for the variants in `overlays`.

    `styles`: the colours of the variants in the other figures of the report.
    """
    made = [
        _position_similarity(inspections),
        _position_logits(inspections),
        _position_table(inspections),
        _distance(inspections, styles or {}),
        *(_overlay(model) for model in inspections if model.variant in overlays),
    ]
    return [each for each in made if each is not None]


def mosaic(similarity: np.ndarray) -> np.ndarray:
    """Arrange tiles [G, G, G, G] as one image [G (G + 1) - 1] squared, with lines of NaN between them.

    The tile of patch (r, c) stands in row r and column c.
    """
    grid = similarity.shape[0]
    apart = np.full((grid, grid, grid + 1, grid + 1), np.nan)
    apart[:, :, :grid, :grid] = similarity
    return apart.transpose(0, 2, 1, 3).reshape(grid * (grid + 1), -1)[:-1, :-1]


def _position_similarity(inspections: Sequence[ModelInspection]) -> Plot | None:
    panels = {model.variant: mosaic(model.similarity) for model in inspections if model.similarity is not None}
    options: dict[str, Any] = {"vmin": -1, "vmax": 1, "cmap": "PuOr"}
    return _panels("position-similarity", panels, captions.POSITION_SIMILARITY, "", options)


def _position_logits(inspections: Sequence[ModelInspection]) -> Plot | None:
    panels = {model.variant: mosaic(model.logits) for model in inspections if model.logits is not None}
    return _panels("position-logits", panels, captions.POSITION_LOGITS, "logit", {"cmap": "viridis"})


def _position_table(inspections: Sequence[ModelInspection]) -> Plot | None:
    panels = {model.variant: model.table for model in inspections if model.table is not None}
    options: dict[str, Any] = {"cmap": "PuOr", "aspect": "auto", "norm": CenteredNorm}
    return _panels("position-table", panels, captions.POSITION_TABLE, "value", options, ("dimension", "token"))


def _distance(inspections: Sequence[ModelInspection], styles: Mapping[str, VariantStyle]) -> Plot | None:
    known = {model.variant: model.distance for model in inspections if model.distance is not None}
    if not known:
        return None
    means = {variant: distance.mean(1).tolist() for variant, distance in known.items()}
    return plot("attention-distance", lambda tips: _draw_distance(known, styles), *captions.distance(means))


def _draw_distance(known: Mapping[str, np.ndarray], styles: Mapping[str, VariantStyle]) -> Figure:
    figure = Figure(figsize=(width(), 3.2))
    axes = figure.subplots()
    handles = []
    for index, (variant, distance) in enumerate(known.items()):
        layers = np.arange(1, len(distance) + 1) + 0.06 * (index - (len(known) - 1) / 2)
        own = VariantStyle(PALETTE[index % len(PALETTE)], MARKERS[index % len(MARKERS)], "-")
        colour, marker, _ = styles.get(variant, own)
        heads = np.repeat(layers, distance.shape[1])
        axes.plot(heads, distance.ravel(), "o", ms=3, mew=0, alpha=0.5, color=colour)
        handles += axes.plot(layers, distance.mean(1), "-", marker=marker, ms=6, lw=1.4, color=colour)
    axes.set_xlabel("layer")
    axes.set_ylabel("attention distance, pixels")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(axis="y")
    columns = 1 if narrow() else 2 if len(known) > 4 else 4
    figure.legend(handles, shorts(list(known)), loc="outside lower center", ncols=columns, fontsize=9)
    return figure


def _overlay(model: ModelInspection) -> Plot:
    """Draw test images with class and prediction, the attention of the pooled tokens, and its rollout."""
    correct = sum(truth == predicted for truth, predicted in zip(model.truth, model.predicted))
    texts = captions.overlay(model.variant, model.run, len(model.images), correct, model.pool)
    return plot(_file(f"attention-{model.run}"), lambda tips: _draw_overlay(model), *texts)


def _draw_overlay(model: ModelInspection) -> Figure:
    """One column for each image; half of the images below the others in a narrow figure."""
    blocks = 2 if narrow() else 1
    across = -(-len(model.images) // blocks)
    figure = Figure(figsize=(width(), 3.3 * blocks))
    axes = figure.subplots(3 * blocks, across, squeeze=False)
    for each in axes.ravel():
        _bare(each)
    for at, (truth, predicted) in enumerate(zip(model.truth, model.predicted)):
        block, column = divmod(at, across)
        first, second, third = axes[3 * block : 3 * block + 3, column]
        image, colour = model.images[at], VERDICTS["equivalent" if truth == predicted else "worse"][0]
        first.imshow(image.squeeze(), cmap="gray", vmin=0, vmax=1)
        first.set_title(f"{_name(truth)}\n{_name(predicted)}", fontsize=8, fontweight="normal", color=colour)
        for below, attention in ((second, model.attention[at]), (third, model.rollout[at])):
            below.imshow(image.mean(-1), cmap="gray", vmin=0, vmax=1)
            below.imshow(attention, cmap="inferno", alpha=0.6, interpolation="bilinear")
    for block in range(blocks):
        corner: dict[str, Any] = {
            "transform": axes[3 * block][0].transAxes,
            "fontsize": 8,
            "ha": "right",
            "va": "bottom",
        }
        axes[3 * block][0].text(-0.12, 1.06, "true\npredicted", **corner)
        for row, words in ((1, "attention"), (2, "rollout")):
            axes[3 * block + row][0].set_ylabel(words, fontsize=8, rotation=0, ha="right", va="center")
    return figure


def _panels(
    name: str,
    panels: dict[str, np.ndarray],
    caption: str,
    unit: str,
    options: dict[str, Any],
    axis_labels: tuple[str, str] | None = None,
) -> Plot | None:
    """Draw one heat map for each variant. A "norm" among the options is made anew, so that each panel has its own scale."""
    if not panels:
        return None

    def draw(_: Any) -> Figure:
        across = min(2 if narrow() else ACROSS, len(panels))
        down = -(-len(panels) // across)
        figure = Figure(figsize=(width(), (width() / max(across, 2 if narrow() else 3) + 0.35) * down))
        axes = figure.subplots(down, across, squeeze=False)
        for each in axes.ravel()[len(panels) :]:
            each.set_visible(False)
        for each, (variant, values) in zip(axes.ravel(), panels.items()):
            line = (TITLE_LINE if not narrow() else NARROW_TITLE_LINE) // across
            each.set_title(textwrap.fill(short(variant), line), loc="left", fontsize=9)
            _draw_panel(figure, each, values, unit, options, axis_labels)
        return figure

    return plot(name, draw, caption, captions.tiles(caption, list(panels)))


def _draw_panel(
    figure: Figure,
    axes: Axes,
    values: np.ndarray,
    unit: str,
    options: dict[str, Any],
    axis_labels: tuple[str, str] | None,
) -> None:
    scaled = {**options, "norm": options["norm"]()} if "norm" in options else options
    image = axes.imshow(values, interpolation="nearest", **scaled)
    figure.colorbar(image, ax=axes, shrink=0.7, label=unit).ax.tick_params(labelsize=7)
    if axis_labels is None:
        _bare(axes)
        return
    axes.set_xlabel(axis_labels[0], fontsize=8)
    axes.set_ylabel(axis_labels[1], fontsize=8)
    axes.tick_params(labelsize=7)


def _bare(axes: Axes) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_color(FAINT)
        spine.set_visible(False)


def _name(text: str) -> str:
    text = plain(text)
    return text if len(text) <= CLASS_NAME else f"{text[: CLASS_NAME - 1]}…"


def _file(name: str) -> str:
    """A name that any file system accepts. Run folders have such names, but a user can rename them."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "-_=.,") else "-" for c in name)
