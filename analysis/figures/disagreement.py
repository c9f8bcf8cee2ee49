"""The figure of the test images on which variants differ most."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from analysis.figures.drawing import legend
from analysis.figures.inspect import Pictures
from analysis.figures.labels import Styles, short
from analysis.figures.style import BAND, FAINT, Drawing, style
from analysis.results.images import Disagreement

ACROSS = 2  # images side by side
ROW_HEIGHT = 1.3  # inches
MOST_NUMBERED = 6  # variants up to which bars show their value
LONGEST_CLASS = 20  # characters


@style()
def disagreement_figure(shown: Sequence[Disagreement], pictures: Pictures, styles: Styles) -> Drawing:
    """Draw each image with its class, and beside it a bar for each variant that has a colour."""
    down = -(-len(shown) // ACROSS)
    figure = Drawing(ROW_HEIGHT * down + 0.3)
    grid = figure.subplots(down, 2 * ACROSS, squeeze=False, width_ratios=[1, 1.15] * ACROSS).reshape(-1, 2)
    for axes in grid.ravel():
        axes.set_axis_off()
    variants = [variant for variant in styles.coloured if variant in shown[0].shares]
    colours = [styles.by_variant[variant].colour for variant in variants]
    for (image, bars), disagreement, picture, name in zip(grid, shown, pictures.images, pictures.classes):
        image.imshow(picture.squeeze(), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        title = f"{short(name, LONGEST_CLASS)} (image {disagreement.image})"
        image.set_title(title, fontsize=8, fontweight="normal", loc="left")
        _bars(bars, [disagreement.shares[variant] for variant in variants], colours)
    handles = [figure.axes[0].plot([], [], "s", color=colour, ms=7)[0] for colour in colours]
    legend(figure, handles, [styles.names[variant] for variant in variants])
    return figure


def _bars(axes: Axes, shares: Sequence[float], colours: Sequence[str]) -> None:
    """Draw shares of correct runs from 0 to 100 %, on a grey track."""
    rows = np.arange(len(shares))
    axes.barh(rows, 1, height=0.7, color=BAND, lw=0)
    axes.barh(rows, shares, height=0.7, color=colours, lw=0)
    axes.axvline(0, color=FAINT, lw=1)
    if len(shares) <= MOST_NUMBERED:
        for row, share in enumerate(shares):
            axes.text(1.06, row, f"{100 * share:.0f}", va="center", fontsize=7)
    axes.set_xlim(0, 1.5)
    axes.set_ylim(len(shares) - 0.4, -0.6)
