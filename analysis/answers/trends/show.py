"""The sections on training length and number of images: how differences between variants change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from analysis import formatting
from analysis.answers.answer import Answer, Page
from analysis.answers.columns import NAME
from analysis.answers.trends.compute import Trend
from analysis.figures.labels import Styles, row_styles
from analysis.figures.line_figures import draw_trend
from analysis.figures.style import Plot
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
    left_out = text("trends", "left_out", trend=trend)
    return Section(f"trend-{trend.name}", heading, items, [left_out] if left_out else [])


def differences_table(trend: Trend) -> Table:
    """Return the differences from the baseline at each point."""
    rows = [{"variant": row, **{f"at_{at}": diffs[at] for at in trend.points}} for row, diffs in trend.diffs.items()]
    show = formatting.intervals(trend.metric, signed=True)
    columns = (NAME, *(Column(_head(trend, at), f"at_{at}", show) for at in trend.points))
    notes = (text("trends", "intervals", trend=trend),)
    return Table(f"trend-{trend.name}", text("trends", "caption", trend=trend), pd.DataFrame(rows), columns, notes)


def _head(trend: Trend, at: int) -> str:
    return f"{at:,} {trend.unit}{trend.metric.difference_unit}"


def answer(results: StudyResults, page: Page) -> Answer:
    """How differences change along each condition."""
    return Answer(
        lambda: [trend_section(trend, page.styles) for trend in results.trends],
        methods=facts("trends", "methods", trends=results.trends),
    )
