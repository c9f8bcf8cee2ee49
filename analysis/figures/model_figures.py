"""Figures of trained models: position embeddings and attention. Arrays in, figures out; nothing is read or written."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import CenteredNorm
from matplotlib.ticker import MaxNLocator

from analysis.figures import captions
from analysis.figures.drawing import legend
from analysis.figures.inspect import ModelInspection
from analysis.figures.labels import VariantStyle, numbered_style, short, shorts
from analysis.figures.style import VERDICTS, WIDTH, Drawing, Plot, style
from analysis.formatting import plain

ACROSS = 2  # heat maps side by side
IMAGES_ACROSS = 4
TITLE_LINE = 24  # characters of the title of a heat map
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


def mosaic(tiles: np.ndarray) -> np.ndarray:
    """Arrange tiles [R, C, H, W, ...] as one image [R (H + 1) - 1, C (W + 1) - 1, ...], with lines of NaN between them."""
    down, across, height, width, *channels = tiles.shape
    apart = np.full((down, across, height + 1, width + 1, *channels), np.nan)
    apart[:, :, :height, :width] = tiles
    return apart.swapaxes(1, 2).reshape(down * (height + 1), across * (width + 1), *channels)[:-1, :-1]


def _position_similarity(inspections: Sequence[ModelInspection]) -> Plot | None:
    panels = {model.variant: mosaic(model.similarity) for model in inspections if model.similarity is not None}
    options: dict[str, Any] = {"vmin": -1, "vmax": 1, "cmap": "PuOr"}
    return _panels("position-similarity", panels, captions.POSITION_SIMILARITY, options)


def _position_logits(inspections: Sequence[ModelInspection]) -> Plot | None:
    panels = {model.variant: mosaic(model.logits) for model in inspections if model.logits is not None}
    return _panels("position-logits", panels, captions.POSITION_LOGITS, {"cmap": "viridis"})


def _position_table(inspections: Sequence[ModelInspection]) -> Plot | None:
    panels = {model.variant: model.table for model in inspections if model.table is not None}
    options: dict[str, Any] = {"cmap": "PuOr", "aspect": "auto"}
    return _panels("position-table", panels, captions.POSITION_TABLE, options, ("dimension", "token"))


def _panels(
    name: str,
    panels: Mapping[str, np.ndarray],
    caption: str,
    options: dict[str, Any],
    axis_labels: tuple[str, str] | None = None,
) -> Plot | None:
    """One heat map for each variant; None where no variant has one."""
    if not panels:
        return None
    return Plot(name, _draw_panels(panels, options, axis_labels), caption, captions.tiles(caption, list(panels)))


@style()
def _draw_panels(
    panels: Mapping[str, np.ndarray], options: dict[str, Any], axis_labels: tuple[str, str] | None
) -> Drawing:
    """Each panel has a scale of its own unless `options` give its ends; the one of position tables has zero in its middle."""
    across = min(ACROSS, len(panels))
    down = -(-len(panels) // across)
    figure = Drawing((WIDTH / ACROSS + 0.2) * down)
    places = figure.subplots(down, across, squeeze=False).ravel()
    for axes, (variant, values) in zip(places, panels.items()):
        norm = CenteredNorm() if axis_labels else None
        image = axes.imshow(values, interpolation="nearest", norm=norm, **options)
        axes.set_title(textwrap.fill(short(variant), TITLE_LINE), loc="left", fontsize=9)
        figure.colorbar(image, ax=axes, shrink=0.7).ax.tick_params(labelsize=8)
        if axis_labels:
            axes.set_xlabel(axis_labels[0], fontsize=8)
            axes.set_ylabel(axis_labels[1], fontsize=8)
            axes.tick_params(labelsize=8)
        else:
            axes.set_axis_off()
    for axes in places[len(panels) :]:
        axes.set_visible(False)
    return figure


def _distance(inspections: Sequence[ModelInspection], styles: Mapping[str, VariantStyle]) -> Plot | None:
    known = {model.variant: model.distance for model in inspections if model.distance is not None}
    if not known:
        return None
    means = {variant: distance.mean(1).tolist() for variant, distance in known.items()}
    return Plot("attention-distance", _draw_distance(known, styles), *captions.distance(means))


@style()
def _draw_distance(known: Mapping[str, np.ndarray], styles: Mapping[str, VariantStyle]) -> Drawing:
    figure = Drawing(2.6)
    axes = figure.subplots()
    handles = []
    for index, (variant, distance) in enumerate(known.items()):
        layers = np.arange(1, len(distance) + 1) + 0.06 * (index - (len(known) - 1) / 2)
        look = styles.get(variant, numbered_style(index))
        heads = np.repeat(layers, distance.shape[1])
        axes.plot(heads, distance.ravel(), "o", ms=3, mew=0, alpha=0.5, color=look.colour)
        handles += axes.plot(layers, distance.mean(1), "-", marker=look.marker, ms=6, lw=1.4, color=look.colour)
    axes.set_xlabel("layer")
    axes.set_ylabel("attention distance, pixels")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(axis="y")
    legend(figure, handles, shorts(list(known)))
    return figure


def _overlay(model: ModelInspection) -> Plot:
    """Draw test images with class and prediction, the attention of the pooled tokens, and its rollout."""
    correct = sum(truth == predicted for truth, predicted in zip(model.truth, model.predicted))
    texts = captions.overlay(model.variant, model.run, len(model.images), correct, model.pool)
    return Plot(_file(f"attention-{model.run}"), _draw_overlay(model), *texts)


@style()
def _draw_overlay(model: ModelInspection) -> Drawing:
    """One panel for every four images: a column for each, with the image, its attention and its rollout below each other."""
    starts = range(0, len(model.images), IMAGES_ACROSS)
    figure = Drawing(3.6 * len(starts))
    for axes, start in zip(figure.subplots(len(starts), 1, squeeze=False)[:, 0], starts):
        _draw_images(axes, model, slice(start, start + IMAGES_ACROSS))
    return figure


def _draw_images(axes: Axes, model: ModelInspection, shown: slice) -> None:
    images = model.images[shown]
    colours = np.broadcast_to(images, (*images.shape[:3], 3))
    grey = np.repeat(images.mean(-1, keepdims=True), 3, -1)
    size, below = images.shape[1], [_over(grey, attention[shown]) for attention in (model.attention, model.rollout)]
    picture = mosaic(np.stack([colours, *below]))
    axes.imshow(np.ma.masked_invalid(picture), interpolation="nearest")
    axes.set_axis_off()
    for row, words in enumerate(("true\npredicted", "attention", "rollout")):
        middle = (row + 0.5) * (size + 1) if row else -0.04 * size
        place: dict[str, Any] = {"ha": "right", "va": "center" if row else "bottom", "fontsize": 8}
        axes.text(-0.05 * size, middle, words, **place)
    for column, (truth, predicted) in enumerate(zip(model.truth[shown], model.predicted[shown])):
        colour, middle = VERDICTS["equivalent" if truth == predicted else "worse"][0], column * (size + 1) + size / 2
        text = f"{_name(truth)}\n{_name(predicted)}"
        axes.text(middle - 0.5, -0.04 * size, text, color=colour, ha="center", va="bottom", fontsize=8)


def _over(grey: np.ndarray, attention: np.ndarray) -> np.ndarray:
    """Images [n, S, S, 3] under the colours of their attention [n, S, S], from the least (black) to the most (yellow)."""
    low, high = (end(attention, axis=(1, 2), keepdims=True) for end in (np.min, np.max))
    share = (attention - low) / np.where(high > low, high - low, 1)
    return 0.4 * grey + 0.6 * matplotlib.colormaps["inferno"](share)[..., :3]


def _name(text: str) -> str:
    text = plain(text)
    return text if len(text) <= CLASS_NAME else f"{text[: CLASS_NAME - 1]}…"


def _file(name: str) -> str:
    """A name that any file system accepts. Run folders have such names, but a user can rename them."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "-_=.,") else "-" for c in name)
