"""The sections of a report over several datasets: aggregates, differences from the baseline, and each dataset."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from analysis.figures.averages import draw_aggregates
from analysis.figures.style import Plot
from analysis.report import formats
from analysis.report.document import Section, present
from analysis.report.table import Column, Table, estimate_fields
from analysis.report.text import text
from analysis.report.variant_columns import (
    NAME,
    comparison_fields,
    count_column,
    p_column,
    signed_column,
    verdict_column,
)
from analysis.results.across import AGGREGATES, AcrossDatasets, Aggregates
from analysis.results.means import Means
from analysis.results.policy import Policy
from analysis.stats import Comparison
from experiments.metric import Metric


def scores_section(across: AcrossDatasets, notes: Sequence[str]) -> Section:
    """The aggregates of each variant with their intervals. `notes`: on the runs of each dataset."""
    alt = text("averages", "scores_alt", across=across)
    figure = Plot("across", draw_aggregates(across), text("averages", "scores_figure", across=across), alt)
    tables = [_aggregates_table("across", text("averages", "scores", across=across), across.scores, across, notes)]
    if across.normalised:
        caption = text("averages", "normalised", chance=across.chance)
        tables.append(_aggregates_table("normalised", caption, across.normalised, across, (), least=-math.inf))
    return Section("result", "Results", present(figure, *tables))


def differences_section(across: AcrossDatasets) -> Section:
    """The average differences from the baseline with verdicts, and the probabilities of improvement."""
    metric, count = across.policy.metric, len(across.datasets)
    columns = (
        NAME,
        signed_column(metric, f"difference from {across.baseline}", "diff", low="low", high="high"),
        p_column("p", "p_holm"),
        verdict_column(),
        Column("datasets with a higher mean", formats.each("higher_on", lambda n: f"{n} of {count}"), sort="higher_on"),
        Column(
            "probability of improvement, %",
            formats.rows(_probability),
            sort="improvement",
            note=text("averages", "probability"),
        ),
    )
    frame = pd.DataFrame([_difference_row(across, variant) for variant in across.differences])
    note = text("averages", "improvement_note", policy=across.policy)
    table = Table("improvement", text("averages", "improvement", across=across), frame, columns, (note,))
    return Section("differences", "Differences from the baseline", present(table))


def datasets_section(
    means: Mapping[str, Means], versus: Mapping[str, Mapping[str, Comparison]], baseline: str, policy: Policy
) -> Section:
    """Dataset -> its means, and its differences from the baseline, as in the report of the dataset's own study.

    `policy`: of such a study.
    """
    variants = list(next(iter(versus.values())))
    others = [variant for variant in variants if variant != baseline]
    tables = [_means_table(means, variants, policy.metric)]
    if others:
        caption = text("averages", "differences", baseline=baseline, policy=policy)
        tables.append(_differences_table(versus, others, policy.metric, caption))
    return Section("datasets", "Each dataset", present(*tables))


def _aggregates_table(
    name: str,
    caption: str,
    scores: Aggregates,
    across: AcrossDatasets,
    notes: Sequence[str],
    least: float | None = None,
) -> Table:
    """One row for each variant, one column for each aggregate; `least`: the lowest value that a score can have."""
    metric, rows = across.policy.metric, []
    for variant, aggregates in scores.items():
        row: dict[str, Any] = {"variant": variant}
        for key, aggregate in aggregates.items():
            row |= {**estimate_fields(key, aggregate.estimate), **_bootstrap(f"{key}_bootstrap", aggregate.percentile)}
        rows.append({**row, "runs": aggregate.estimate.n})
    columns = [
        Column(f"{AGGREGATES[key]}{metric.unit}", formats.interval(key, metric, least=least), sort=key)
        for key in aggregates
    ]
    runs = count_column("runs", text("averages", "runs"))
    return Table(name, caption, pd.DataFrame(rows), (NAME, *columns, runs), tuple(notes))


def _means_table(means: Mapping[str, Means], variants: Sequence[str], metric: Metric) -> Table:
    rows: list[dict[str, Any]] = [{"variant": variant} for variant in variants]
    columns = [NAME]
    for dataset, own in means.items():
        for row in rows:
            mean = own.of(row["variant"])
            row.update({**estimate_fields(dataset, mean), f"{dataset}_n": mean.n})
        columns.append(Column(f"{dataset}{metric.unit}", formats.interval(dataset, metric), sort=dataset))
        columns.append(Column("n", formats.count(f"{dataset}_n"), sort=f"{dataset}_n"))
    return Table("datasets", text("averages", "means", metric=metric), pd.DataFrame(rows), tuple(columns))


def _differences_table(
    versus: Mapping[str, Mapping[str, Comparison]], variants: Sequence[str], metric: Metric, caption: str
) -> Table:
    rows: list[dict[str, Any]] = [{"variant": variant} for variant in variants]
    for dataset, compared in versus.items():
        for row in rows:
            row.update(estimate_fields(dataset, compared[row["variant"]].diff))
    columns = [signed_column(metric, dataset, dataset) for dataset in versus]
    return Table("dataset-differences", caption, pd.DataFrame(rows), (NAME, *columns))


def _difference_row(across: AcrossDatasets, variant: str) -> dict[str, Any]:
    compared, aggregate = across.differences[variant], across.improvement[variant]
    fields = comparison_fields(compared)
    return {
        "variant": variant,
        "diff": fields.pop("diff"),
        "low": fields.pop("diff_low"),
        "high": fields.pop("diff_high"),
        "p": compared.p,
        "p_holm": compared.p_holm,
        **fields,
        "higher_on": sum(bool(differences.mean() > 0) for differences in across.by_dataset[variant].values()),
        **estimate_fields("improvement", aggregate.estimate),
        **_bootstrap("bootstrap", aggregate.percentile),
    }


def _bootstrap(name: str, percentile: tuple[float, float]) -> dict[str, float]:
    return {f"{name}_low": percentile[0], f"{name}_high": percentile[1]}


def _probability(row: pd.Series) -> str:
    """`88 (53 to 99)`: the interval is not symmetric."""
    share, low, high = (100 * row[field] for field in ("improvement", "improvement_low", "improvement_high"))
    return f"{share:.0f} ({low:.0f} to {high:.0f})"
