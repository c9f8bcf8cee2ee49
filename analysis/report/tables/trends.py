"""Metrics under several conditions, and differences along a condition such as the number of epochs."""

from __future__ import annotations

from dataclasses import replace

from analysis import formatting
from analysis.profiles import Profile
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
from analysis.results import ALPHA, Results
from analysis.stats import SizeChange
from analysis.trends import Trend
from experiments.metric import PERMUTED

UNDECIDED = "not enough evidence"


def profile_table(results: Results, profile: Profile) -> Table:
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
            *(estimate_cell(results.means[metric][variant], metric, anchor(results, variant)) for metric in metrics),
        )
        for variant in results.variants
    )
    caption = f"{profile.about}: mean ± half-width of the 95 % confidence interval over seeds."
    return Table(profile.name, caption, columns, rows)


def trend_tables(trend: Trend) -> list[Table]:
    """Return the differences from the baseline at each point, and how each difference of two rows changes."""
    return [_differences(trend), _changes(trend)]


def _differences(trend: Trend) -> Table:
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
        "mean ± half-width of the 95 % interval."
    )
    return Table(f"trend-{trend.name}", caption, columns, tuple(rows), (_note(trend),))


_CHANGE = (Column("p, size changes", ("p", "p_holm")), Column("size of the difference", ("verdict",), numeric=False))


def _changes(trend: Trend) -> Table:
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
    return Table(f"trend-{trend.name}-pairs", caption, columns, rows, (_note(trend),), folded=True)


def _change_cells(change: SizeChange, adjusted: float) -> tuple[Cell, Cell]:
    verdict = verdict_of(change, adjusted)
    return p_cell(change.p, adjusted), Cell(verdict, (verdict,))


def verdict_of(change: SizeChange, adjusted: float) -> str:
    """Return "shrinks", "grows" or "not enough evidence"."""
    return UNDECIDED if not adjusted <= ALPHA else "shrinks" if change.shrinks else "grows"


def _note(trend: Trend) -> str:
    return (
        f"p: paired tests that the size of a difference is the same with {trend.points[0]:,} and {trend.points[-1]:,} "
        f"{trend.unit}, Holm-adjusted over all {len(trend.pairs)} pairs, alpha = 5 %. Intervals are not adjusted."
    )
