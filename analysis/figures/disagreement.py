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
HEIGHT, PITCH = 1.24, 2.5  # of an image with its title, and of an image with its bars; the side of an image is 1
UNIT = 0.95  # inches: about the side of an image
MOST_NUMBERED = 6  # variants up to which bars show their value
LONGEST_CLASS = 20  # characters


@style()
def disagreement_figure(shown: Sequence[Disagreement], pictures: Pictures, styles: Styles) -> Drawing:
    """Draw each image with its class, and beside it a bar for each variant that has a colour."""
    down = -(-len(shown) // ACROSS)
    figure = Drawing(UNIT * HEIGHT * down)
    axes = figure.subplots()
    axes.set_axis_off()
    variants = [variant for variant in styles.coloured if variant in shown[0].shares]
    colours = [styles.by_variant[variant].colour for variant in variants]
    for place, (disagreement, picture, name) in enumerate(zip(shown, pictures.images, pictures.classes)):
        top, left = HEIGHT * (place // ACROSS), PITCH * (place % ACROSS)
        extent = (left, left + 1, top + 1, top)
        axes.imshow(picture.squeeze(), cmap="gray", vmin=0, vmax=1, interpolation="none", extent=extent)
        title = f"{short(name, LONGEST_CLASS)} (image {disagreement.image})"
        axes.text(left, top - 0.03, title, fontsize=8, va="bottom")
        _bars(axes, left + 1.1, top, [disagreement.shares[variant] for variant in variants], colours)
    axes.set_xlim(0, PITCH * ACROSS - 0.1)
    axes.set_ylim(HEIGHT * down - 0.2, 1 - HEIGHT)
    handles = [axes.plot([], [], "s", color=colour, ms=7)[0] for colour in colours]
    legend(figure, handles, [styles.names[variant] for variant in variants])
    return figure


def _bars(axes: Axes, left: float, top: float, shares: Sequence[float], colours: Sequence[str]) -> None:
    """Draw shares of correct runs from 0 to 100 %, on a grey track, beside an image."""
    rows = top + (np.arange(len(shares)) + 0.5) / len(shares)
    axes.barh(rows, 1, height=0.7 / len(shares), left=left, color=BAND, lw=0)
    axes.barh(rows, shares, height=0.7 / len(shares), left=left, color=colours, lw=0)
    axes.plot([left, left], [top, top + 1], color=FAINT, lw=1)
    if len(shares) <= MOST_NUMBERED:
        for row, share in zip(rows, shares):
            axes.text(left + 1.03, row, f"{100 * share:.0f}", va="center", fontsize=7)
