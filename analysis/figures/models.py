"""Figures of trained models, arrays in: position embeddings, and attention on test images."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.ticker import MaxNLocator

from analysis.figures.drawing import Styles, legend, panels, short
from analysis.figures.style import VERDICTS, WIDTH, Drawing, style
from analysis.words import MINUS

ACROSS = 2  # heat maps side by side
IMAGES_ACROSS = 4
TITLE_LINE = 24  # characters of the title of a heat map
CLASS_NAME = 9  # characters of a class that fit above an image
KINDS: dict[str, tuple[dict[str, Any], tuple[str, str, str]]] = {
    "similarity": ({"vmin": -1, "vmax": 1, "cmap": "PuOr"}, (f"{MINUS}1", "0", "1")),
    "table": ({"cmap": "PuOr", "aspect": "auto"}, ("lowest", "", "highest")),
    "logits": ({"cmap": "viridis"}, ("lowest", "", "highest")),
}
"""A kind of heat map -> its options, and what the ends and the middle of its scale of colours are called."""


def mosaic(tiles: np.ndarray) -> np.ndarray:
    """Arrange tiles [R, C, H, W] as one image [R (H + 1) - 1, C (W + 1) - 1], lines of NaN between."""
    down, across, height, width = tiles.shape
    apart = np.full((down, across, height + 1, width + 1), np.nan)
    apart[:, :, :height, :width] = tiles
    return apart.swapaxes(1, 2).reshape(down * (height + 1), across * (width + 1))[:-1, :-1]


@style()
def heat_maps(values: Mapping[str, np.ndarray], kind: str) -> Drawing:
    """Draw a heat map for each variant. `kind`: "similarity" or "logits", of tiles [G, G, G, G], or "table", [N, D].

    A title states the values at the ends of the scale of colours, but for similarities, which end at -1 and 1.
    """
    across, (options, ends) = min(ACROSS, len(values)), KINDS[kind]
    down = -(-len(values) // across)
    names = {variant: textwrap.fill(short(variant), TITLE_LINE) for variant in values}
    lines = 1 + max(name.count("\n") for name in names.values()) + (kind != "similarity")
    figure = Drawing((WIDTH / ACROSS + 0.15 * lines) * down + 0.4)
    grid = figure.subplots(down, across, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for axes, (variant, array) in zip(grid.flat, values.items()):
        image = axes.imshow(mosaic(array) if array.ndim == 4 else array, interpolation="none", **options)
        low, high = image.get_clim()
        limits = "" if kind == "similarity" else f"\n{low:.3g} to {high:.3g}".replace("-", MINUS)
        axes.set_title(names[variant] + limits, loc="left", fontsize="small")
    scale = figure.colorbar(image, ax=grid, location="bottom", aspect=40, fraction=0.04, pad=0.02)
    scale.set_ticks([low, (low + high) / 2, high], labels=ends, fontsize="small")
    return figure


@style()
def attention_distance(distances: Mapping[str, np.ndarray], styles: Styles) -> Drawing:
    """Draw the attention distance [depth, heads] of each variant by layer: heads as dots, and their mean."""
    figure, (axes,) = panels(2.6)
    handles = {}
    for number, (variant, distance) in enumerate(distances.items()):
        layers = np.arange(1, len(distance) + 1) + 0.06 * (number - (len(distances) - 1) / 2)
        colour, marker, _ = styles.by_variant[variant]
        axes.plot(layers, distance, "o", ms=3, mew=0, alpha=0.5, color=colour)
        (handles[styles.names[variant]],) = axes.plot(layers, distance.mean(1), marker=marker, lw=1.4, color=colour)
    axes.set(xlabel="layer", ylabel="attention distance, pixels")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(axis="y")
    legend(figure, handles)
    return figure


@style()
def overlay(images: np.ndarray, maps: Sequence[np.ndarray], truth: Sequence[str], predicted: Sequence[str]) -> Drawing:
    """Draw images [n, S, S, C] with class and prediction, four a row; below, `maps` [n, S, S]: attention, rollout."""
    grey, colours = images.mean(-1, keepdims=True), np.broadcast_to(images, (*images.shape[:3], 3))
    rows = dict(zip(("true\npredicted", "attention", "rollout"), (colours, *(_over(grey, part) for part in maps))))
    down = -(-len(images) // IMAGES_ACROSS)
    figure = Drawing(3.4 * down)
    grid = figure.subplots(down * len(rows), IMAGES_ACROSS, squeeze=False)
    for axes in grid.flat:
        axes.set(xticks=[], yticks=[], frame_on=False)
    for number, (label, guess) in enumerate(zip(truth, predicted)):
        below, column = divmod(number, IMAGES_ACROSS)
        for row, (name, pictures) in enumerate(rows.items(), start=below * len(rows)):
            grid[row, column].imshow(pictures[number], interpolation="none")
            grid[row, 0].set_ylabel(name, fontsize="small")
        colour = VERDICTS["equivalent" if label == guess else "worse"][0]
        names = "\n".join(short(name, CLASS_NAME) for name in (label, guess))
        grid[below * len(rows), column].set_title(names, color=colour, fontsize="small", fontweight="normal")
    return figure


def _over(grey: np.ndarray, attention: np.ndarray) -> np.ndarray:
    """Images [n, S, S, 1] under the colours of their attention [n, S, S], least (black) to most (yellow)."""
    low, high = (end(attention, axis=(1, 2), keepdims=True) for end in (np.min, np.max))
    share = (attention - low) / np.where(high > low, high - low, 1)
    return 0.4 * grey + 0.6 * matplotlib.colormaps["inferno"](share)[..., :3]
