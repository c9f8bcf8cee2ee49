"""What figures share: rows and panels, estimates with their intervals, the legend, and the ids and tips of marks."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer

from analysis import words
from analysis.figures.style import WIDTH, Drawing, text_size
from analysis.figures.styles import Styles, VariantStyle
from analysis.verdicts import Estimate
from experiments.metric import Metric

ROW, LINE = 0.3, 0.17  # inches: of a row, and of a line of its name
MANY_ROWS = 40  # rows from which they are drawn closer together
NAME_LINE = 22  # characters of a line of a row's name
LEGEND_LINE, LEGEND_ROW = 58, 0.19  # characters of a row of a legend, with 8 for each mark; its height in inches


def rows(*panels: Sequence[str], width: float | None = None) -> tuple[Drawing, list[Axes]]:
    """Make a figure of panels below each other, each with one row for each of its names, the first at the top."""
    wrapped = [[textwrap.fill(name, NAME_LINE, break_on_hyphens=False) for name in names] for names in panels]
    lines = max((name.count("\n") + 1 for names in wrapped for name in names), default=1)
    height = max(ROW if len(panels[0]) <= MANY_ROWS else 0.7 * ROW, LINE * lines + 0.04)
    heights = [max(1.5, 0.9 + height * len(names)) for names in wrapped]
    figure = Drawing(sum(heights), width)
    drawn = list(figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0])
    for axes, names in zip(drawn, wrapped):
        label_rows(axes, names, 9.5)
    return figure, drawn


def panels(count: int, height: float) -> tuple[Drawing, list[Axes]]:
    """Make a figure of panels below each other, each `height` inches high."""
    figure = Drawing(height * count)
    return figure, list(figure.subplots(count, 1, squeeze=False)[:, 0])


def label_rows(axes: Axes, names: Sequence[str], size: float) -> None:
    """Name the rows of a panel, the first at the top, with text of this size."""
    axes.set_yticks(range(len(names)), names, fontsize=text_size(size))
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")


def intervals(
    axes: Axes,
    estimates: Sequence[Estimate],
    places: Sequence[float],
    metric: Metric,
    look: VariantStyle,
    *,
    vertical: bool = False,
    difference: bool = False,
    size: float = 6,
    line: str = "",
    id: str = "",
    tips: Sequence[str] = (),
) -> ErrorbarContainer:
    """Draw estimates with their intervals at `places` on the other axis: in rows, or `vertical`.

    Intervals are cut at what the metric can be, unless they are of a `difference`. An estimate without a value is not
    drawn, and one without an interval has no bar. `line`: the dashes of the line that joins the estimates. `tips`: a
    text for each estimate, `id`: see `identify`.
    """
    limits = words.limits(metric, difference)
    values, low, high = np.array([(one.value, one.low, one.high) for one in estimates]).T
    bars = np.maximum([values - np.maximum(low, limits[0]), np.minimum(high, limits[1]) - values], 0) * metric.scale
    bars[:, ~np.isfinite(high - low)] = 0
    values = values * metric.scale
    across, up = (places, values) if vertical else (values, places)
    points: dict[str, Any] = {"x": across, "y": up, "yerr" if vertical else "xerr": bars}
    drawn = axes.errorbar(
        **points, color=look.colour, marker=look.marker, ms=size, ls=line, lw=1.2, elinewidth=1.8, zorder=3
    )
    mark, _, segments = drawn.lines
    identify([mark, *segments], id, [tip for tip, value in zip(tips, values) if np.isfinite(value)])
    return drawn


def identify(artists: Sequence[Artist], id: str, tips: Sequence[str] = ()) -> None:
    """Give artists ids that start with `id`; `tips` are what the page shows at the marks of the first one."""
    for number, artist in enumerate(artists):
        artist.set_gid(f"{id}-{number}" if id else None)
    figure = artists[0].get_figure() if artists else None
    if isinstance(figure, Drawing) and id and tips:
        figure.tips[f"{id}-0"] = tuple(tips)


def legend(figure: Drawing, handles: Mapping[str, Any], styles: Styles | None = None) -> None:
    """Add a legend below the panels and make the figure higher by it. `handles`: name -> what stands before it.

    With `styles`, names are variants: those without a colour are left out, and the page hides a variant by its name.
    """
    if styles:
        handles = {name: handles[name] for name in styles.coloured if name in handles}
    if not handles:
        return
    names = [styles.names[variant] for variant in handles] if styles else [*handles]
    line = LEGEND_LINE * figure.get_figwidth() / WIDTH / text_size(1)
    columns = max(1, min(4, int(line // (max(map(len, names)) + 8))))
    row = LEGEND_ROW * figure.get_figwidth() / WIDTH
    figure.set_figheight(figure.get_figheight() + row * -(-len(names) // columns))
    # Matplotlib before 3.11 leaves out a name with "_" first
    shown = [" " * name.startswith("_") + name for name in names]
    drawn = figure.legend([*handles.values()], shown, loc="outside lower center", ncols=columns)
    for text, name in zip(drawn.get_texts(), handles):
        identify([text], f"{styles.id(name)}-legend" if styles else "")
