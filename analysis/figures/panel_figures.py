"""A figure with a panel for each variant: one line and its intervals, over the lines of all others in grey."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures.style import FAINT, INK, PALETTE, Tips, narrow, width
from analysis.figures.variant_lines import Condition, Line, draw_line

COLUMNS, NARROW_COLUMNS = 5, 3
PANEL = 1.25  # inches: the height of a panel
ROOM = 1 / 6  # of the axis: what the text of a point needs


def draw_panels(lines: Sequence[Line], baseline: Line, along: Condition, tips: Tips) -> Figure:
    """Draw a panel for each line. `baseline` is drawn in every panel, dashed and without intervals."""
    columns = NARROW_COLUMNS if narrow() else COLUMNS
    down = -(-len(lines) // columns)
    figure = Figure(figsize=(width(), PANEL * down + 0.6))
    panels = list(figure.subplots(down, columns, sharex=True, sharey=True, squeeze=False).ravel())
    for axes, line in zip(panels, lines, strict=False):
        _draw_panel(axes, line, lines, baseline, along, tips)
    for axes in panels[len(lines) :]:
        axes.set_visible(False)
    for axes in panels[max(0, len(lines) - columns) : len(lines)]:
        axes.tick_params(labelbottom=True)
    figure.supxlabel(along.labels[0], fontsize=10)
    figure.supylabel(along.labels[1], fontsize=10)
    return figure


def _draw_panel(axes: Axes, line: Line, lines: Sequence[Line], baseline: Line, along: Condition, tips: Tips) -> None:
    places, metric = along.places, along.metric
    for other in lines:
        if other is not line:
            axes.plot(places, other.values(metric), color=FAINT, lw=0.5, alpha=0.4, zorder=1)
    if line is not baseline:
        axes.plot(places, baseline.values(metric), color=INK, lw=1, ls="--", zorder=2)
    look = {"color": INK if line is baseline else PALETTE[0], "marker": "o"}
    draw_line(axes, line, along, tips, look, ms=3)
    axes.set_title(line.name, fontsize=8.5, fontweight="normal")
    axes.set_xticks(list(places), _spaced(along.points, places), fontsize=8)
    axes.tick_params(axis="y", labelsize=8)
    axes.grid(axis="y")


def _spaced(points: Sequence[str], places: Sequence[float]) -> list[str]:
    """The texts of the points, without those that the next one leaves no room for."""
    least = ROOM * (places[-1] - places[0])
    gaps = [after - before for before, after in pairwise(places)]
    return [text if gap >= least else "" for text, gap in zip(points, [*gaps, least], strict=True)]
