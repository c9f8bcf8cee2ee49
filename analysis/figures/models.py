"""Figures of trained models, arrays in: position embeddings, and attention on test images."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from analysis.figures.drawing import legend
from analysis.figures.style import VERDICTS, WIDTH, Drawing, style, text_size
from analysis.figures.styles import Styles, short
from analysis.words import MINUS, plain

ACROSS = 2  # heat maps side by side
IMAGES_ACROSS = 4
TITLE_LINE = 24  # characters of the title of a heat map
CLASS_NAME = 9  # characters of a class that fit above an image


def mosaic(tiles: np.ndarray) -> np.ndarray:
    """Arrange tiles [R, C, H, W, ...] as one image [R (H + 1) - 1, C (W + 1) - 1, ...], lines of NaN between."""
    down, across, height, width, *channels = tiles.shape
    apart = np.full((down, across, height + 1, width + 1, *channels), np.nan)
    apart[:, :, :height, :width] = tiles
    return apart.swapaxes(1, 2).reshape(down * (height + 1), across * (width + 1), *channels)[:-1, :-1]


OPTIONS: dict[str, dict[str, Any]] = {
    "similarity": {"vmin": -1, "vmax": 1, "cmap": "PuOr"},
    "logits": {"cmap": "viridis"},
}

ENDS = {"similarity": (f"{MINUS}1", "0", "1"), "logits": ("lowest", "", "highest")}
"""What the ends and the middle of the scale of colours are called."""


@style()
def heat_maps(values: Mapping[str, np.ndarray], kind: str) -> Drawing:
    """Draw a heat map of tiles [G, G, G, G] for each variant; `kind`: "similarity" or "logits".

    A title states the values at the ends of the scale of colours, but for similarities, which end at -1 and 1.
    """
    across = min(ACROSS, len(values))
    down = -(-len(values) // across)
    names = {variant: textwrap.fill(short(variant), TITLE_LINE) for variant in values}
    lines = 1 + max(name.count("\n") for name in names.values()) + (kind != "similarity")
    figure = Drawing((WIDTH / ACROSS + 0.15 * lines) * down + 0.4)
    panels = figure.subplots(down, across, squeeze=False)
    for axes, (variant, array) in zip(panels.ravel(), values.items()):
        image = axes.imshow(mosaic(array), interpolation="none", **OPTIONS[kind])
        ends = "" if kind == "similarity" else f"\n{image.norm.vmin:.3g} to {image.norm.vmax:.3g}".replace("-", MINUS)
        axes.set_title(names[variant] + ends, loc="left", fontsize=text_size(9))
        axes.set_axis_off()
    for axes in panels.ravel()[len(values) :]:
        axes.set_visible(False)
    scale = figure.colorbar(image, ax=panels, location="bottom", aspect=40, fraction=0.04, pad=0.02)
    low, high = image.norm.vmin, image.norm.vmax
    scale.set_ticks([low, (low + high) / 2, high], labels=ENDS[kind], fontsize=text_size(8))
    return figure


@style()
def attention_distance(distances: Mapping[str, np.ndarray], styles: Styles) -> Drawing:
    """Draw the attention distance [depth, heads] of each variant by layer: heads as dots, and their mean."""
    figure = Drawing(2.6)
    axes, handles = figure.subplots(), {}
    for index, (variant, distance) in enumerate(distances.items()):
        layers = np.arange(1, len(distance) + 1) + 0.06 * (index - (len(distances) - 1) / 2)
        look = styles.by_variant[variant]
        heads = np.repeat(layers, distance.shape[1])
        axes.plot(heads, distance.ravel(), "o", ms=3, mew=0, alpha=0.5, color=look.colour)
        line: dict[str, Any] = {"marker": look.marker, "ms": 6, "lw": 1.4, "color": look.colour}
        (handles[styles.names[variant]],) = axes.plot(layers, distance.mean(1), "-", **line)
    axes.set_xlabel("layer")
    axes.set_ylabel("attention distance, pixels")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(axis="y")
    legend(figure, handles)
    return figure


@style()
def overlay(images: np.ndarray, maps: Sequence[np.ndarray], truth: Sequence[str], predicted: Sequence[str]) -> Drawing:
    """Draw images [n, S, S, C] with class and prediction, four a panel; below, `maps` [n, S, S]: attention, rollout."""
    starts = range(0, len(images), IMAGES_ACROSS)
    figure = Drawing(3.4 * len(starts))
    for axes, start in zip(figure.subplots(len(starts), 1, squeeze=False)[:, 0], starts):
        shown = slice(start, start + IMAGES_ACROSS)
        _draw_images(axes, images[shown], [part[shown] for part in maps], truth[shown], predicted[shown])
    return figure


def _draw_images(
    axes: Axes, images: np.ndarray, maps: Sequence[np.ndarray], truth: Sequence[str], predicted: Sequence[str]
) -> None:
    colours = np.broadcast_to(images, (*images.shape[:3], 3))
    grey = np.repeat(images.mean(-1, keepdims=True), 3, -1)
    size, below = images.shape[1], [_over(grey, attention) for attention in maps]
    picture = mosaic(np.stack([colours, *below]))
    opaque = np.isfinite(picture[..., :1])
    axes.imshow(np.concatenate([np.where(opaque, picture, 0), opaque], axis=-1), interpolation="none")
    axes.set_axis_off()
    for row, words in enumerate(("true\npredicted", "attention", "rollout")):
        middle = (row + 0.5) * (size + 1) if row else -0.04 * size
        place: dict[str, Any] = {"ha": "right", "va": "center" if row else "bottom", "fontsize": text_size(8)}
        axes.text(-0.12 * size, middle, words, **place)
    for column, (label, guess) in enumerate(zip(truth, predicted)):
        colour, middle = VERDICTS["equivalent" if label == guess else "worse"][0], column * (size + 1) + size / 2
        text = f"{_name(label)}\n{_name(guess)}"
        axes.text(middle - 0.5, -0.04 * size, text, color=colour, ha="center", va="bottom", fontsize=text_size(8))


def _over(grey: np.ndarray, attention: np.ndarray) -> np.ndarray:
    """Images [n, S, S, 3] under the colours of their attention [n, S, S], least (black) to most (yellow)."""
    low, high = (end(attention, axis=(1, 2), keepdims=True) for end in (np.min, np.max))
    share = (attention - low) / np.where(high > low, high - low, 1)
    return 0.4 * grey + 0.6 * matplotlib.colormaps["inferno"](share)[..., :3]


def _name(text: str) -> str:
    text = plain(text)
    return text if len(text) <= CLASS_NAME else f"{text[: CLASS_NAME - 1]}…"
