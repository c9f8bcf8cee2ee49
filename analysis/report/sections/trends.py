"""The sections on training length and number of images: how differences between variants change, and whether they shrink."""

from __future__ import annotations

import math

import pandas as pd

from analysis.figures.labels import Styles, row_styles
from analysis.figures.line_figures import draw_trend
from analysis.figures.style import Plot
from analysis.report import formats
from analysis.report.document import Section, present
from analysis.report.table import Column, Table
from analysis.report.text import text
from analysis.report.variant_columns import NAME, signed_column
from analysis.results.trends import Trend
from analysis.stats import Estimate

CHANGE = (Column("p, size changes", "p_holm", formats.p), Column("size of the difference", "verdict"))


def trend_section(trend: Trend, styles: Styles) -> Section:
    """Return the section on a condition."""
    styles = row_styles(list(trend.diffs), styles)
    caption = text("trends", "figure", trend=trend, grey=styles.some_grey)
    plot = Plot(f"trend-{trend.name}", draw_trend(trend, styles), caption)
    items = present(plot, differences_table(trend), changes_table(trend))
    heading = text("trends", "heading", unit=trend.unit)
    said = [text("trends", macro, trend=trend) for macro in ("spread", "pairs", "left_out")]
    return Section(f"trend-{trend.name}", heading, items, [paragraph for paragraph in said if paragraph])


def differences_table(trend: Trend) -> Table:
    """Return the differences from the baseline at each point. The last row is the standard deviation of the variants."""
    with_baseline = trend.changes[trend.changes["b"] == trend.baseline].set_index("a")
    tests = with_baseline[["p", "p_holm", "verdict"]].to_dict("index")
    rows = [
        {"variant": row, **{f"at_{at}": diffs[at] for at in trend.points}, **tests[row]}
        for row, diffs in trend.diffs.items()
    ]
    spread = {f"at_{at}": Estimate(sd, math.nan, math.nan, 0) for at, sd in trend.spread.sd.items()}
    p = {"p": trend.spread.change.p, "p_holm": trend.spread.change.p, "verdict": trend.verdict}
    frame = pd.DataFrame([*rows, {"variant": text("trends", "last_row"), **spread, **p}])

    def column(at: int) -> Column:
        show, last = formats.interval(trend.metric, signed=True), text("trends", "sd", trend=trend, at=at)
        return Column(_head(trend, at), f"at_{at}", lambda diffs: [*show(diffs[:-1]), last])

    columns = (NAME, *map(column, trend.points), *CHANGE)
    notes = (text("trends", "note", trend=trend), text("trends", "last_row_note", trend=trend))
    return Table(f"trend-{trend.name}", text("trends", "caption", trend=trend), frame, columns, notes)


def changes_table(trend: Trend) -> Table:
    """Return how the difference of each pair of rows changes from the first to the last point."""
    ends = {"first": trend.points[0], "last": trend.points[-1]}
    show = formats.interval(trend.metric, signed=True)
    columns = (
        Column("variant", "a", key=True),
        Column("minus", "b", key=True),
        *(Column(_head(trend, at), end, show) for end, at in ends.items()),
        signed_column(trend.metric, "change", "change"),
        *CHANGE,
    )
    caption, notes = text("trends", "changes_caption", trend=trend), (text("trends", "note", trend=trend),)
    return Table(f"trend-{trend.name}-pairs", caption, trend.changes, columns, notes, folded=True)


def _head(trend: Trend, at: int) -> str:
    return f"{at:,} {trend.unit}{trend.metric.difference_unit}"
