"""The sections on training length and number of images: how differences between variants change, and whether they shrink."""

from __future__ import annotations

import pandas as pd

from analysis.figures.labels import Styles
from analysis.figures.line_figures import draw_trend, trend_looks
from analysis.figures.style import FAINT, Plot
from analysis.report import formats
from analysis.report.document import Section, present
from analysis.report.table import Column, Table, estimate_fields
from analysis.report.text import facts, text
from analysis.results.trends import Trend

CHANGE = (
    Column("p, size changes", formats.p("p_holm"), sort="p_holm"),
    Column("size of the difference", formats.text("verdict"), numeric=False),
)


def trend_section(trend: Trend, styles: Styles) -> Section:
    """Return the section on a condition."""
    grey = any(look.colour == FAINT for look in trend_looks(trend, styles).values())
    caption = text("trends", "figure", trend=trend, grey=grey)
    plot = Plot(f"trend-{trend.name}", draw_trend(trend, styles), caption)
    items = present(plot, differences_table(trend), changes_table(trend))
    heading = text("trends", "heading", unit=trend.unit)
    said = [text("trends", macro, trend=trend) for macro in ("spread", "pairs", "left_out")]
    return Section(f"trend-{trend.name}", heading, items, [paragraph for paragraph in said if paragraph])


def spread_text(trend: Trend) -> str:
    """Return the claim that differences between variants shrink, and its verdict."""
    return text("trends", "spread", trend=trend)


def trend_methods(trends: list[Trend]) -> tuple[tuple[str, str], ...]:
    """Return how the change of differences is tested; empty where there is no such condition."""
    return facts("trends", "methods", units=[trend.unit for trend in trends]) if trends else ()


def differences_table(trend: Trend) -> Table:
    """Return the differences from the baseline at each point. The last row is the standard deviation of the variants."""
    with_baseline = trend.changes[trend.changes["b"] == trend.baseline].set_index("a")
    tests = with_baseline[["p", "p_holm", "verdict"]].to_dict("index")
    rows = [
        {
            "variant": row,
            **{field: value for at in trend.points for field, value in estimate_fields(f"at_{at}", diffs[at]).items()},
            **tests[row],
        }
        for row, diffs in trend.diffs.items()
    ]
    spread = {f"at_{at}": sd for at, sd in trend.spreads.items()}
    p = {"p": trend.spread.p, "p_holm": trend.spread.p, "verdict": trend.spread_verdict}
    frame = pd.DataFrame([*rows, {"variant": text("trends", "last_row"), **spread, **p}])

    def column(at: int) -> Column:
        show = formats.interval(f"at_{at}", trend.metric, signed=True)
        last = text("trends", "sd", trend=trend, at=at)
        return Column(_head(trend, at), lambda frame: [*show(frame[:-1]), last], sort=f"at_{at}")

    columns = (Column("variant", formats.text("variant"), numeric=False, key=True), *map(column, trend.points), *CHANGE)
    notes = (text("trends", "note", trend=trend), text("trends", "last_row_note", trend=trend))
    return Table(f"trend-{trend.name}", text("trends", "caption", trend=trend), frame, columns, notes)


def changes_table(trend: Trend) -> Table:
    """Return how the difference of each pair of rows changes from the first to the last point."""
    first, last = (_head(trend, trend.points[end]) for end in (0, -1))
    heads = {"first": first, "last": last, "change": f"change{_points(trend)}"}
    columns = (
        Column("variant", formats.text("a"), numeric=False, key=True),
        Column("minus", formats.text("b"), numeric=False, key=True),
        *(Column(head, formats.interval(name, trend.metric, signed=True), sort=name) for name, head in heads.items()),
        *CHANGE,
    )
    caption, notes = text("trends", "changes_caption", trend=trend), (text("trends", "note", trend=trend),)
    return Table(f"trend-{trend.name}-pairs", caption, trend.changes, columns, notes, folded=True)


def _head(trend: Trend, at: int) -> str:
    return f"{at:,} {trend.unit}{_points(trend)}"


def _points(trend: Trend) -> str:
    return trend.metric.difference_unit
