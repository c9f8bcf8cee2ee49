"""How figures name and draw variants, and what figures share: panels, means with their intervals, legend, ids, tips."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer

from analysis import words
from analysis.figures.style import FAINT, MARKERS, WIDTH, Drawing, ink, palette, style
from analysis.verdicts import Estimate
from experiments.metric import Metric

LONGEST, LONGEST_APART = 34, 54  # characters of a name that a figure shows; where more are needed to tell names apart
ONLY_COLOURED = "Drawn: the baseline and the variants with the highest and lowest means. The tables have all."
LEGEND_LINE, LEGEND_ROW = 12.6, 0.19  # characters of an inch of a legend, with 8 for each mark; its rows in inches


class VariantStyle(NamedTuple):
    """How figures draw a variant."""

    colour: str
    marker: str
    dashes: str = "-"


@dataclass(frozen=True)
class Styles:
    """The variants in the figures of a study.

    `by_variant`: every variant, in order; those without a colour of their own are grey. `names`: their short names, cut
    to what a figure has room for. `coloured`: the variants with a colour, in order.
    """

    by_variant: dict[str, VariantStyle]
    names: dict[str, str]
    coloured: list[str]

    def id(self, variant: str) -> str:
        """What the ids of the variant's artists start with: `v3`."""
        return f"v{list(self.by_variant).index(variant)}"

    @property
    def note(self) -> str:
        """What a caption says where there are more variants than colours, with a leading space."""
        return " Grey: variants without a colour of their own." * (len(self.coloured) < len(self.by_variant))


@style()
def styles_of(names: Mapping[str, str], baseline: str, means: Mapping[str, float]) -> Styles:
    """Give each variant a colour if there are enough, not counting the baseline's; else only the baseline, the best and
    the worst have one.

    `names`: variant -> its brief name, in order. `means`: those that are known.
    """
    colours, coloured = palette(), list(names)
    if len(names) > len(colours) + 1:  # the baseline needs none
        by_mean = sorted((v for v in names if v in means and v != baseline), key=means.__getitem__)
        half = len(colours) // 2
        extremes = {baseline, *by_mean[: half - 1], *by_mean[-half:]}
        coloured = [variant for variant in names if variant in extremes]
    styles = dict.fromkeys(names, VariantStyle(FAINT, "o"))
    others = [variant for variant in coloured if variant != baseline]
    looks = zip(colours, MARKERS, ("-", "--", "-.", ":") * 2, strict=True)
    styles.update((variant, VariantStyle(*look)) for variant, look in zip(others, looks))
    styles[baseline] = VariantStyle(ink(), "D")
    return Styles(styles, dict(zip(names, shorts(list(names.values())), strict=True)), coloured)


def short(name: str, longest: int = LONGEST) -> str:
    """Return a name that fits into a figure: the middle of a long one is left out. Tables show it in full."""
    name, end = words.plain(name), 2 * longest // 5
    return name if len(name) <= longest else f"{name[: longest - end - 1]}…{name[-end:]}"


def shorts(names: Sequence[str]) -> list[str]:
    """Return the names as `short` does, and longer where two different names would look the same."""
    for longest in (LONGEST, *range(LONGEST_APART, max(map(len, names), default=0), 4)):
        cut = [short(name, longest) for name in names]
        if len(set(cut)) == len(set(names)):
            return cut
    return [words.plain(name) for name in names]


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
