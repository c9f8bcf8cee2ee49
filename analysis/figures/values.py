"""Figures of a metric: by epoch, along a condition, against cost, of the trials of a tuning, and by two factors."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from analysis import verdicts, words
from analysis.figures.drawing import Styles, VariantStyle, identify, intervals, legend, panels, shorts
from analysis.figures.style import FAINT, Drawing, style
from analysis.runs.runs import in_order
from analysis.verdicts import Estimate
from experiments.metric import Metric

FEWEST_FOR_BAND = 5  # runs from which a curve has a band; the interval of fewer can fill the panel
MOST_POINTS = 40  # epochs of a curve whose values the page shows under the pointer
DODGE = 0.25  # of the distance of two points: over how much of it the bars of several lines are spread
MOST_ANNOTATED = 100  # cells of a heat map that show their values


@style()
def draw_curves(curves: pd.DataFrame, styles: Styles) -> Drawing:
    """Draw the mean of each metric by epoch for the variants with a colour, with its interval or its runs.

    `curves`: a row for each metric, variant, run and epoch, with its `value`.
    """
    metrics = list(map(Metric, curves["metric"].unique()))
    figure, below = panels(*[2.0] * len(metrics))
    handles = {}
    for number, (axes, metric) in enumerate(zip(below, metrics, strict=True)):
        for variant in styles.coloured:
            rows = curves[(curves["metric"] == metric) & (curves["variant"] == variant)]
            if rows.empty:
                continue
            handles[variant], *around = _draw_curve(axes, rows, metric, styles.by_variant[variant])
            points = [handles[variant].get_xydata()[at] for at in handles[variant].get_markevery()]
            values = [f"epoch {epoch:g}: {words.value(value / metric.scale, metric)}" for epoch, value in points]
            tips = [f"{styles.names[variant]}, {value}" for value in values]
            identify([handles[variant], *around], f"{styles.id(variant)}-curve-{number}", tips)
        axes.set(xlabel="epoch" if axes is below[-1] else "", ylabel="")
        axes.set_title(f"{metric.label}{metric.unit}", loc="left")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(axis="y")
    legend(figure, handles, styles)
    return figure


def _draw_curve(axes: Axes, rows: pd.DataFrame, metric: Metric, look: VariantStyle) -> list[Any]:
    """Draw a variant; return the line of the mean, then its runs or its band. The marks of the line are invisible."""
    import seaborn  # 0.5 s

    def interval(values: pd.Series) -> np.ndarray:
        mean = verdicts.mean(values / metric.scale)
        return np.clip([mean.low, mean.high], *words.limits(metric)) * metric.scale

    epochs, before = rows["epoch"].nunique(), len(axes.lines)
    points: dict[str, Any] = {"x": "epoch", "y": "value", "color": look.colour, "ax": axes}
    points["data"] = rows.assign(value=rows["value"] * metric.scale)
    marks = {"marker": "o", "markevery": range(epochs)[:: -math.ceil(epochs / MOST_POINTS)], "mfc": "none", "mew": 0}
    mean: dict[str, Any] = {"linewidth": 1.6, "linestyle": look.dashes, **marks}
    if rows["run"].nunique() >= FEWEST_FOR_BAND:
        seaborn.lineplot(**points, **mean, errorbar=interval, err_kws={"alpha": 0.18, "lw": 0})
        return [axes.lines[-1], axes.collections[-1]]
    seaborn.lineplot(**points, **mean, errorbar=None)
    seaborn.lineplot(**points, units="run", estimator=None, linewidth=0.6, alpha=0.6)
    return axes.lines[before:]


@style()
def draw_along(
    name: str,
    lines: Mapping[str, Mapping[str, Sequence[Estimate]]],
    points: Sequence[int],
    labels: tuple[str, str],
    unit: str,
    metric: Metric,
    styles: Styles,
    *,
    to_scale: bool = False,
) -> Drawing:
    """Draw a line along a condition for each variant, a thin grey one without a colour of its own.

    `lines`: title of a panel -> variant -> one mean a point. `labels`: of both axes, which all panels share; `unit`: of
    the points, which are at equal distances, unless they are `to_scale`.
    """
    places = np.array(points if to_scale else range(len(points)), float)
    dodge, handles = DODGE * np.diff(places).min(initial=np.inf), {}
    figure, below = panels(*[2.8 if len(lines) == 1 else 2.3] * len(lines))
    for axes in below[1:]:
        axes.sharey(below[0])
    for panel, (axes, (title, by_variant)) in enumerate(zip(below, lines.items(), strict=True)):
        for number, (variant, means) in enumerate(by_variant.items()):
            look, id = styles.by_variant[variant], f"{styles.id(variant)}-{name}-{panel}"
            if look.colour == FAINT or not any(math.isfinite(mean.value) for mean in means):
                axes.plot(places, [mean.value * metric.scale for mean in means], color=FAINT, lw=0.6, zorder=1)
                continue
            at = places + dodge * ((number + 0.5) / len(by_variant) - 0.5)
            texts = [f"{n:,} {unit}: {words.with_interval(mean, metric)}" for n, mean in zip(points, means)]
            tips = [f"{styles.names[variant]}, {text}" for text in texts]
            handles[variant] = intervals(axes, means, at, metric, look, id, tips, line=look.dashes)
        axes.set_xticks(places, [f"{point:,}" for point in points])
        axes.set_title(title, loc="left")
        axes.set_ylabel(labels[1])
        axes.grid(axis="y")
    below[-1].set_xlabel(labels[0])
    legend(figure, handles, styles)
    return figure


@style()
def draw_trials(trials: pd.DataFrame, name: str, log: bool, metric: Metric, styles: Styles, curve: bool) -> Drawing:
    """Draw every trial of a tuning against the setting that the axis calls `name`.

    `trials`: columns variant, x, y (the metric), status, tip. Marks are hollow for trials that were stopped early, and
    large for those with status "chosen". `curve`: join the finished ones. What is far below all chosen ones is cut.
    """
    import seaborn

    figure, (axes,) = panels(2.8)
    handles = {}
    for variant in styles.coloured:
        colour, marker, dashes = styles.by_variant[variant]
        rows = trials[trials["variant"] == variant].dropna(subset="y")
        if not rows.empty:
            look = {"color": colour, "marker": marker, "s": rows["status"].map({"chosen": 70}).fillna(20)}
            seaborn.scatterplot(x=rows["x"], y=rows["y"] * metric.scale, ec=colour, ax=axes, **look)
            handles[variant] = marks = axes.collections[-1]
            marks.set_facecolor(["none" if status == "pruned" else colour for status in rows["status"]])
            ended = rows[(rows["status"] == "finished") & curve].sort_values("x")
            lines = axes.plot(ended["x"], ended["y"] * metric.scale, color=colour, ls=dashes, lw=1.2)
            tips = [f"{styles.names[variant]}, {tip}" for tip in rows["tip"]]
            identify([marks, *lines], f"{styles.id(variant)}-trials", tips)
    best = trials.loc[trials["status"] == "chosen", "y"] * metric.scale
    if best.max() > best.min():  # else poor trials flatten the differences between good ones
        axes.set_ylim(bottom=max(axes.get_ylim()[0], best.min() - (best.max() - best.min()) / 3))
    if log:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter("{x:g}")
    axes.set(xlabel=name, ylabel=f"{metric.label}{metric.unit}")
    axes.grid()
    legend(figure, handles, styles)
    return figure


@style()
def draw_grid(levels: pd.DataFrame, means: Mapping[str, float], factors: Mapping[str, str], metric: Metric) -> Drawing:
    """Draw the means of the first two factors as a heat map, empty without a finished run; `levels`: see `Variants`."""
    import seaborn

    down, across = list(factors)[:2]
    values = pd.Series([means[variant] * metric.scale for variant in levels.index], index=levels.index)
    table = values.groupby([levels[down], levels[across]]).mean().unstack()
    table = table.reindex(index=in_order(levels[down]), columns=in_order(levels[across]))
    figure = Drawing(min(1.4 + 0.42 * len(table), 14))
    colours: dict[str, Any] = {"cmap": "cividis", "cbar_kws": {"label": f"{metric.label}{metric.unit}"}}
    lines: dict[str, Any] = {"linewidths": 1, "linecolor": figure.get_facecolor()}
    texts: dict[str, Any] = {"annot": table.size <= MOST_ANNOTATED, "fmt": f".{1 if metric.is_share else 3}f"}
    axes = seaborn.heatmap(table, ax=figure.subplots(), **colours, **lines, **texts)
    axes.set(xlabel=factors[across], ylabel=factors[down])
    axes.set_xticks(axes.get_xticks(), shorts(list(table.columns)), rotation=45, ha="right")
    axes.set_yticks(axes.get_yticks(), shorts(list(table.index)), rotation=0)
    return figure
