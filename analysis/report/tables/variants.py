"""Tables with one row for each variant: the main table, all metrics, and the spread of the runs."""

from __future__ import annotations

import math
from dataclasses import replace

from analysis import formatting
from analysis.report.render import Cell, Column, Table
from analysis.report.tables import probe_columns
from analysis.report.tables.cells import (
    anchor,
    baseline_name,
    count_cell,
    counts_note,
    difference_cell,
    estimate_cell,
    estimate_column,
    mark,
    mark_note,
    number_cell,
    points,
    variant_cells,
    variant_columns,
    verdict_cell,
    verdict_note,
)
from analysis.report.tables.cost import cost_cells, cost_columns
from analysis.results.study_results import StudyResults
from analysis.sources.runs_table import METRICS
from analysis.stats import Estimate
from experiments.metric import Metric

_DIVERGED = Column(
    "diverged",
    ("diverged", "diverged_low", "diverged_high"),
    help="share of the ended runs, with the exact 95 % interval",
)


def variants_table(results: StudyResults) -> Table:
    """Return the main table: each variant's mean, its difference from the baseline, the verdict, and its cost."""
    metric, extra = results.study.metric, probe_columns.probe_columns(results)
    difference = Column(
        f"difference from {baseline_name(results)}{points(metric)}",
        ("diff", "diff_low", "diff_high"),
        help="mean over the seeds that both variants have",
    )
    lost = any(rate.value > 0 for rate in results.conduct.divergence.values())
    columns = (
        *variant_columns(results),
        Column("n", ("n",), help="finished runs, one for each seed"),
        *((_DIVERGED,) if lost else ()),
        estimate_column(metric, metric),
        difference,
        Column("verdict", ("verdict",), numeric=False),
        *extra.columns,
        *(replace(column, detail=True) for column in cost_columns("params", "flops_per_image", "device_seconds")),
    )
    rows = []
    for variant in results.variants.names:
        versus, mean = results.versus[variant], results.mean(variant)
        rows.append(
            (
                *variant_cells(results, variant),
                count_cell(mean.n),
                *((_diverged(results.conduct.divergence[variant]),) if lost else ()),
                estimate_cell(mean, metric, anchor(results, variant), mark(results, variant)),
                difference_cell(versus, metric, anchor(results, variant)),
                verdict_cell(versus),
                *extra.cells(variant),
                *cost_cells(results, variant, "params", "flops_per_image", "device_seconds"),
            )
        )
    caption = f"{metric.label.capitalize()} of each variant: mean ± half-width of the 95 % confidence interval. n: number of seeds."
    notes = [mark_note(results), verdict_note(results), _no_interval_note(results), *extra.notes, counts_note(results)]
    return Table("variants", caption, columns, tuple(rows), tuple(note for note in notes if note))


def metrics_table(results: StudyResults) -> Table:
    """Return the table with the mean of every metric."""
    metrics = [metric for metric in METRICS if metric in results.means.by_metric]
    columns = (*variant_columns(results), Column("n", ("n",)), *map(_metric_column, metrics))
    rows = tuple(
        (
            *variant_cells(results, variant),
            count_cell(results.mean(variant).n),
            *(
                estimate_cell(results.means.by_metric[metric][variant], metric, anchor(results, variant))
                for metric in metrics
            ),
        )
        for variant in results.variants.names
    )
    caption = "All metrics after the last epoch: mean ± half-width of the 95 % confidence interval."
    return Table("metrics", caption, columns, rows, (counts_note(results),))


def _metric_column(metric: Metric) -> Column:
    """The column of a metric; those of the training images are details."""
    return replace(estimate_column(metric, metric), detail=metric.startswith("train/"))


def spread_table(results: StudyResults) -> Table:
    """Return the table of how the runs of each variant vary."""
    metric, scale = results.study.metric, results.study.metric.scale
    columns = (
        *variant_columns(results),
        Column("n", ("n",)),
        estimate_column(metric, "mean", "mean "),
        Column("standard deviation", ("sd",)),
        Column("minimum", ("lowest",)),
        Column("maximum", ("highest",)),
    )
    rows = []
    for variant in results.variants.names:
        mean, spread = results.mean(variant), results.means.spread[variant]
        places = formatting.decimals(spread.sd * scale, 2 if metric.is_share else 4)
        rows.append(
            (
                *variant_cells(results, variant),
                count_cell(mean.n),
                estimate_cell(mean, metric, anchor(results, variant)),
                number_cell(spread.sd, scale, places, spread.sd * scale),
                *(number_cell(each, scale, places, spread.sd * scale) for each in (spread.lowest, spread.highest)),
            )
        )
    return Table("spread", f"Spread of the runs: {metric.label}.", columns, tuple(rows))


def _diverged(rate: Estimate) -> Cell:
    """`20 % (0.5 to 72)`: the share of runs that diverged, with its interval."""
    low, high = (formatting.number(100 * bound, 1) for bound in (rate.low, rate.high))
    text = f"{formatting.number(100 * rate.value, 0)} % ({low} to {high})" if rate.n else formatting.DASH
    return Cell(text, (rate.value, rate.low, rate.high), rate.value)


def _no_interval_note(results: StudyResults) -> str:
    if any(math.isnan(formatting.half_width(results.mean(variant))) for variant in results.variants.names):
        return "A mean without ± has no interval: it comes from a single seed, or from equal values."
    return ""
