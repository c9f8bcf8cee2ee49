"""A figure with a panel for each variant: one line and its intervals, over the lines of all others in grey."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

from matplotlib.axes import Axes

from analysis.figures.labels import VariantStyle
from analysis.figures.style import FAINT, INK, PALETTE, Drawing, style
from analysis.figures.variant_lines import Condition, Line, draw_line

COLUMNS = 3
PANEL = 1.25  # inches: the height of a panel
TITLE, TITLE_LINE = 20, 0.14  # characters of a line of a title, and its height in inches
ROOM = 1 / 6  # of the axis: what the text of a point needs


@style()
def draw_panels(lines: Sequence[Line], baseline: Line | None, along: Condition) -> Drawing:
    """Draw a panel for each line. `baseline`, where there is one, is drawn in every panel, dashed and without intervals."""
    down = -(-len(lines) // COLUMNS)
    titles = [_title(line.name) for line in lines]
    height = PANEL + TITLE_LINE * (max(map(len, titles)) - 1)
    figure = Drawing(height * down + 0.6)
    panels = list(figure.subplots(down, COLUMNS, sharex=True, sharey=True, squeeze=False).ravel())
    for axes, line, title in zip(panels, lines, titles, strict=False):
        _draw_panel(axes, line, lines, baseline, along)
        axes.set_title("\n".join(title), fontsize=8.5, fontweight="normal")
    for axes in panels[len(lines) :]:
        axes.set_visible(False)
    for axes in panels[max(0, len(lines) - COLUMNS) : len(lines)]:
        axes.tick_params(labelbottom=True)
    figure.supxlabel(along.labels[0], fontsize=10)
    figure.supylabel(along.labels[1], fontsize=10)
    return figure


def _draw_panel(axes: Axes, line: Line, lines: Sequence[Line], baseline: Line | None, along: Condition) -> None:
    places, metric = along.places, along.metric
    for other in lines:
        if other is not line:
            axes.plot(places, other.values(metric), color=FAINT, lw=0.5, alpha=0.4, zorder=1)
    if baseline is not None and line is not baseline:
        axes.plot(places, baseline.values(metric), color=INK, lw=1, ls="--", zorder=2)
    draw_line(axes, line, along, VariantStyle(INK if line is baseline else PALETTE[0], "o"), size=3)
    axes.set_xticks(list(places), _spaced(along.points, places), fontsize=8)
    axes.tick_params(axis="y", labelsize=8)
    axes.grid(axis="y")


def _title(name: str) -> list[str]:
    """The lines of a title. A level stays on the line of its factor."""
    return [
        line.replace("_=_", " = ") for line in textwrap.wrap(name.replace(" = ", "_=_"), TITLE, break_on_hyphens=False)
    ]


def _spaced(points: Sequence[str], places: Sequence[float]) -> list[str]:
    """The texts of the points from the last one on, without those that the next text leaves no room for."""
    least, shown = ROOM * (places[-1] - places[0]), math.inf
    texts = []
    for text, place in zip(reversed(points), reversed(places), strict=True):
        fits = shown - place >= least
        texts.append(text if fits else "")
        shown = place if fits else shown
    return texts[::-1]
