"""Metrics under several conditions, and differences along a condition such as the number of epochs."""

from __future__ import annotations

import math
from dataclasses import replace

from analysis import formatting
from analysis.report.render import Cell, Column, Table
from analysis.report.tables.cells import (
    anchor,
    estimate_cell,
    estimate_column,
    interval_cell,
    p_cell,
    points,
    variant_cells,
    variant_columns,
)
from analysis.results.policy import ALPHA
from analysis.results.profiles import Profile
from analysis.results.study_results import StudyResults
from analysis.results.trends import Trend
from analysis.stats import SizeChange, SpreadChange
from experiments.metric import PERMUTED

UNDECIDED, NOT_TESTED = "not enough evidence", "not tested"


def profile_table(results: StudyResults, profile: Profile) -> Table:
    """Return the table of a metric under several conditions; its further metrics are details."""
    metrics = [*profile.metrics, *profile.details]
    folded = [metric for metric in profile.details if metric != PERMUTED]
    columns = (
        *variant_columns(results),
        *(replace(estimate_column(metric, metric), detail=metric in folded) for metric in metrics),
    )
    rows = tuple(
        (
            *variant_cells(results, variant),
            *(
                estimate_cell(results.means.by_metric[metric][variant], metric, anchor(results, variant))
                for metric in metrics
            ),
        )
        for variant in results.variants.names
    )
    counts = [mean.n for _, means in profile.means.values() for mean in means.values()]
    caption = f"{profile.about}: mean ± half-width of the 95 % confidence interval over {formatting.seeds(counts)}."
    return Table(profile.name, caption, columns, rows)


def trend_tables(trend: Trend, intervals: str) -> list[Table]:
    """Return the differences from the baseline at each point, and how each difference of two rows changes.

    `intervals`: how they are adjusted.
    """
    note = _note(trend, intervals)
    return [_differences(trend, note), _changes(trend, note)]


def _differences(trend: Trend, note: str) -> Table:
    metric = trend.metric
    columns = (
        Column("variant", ("variant",), numeric=False, key=True),
        *(
            Column(f"{point:,} {trend.unit}{points(metric)}", (f"at_{point}", f"at_{point}_low", f"at_{point}_high"))
            for point in trend.points
        ),
        *_CHANGE,
    )
    rows = []
    for row in trend.others:
        found = trend.pairs[row, trend.baseline]
        cells = [interval_cell(trend.diffs[row][point], metric, signed=True) for point in trend.points]
        rows.append((Cell(row, (row,)), *cells, *_change_cells(*found)))
    caption = (
        f"Differences in {metric.label} from {formatting.quoted(trend.baseline)}, paired by seed, by number of {trend.unit}: "
        f"mean ± half-width of the 95 % interval, {trend_seeds(trend)}."
    )
    notes = (note, _SPREAD_NOTE.format(kinds=_kinds(trend)))
    return Table(f"trend-{trend.name}", caption, columns, (*rows, _spread_row(trend)), notes)


def trend_seeds(trend: Trend) -> str:
    """Return over how many seeds the differences are: `5 seeds` or `4 to 5 seeds`."""
    return formatting.seeds([estimate.n for row in trend.others for estimate in trend.diffs[row].values()])


_SPREAD_NOTE = (
    "Last row: the standard deviation of the true means of {kinds}, without the noise of the runs, and the test that it is the "
    "same at both ends."
)


def _kinds(trend: Trend) -> str:
    if len(trend.kinds) == len(trend.rows):
        return "all variants"
    return f"the {formatting.plural(len(trend.kinds), 'variant')} with a positional embedding"


def _spread_row(trend: Trend) -> tuple[Cell, ...]:
    label, verdict = "standard deviation of the variants", spread_verdict(trend.spread)
    cells = [Cell(spread_number(trend, point), (trend.spreads[point], None, None)) for point in trend.points]
    return Cell(label, (label,)), *cells, p_cell(trend.spread.p, trend.spread.p), Cell(verdict, (verdict,))


def spread_number(trend: Trend, point: int) -> str:
    """Return the standard deviation of the variants' true means at a point, as text."""
    return formatting.number(trend.spreads[point] * trend.metric.scale, 2 if trend.metric.is_share else 4)


def spread_verdict(found: SpreadChange) -> str:
    """Return "shrinks", "grows", "not enough evidence" or "not tested"."""
    return _verdict(found.p, found.change.value < 0)


_CHANGE = (Column("p, size changes", ("p", "p_holm")), Column("size of the difference", ("verdict",), numeric=False))


def _changes(trend: Trend, note: str) -> Table:
    """Return the table of all pairs, folded."""
    metric, ends = trend.metric, (trend.points[0], trend.points[-1])
    columns = (
        Column("variant", ("a",), numeric=False, key=True),
        Column("minus", ("b",), numeric=False, key=True),
        *(
            Column(f"{point:,} {trend.unit}{points(metric)}", (name, f"{name}_low", f"{name}_high"))
            for point, name in zip(ends, ("first", "last"))
        ),
        Column(f"change{points(metric)}", ("change", "change_low", "change_high")),
        *_CHANGE,
    )
    rows = tuple(
        (
            Cell(a, (a,)),
            Cell(b, (b,)),
            *(interval_cell(each, metric, signed=True) for each in (change.first, change.last, change.change)),
            *_change_cells(change, adjusted),
        )
        for (a, b), (change, adjusted) in trend.pairs.items()
    )
    caption = f"How the difference of each pair changes from {ends[0]:,} to {ends[1]:,} {trend.unit}."
    return Table(f"trend-{trend.name}-pairs", caption, columns, rows, (note,), folded=True)


def _change_cells(change: SizeChange, adjusted: float) -> tuple[Cell, Cell]:
    verdict = verdict_of(change, adjusted)
    return p_cell(change.p, adjusted), Cell(verdict, (verdict,))


def verdict_of(change: SizeChange, adjusted: float) -> str:
    """Return "shrinks", "grows", "not enough evidence" or "not tested"."""
    return _verdict(adjusted, change.shrinks)


def _verdict(p: float, shrinks: bool) -> str:
    if not math.isfinite(p):
        return NOT_TESTED
    return UNDECIDED if p > ALPHA else "shrinks" if shrinks else "grows"


def _note(trend: Trend, intervals: str) -> str:
    tested = sum(math.isfinite(adjusted) for _, adjusted in trend.pairs.values())
    if not tested:
        return f"Changes are not tested. Intervals {intervals}."
    return (
        f"p: paired tests that the size of a difference is the same with {trend.points[0]:,} and {trend.points[-1]:,} "
        f"{trend.unit}, over the seeds that have both, Holm-adjusted over {tested} pairs, alpha = 5 %. Intervals {intervals}."
    )
