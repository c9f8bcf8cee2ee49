"""What figures share: panels, means with their intervals, the legend, and the ids and tips of marks."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer

from analysis import words
from analysis.figures.style import WIDTH, Drawing
from analysis.figures.styles import Styles, VariantStyle
from analysis.verdicts import Estimate
from experiments.metric import Metric

LEGEND_LINE, LEGEND_ROW = 12.6, 0.19  # characters of an inch of a legend, with 8 for each mark; its rows in inches


def panels(*heights: float, width: float = WIDTH, new: Callable[..., Any] = Drawing) -> tuple[Drawing, list[Axes]]:
    """Make a figure of panels below each other, of these heights in inches; `new`: makes it."""
    figure = new(height=sum(heights), width=width)
    return figure, list(figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0])


def intervals(
    axes: Axes,
    means: Sequence[Estimate],
    places: np.ndarray,
    metric: Metric,
    look: VariantStyle,
    id: str,
    tips: Sequence[str],
    *,
    size: float = 5,
    line: str = "",
) -> ErrorbarContainer:
    """Draw means at `places`, with their intervals, which are cut at what the metric can be.

    A mean without a value is not drawn, and one without an interval has no bar. `line`: the dashes of the line that
    joins the means; `size`: of the marks. `tips`: a text for each mean; `id`: see `identify`.
    """
    lowest, highest = words.limits(metric)
    values, low, high = np.array([(mean.value, mean.low, mean.high) for mean in means]).T * metric.scale
    ends = np.clip([low, high], lowest * metric.scale, highest * metric.scale)
    bars = np.nan_to_num(np.abs(ends - values))
    marks: dict[str, Any] = {"color": look.colour, "marker": look.marker, "ms": size}
    drawn = axes.errorbar(places, values, bars, ls=line, lw=1.2, elinewidth=1.8, zorder=3, **marks)
    mark, _, segments = drawn.lines
    identify([mark, *segments], id, [tip for tip, value in zip(tips, values) if np.isfinite(value)])
    return drawn


def identify(artists: Sequence[Artist], id: str, tips: Sequence[str] = ()) -> None:
    """Give artists ids that start with `id`; `tips` are what the page shows at the marks of the first one."""
    for number, artist in enumerate(artists):
        artist.set_gid(f"{id}-{number}")
    figure = artists[0].get_figure()
    if isinstance(figure, Drawing) and tips:
        figure.tips[f"{id}-0"] = tuple(tips)


def legend(figure: Drawing, handles: Mapping[str, Any], styles: Styles | None = None) -> None:
    """Add a legend below the panels and make the figure higher by it. `handles`: name -> what stands before it.

    With `styles`, names are variants: those without a colour are left out, and the page hides a variant by its name.
    """
    if styles:
        handles = {variant: handles[variant] for variant in styles.coloured if variant in handles}
    if not handles:
        return
    names = [styles.names[variant] for variant in handles] if styles else [*handles]
    columns = int(LEGEND_LINE * figure.get_figwidth()) // (max(map(len, names)) + 8)
    columns = max(1, min(4, columns))
    figure.set_figheight(figure.get_figheight() + LEGEND_ROW * -(-len(names) // columns))
    # Matplotlib before 3.11 leaves out a name with "_" first
    names = [" " * name.startswith("_") + name for name in names]
    drawn = figure.legend([*handles.values()], names, loc="outside lower center", ncols=columns)
    if styles:
        for text, variant in zip(drawn.get_texts(), handles):
            identify([text], f"{styles.id(variant)}-legend")
