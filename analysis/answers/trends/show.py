"""The sections on training length and number of images: how differences between variants change."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pandas as pd

from analysis import formatting
from analysis.answers.answer import Answer, Page
from analysis.answers.columns import NAME
from analysis.answers.trends.compute import Trend
from analysis.figures.labels import Styles, row_styles
from analysis.figures.line_figures import draw_trend
from analysis.figures.style import Plot
from analysis.stats import Estimate
from analysis.write.document import Section, present
from analysis.write.table import Column, Table
from analysis.write.text import facts, text

if TYPE_CHECKING:
    from analysis.answers.study_results import StudyResults


def trend_section(trend: Trend, styles: Styles) -> Section:
    """Return the section on a condition."""
    styles = row_styles(list(trend.diffs), styles)
    caption = text("trends", "figure", trend=trend, grey=styles.some_grey)
    plot = Plot(f"trend-{trend.name}", draw_trend(trend, styles), caption)
    items = present(plot, differences_table(trend))
    heading = text("trends", "heading", unit=trend.unit)
    said = [text("trends", macro, trend=trend) for macro in ("spread", "left_out")]
    return Section(f"trend-{trend.name}", heading, items, [paragraph for paragraph in said if paragraph])


def differences_table(trend: Trend) -> Table:
    """Return the differences from the baseline at each point.

    The last row is the standard deviation of the variants.
    """
    rows = [{"variant": row, **{f"at_{at}": diffs[at] for at in trend.points}} for row, diffs in trend.diffs.items()]
    spread = {f"at_{at}": Estimate(sd, math.nan, math.nan, 0) for at, sd in trend.spread.sd.items()}
    frame = pd.DataFrame([*rows, {"variant": text("trends", "last_row"), **spread}])

    def column(at: int) -> Column:
        show, last = formatting.intervals(trend.metric, signed=True), text("trends", "sd", trend=trend, at=at)
        return Column(_head(trend, at), f"at_{at}", lambda diffs: [*show(diffs[:-1]), last])

    columns = (NAME, *map(column, trend.points))
    notes = (text("trends", "intervals", trend=trend), text("trends", "last_row_note", trend=trend))
    return Table(f"trend-{trend.name}", text("trends", "caption", trend=trend), frame, columns, notes)


def _head(trend: Trend, at: int) -> str:
    return f"{at:,} {trend.unit}{trend.metric.difference_unit}"


def answer(results: StudyResults, page: Page) -> Answer:
    """How differences change along each condition."""
    tested = [trend for trend in results.trends if math.isfinite(trend.spread.change.p)]
    return Answer(
        lambda: [trend_section(trend, page.styles) for trend in results.trends],
        [text("trends", "spread", trend=trend) for trend in tested],
        facts("trends", "methods", trends=results.trends),
    )
