"""The figure of the test images on which variants differ most. StudyResults and pictures in, a figure out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from analysis import formatting
from analysis.figures import captions
from analysis.figures.drawing import legend
from analysis.figures.inspect import Pictures, load_pictures
from analysis.figures.labels import coloured, labels, variant_styles
from analysis.figures.style import BAND, FAINT, Drawing, Plot, style
from analysis.results.images import MOST_IMAGES
from analysis.results.study_results import StudyResults
from analysis.sources.settings import cell_value
from experiments.errors import UserError

ACROSS = 2  # images side by side
ROW_HEIGHT = 1.3  # inches
MOST_NUMBERED = 6  # variants up to which bars show their value
LONGEST_CLASS = 14  # characters


def disagreement_plot(results: StudyResults) -> tuple[Plot | None, str]:
    """Return the figure, or None and the reason; the reason is empty where the variants do not differ.

    It loads the dataset, which imports torch.
    """
    images = results.images
    found = images.disagreement(MOST_IMAGES) if images is not None else []
    if images is None or not found:
        return None, ""
    variant = images.comparable[0]
    finished = results.study.of("finished")
    settings = finished[finished["variant"] == variant].iloc[0]
    paths = [str(path) for path in settings.index if "." in str(path)]
    try:
        pictures = load_pictures(
            {path: cell_value(settings[path]) for path in ("seed", *paths)},
            [image for image, _ in found],
            images.hits[variant].labels,
        )
    except (UserError, KeyError) as error:
        reason = f"the record lacks {error}" if isinstance(error, KeyError) else str(error)
        return None, f"The images cannot be shown, because they cannot be loaded: {reason}."
    shown = variant_styles(results)
    colours = {name: shown[name].colour for name in coloured(results) if name in images.comparable}
    classes = list(zip((index for index, _ in found), pictures.classes))
    ends: list[Mapping[str, float]] = [shares for _, shares in found]
    texts = captions.disagreement(classes, ends, len(colours) < len(ends[0]))
    return Plot("disagreement", _draw(results, pictures, found, colours), *texts), ""


@style()
def _draw(
    results: StudyResults, pictures: Pictures, found: list[tuple[int, dict[str, float]]], colours: Mapping[str, str]
) -> Drawing:
    """Draw each image with its class, and beside it a bar for each variant that has a colour."""
    down = -(-len(found) // ACROSS)
    figure = Drawing(ROW_HEIGHT * down + 0.3)
    grid = figure.subplots(down, 2 * ACROSS, squeeze=False, width_ratios=[1, 1.15] * ACROSS).reshape(-1, 2)
    for place, (image, bars) in enumerate(grid):
        if place >= len(found):
            image.set_visible(False)
            bars.set_visible(False)
            continue
        index, shares = found[place]
        picture = pictures.images[place]
        image.imshow(picture.squeeze(), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        image.set_title(
            f"{_class(pictures.classes[place])} (image {index})", fontsize=8, fontweight="normal", loc="left"
        )
        image.set_axis_off()
        _bars(bars, [shares[variant] for variant in colours], list(colours.values()))
    handles = [figure.axes[0].plot([], [], "s", color=colour, ms=7)[0] for colour in colours.values()]
    legend(figure, handles, labels(results, list(colours)))
    return figure


def _bars(axes: Axes, shares: list[float], colours: list[str]) -> None:
    """Draw the share of each variant's runs that are correct, from 0 to 100 %, on a grey track."""
    rows = np.arange(len(shares))
    axes.barh(rows, 1, height=0.7, color=BAND, lw=0)
    axes.barh(rows, shares, height=0.7, color=colours, lw=0)
    axes.axvline(0, color=FAINT, lw=1)
    if len(shares) <= MOST_NUMBERED:
        place: dict[str, Any] = {"va": "center", "fontsize": 7}
        for row, share in enumerate(shares):
            axes.text(1.06, row, formatting.number(100 * share, 0), **place)
    axes.set_xlim(0, 1.5)
    axes.set_ylim(len(shares) - 0.4, -0.6)
    axes.set_axis_off()


def _class(name: str) -> str:
    name = formatting.plain(name)
    return name if len(name) <= LONGEST_CLASS else f"{name[: LONGEST_CLASS - 1]}…"
