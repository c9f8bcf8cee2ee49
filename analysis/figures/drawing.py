"""What figures share: rows and panels, estimates with their intervals, the legend, and the ids and tips of marks."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer

from analysis import formatting
from analysis.figures.labels import Styles, VariantStyle
from analysis.figures.style import Drawing
from analysis.stats import Estimate
from experiments.metric import Metric

ROW, LINE = 0.3, 0.17  # inches: of a row, and of a line of its name
MANY_ROWS = 40  # rows from which they are drawn closer together
NAME_LINE = 22  # characters of a line of a row's name
LEGEND_LINE, LEGEND_ROW = 58, 0.19  # characters of a row of a legend, with 8 for each mark; its height in inches


def rows(names: Sequence[str], columns: int = 1) -> tuple[Drawing, list[Axes]]:
    """Make a figure with one row for each name, the first at the top, and `columns` panels side by side."""
    names = [textwrap.fill(name, NAME_LINE, break_on_hyphens=False) for name in names]
    lines = max((name.count("\n") + 1 for name in names), default=1)
    height = max(ROW if len(names) <= MANY_ROWS else 0.7 * ROW, LINE * lines + 0.04)
    figure = Drawing(max(1.5, 0.9 + height * len(names)))
    panels = list(figure.subplots(1, columns, sharey=True, squeeze=False)[0])
    panels[0].set_yticks(range(len(names)), names, fontsize=9.5)
    panels[0].set_ylim(len(names) - 0.4, -0.6)
    for axes in panels:
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x")
    return figure, panels


def panels(count: int, height: float) -> tuple[Drawing, list[Axes]]:
    """Make a figure of panels below each other, each `height` inches high."""
    figure = Drawing(height * count)
    return figure, list(figure.subplots(count, 1, squeeze=False)[:, 0])


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
    drawn, and one without an interval has no bar. `line`: the dashes of the line that joins the estimates. `tips`: a text
    for each estimate, `id`: see `identify`.
    """
    limits = formatting.UNBOUNDED if difference else formatting.limits(metric)
    values = [estimate.value * metric.scale for estimate in estimates]
    bars = _bars(estimates, metric.scale, limits)
    points: dict[str, Any] = (
        {"x": places, "y": values, "yerr": bars} if vertical else {"x": values, "y": places, "xerr": bars}
    )
    drawn = axes.errorbar(
        **points, color=look.colour, marker=look.marker, ms=size, ls=line, lw=1.2, elinewidth=1.8, zorder=3
    )
    mark, _, segments = drawn.lines
    known = [tip for tip, value in zip(tips, values) if math.isfinite(value)]
    identify([mark, *segments], id, known)
    return drawn


def _bars(estimates: Sequence[Estimate], scale: float, limits: tuple[float, float]) -> list[list[float]]:
    """The lengths of the bars below and above each value, cut at `limits`; 0 where there is no interval."""
    sides = [
        (estimate.value - max(estimate.low, limits[0]), min(estimate.high, limits[1]) - estimate.value)
        if math.isfinite(formatting.half_width(estimate))
        else (0.0, 0.0)
        for estimate in estimates
    ]
    return [[max(length, 0.0) * scale for length in side] for side in zip(*sides, strict=True)]


def identify(artists: Sequence[Artist], id: str, tips: Sequence[str] = ()) -> None:
    """Give artists ids that start with `id`; `tips` are what the page shows at the marks of the first one."""
    for number, artist in enumerate(artists):
        artist.set_gid(f"{id}-{number}" if id else None)
    figure = artists[0].get_figure() if artists else None
    if isinstance(figure, Drawing) and id and tips:
        figure.tips[f"{id}-0"] = tuple(tips)


def legend(figure: Drawing, handles: Sequence[Any], names: Sequence[str], ids: Sequence[str] = ()) -> None:
    """Add a legend below the panels and make the figure higher by it. `ids`: of the names, for those that hide a variant."""
    columns = max(1, min(4, LEGEND_LINE // (max(map(len, names)) + 8)))
    figure.set_figheight(figure.get_figheight() + LEGEND_ROW * -(-len(names) // columns))
    drawn = figure.legend(handles, names, loc="outside lower center", ncols=columns)
    for text, id in zip(drawn.get_texts(), ids):
        identify([text], id)


def variants_legend(figure: Drawing, handles: Mapping[str, Any], styles: Styles) -> None:
    """Add a legend of the variants with a colour, whose names hide and show them on the page. `handles`: by variant."""
    ids = [f"{styles.id(variant)}-legend" for variant in styles.coloured]
    names = [styles.names[variant] for variant in styles.coloured]
    legend(figure, [handles[variant] for variant in styles.coloured], names, ids)
