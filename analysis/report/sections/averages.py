"""The sections of a report over several datasets: aggregates, differences from the baseline, and each dataset."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis import formatting
from analysis.figures.means import draw_aggregates
from analysis.figures.style import Plot
from analysis.report.document import Section
from analysis.report.table import Column, Table
from analysis.report.text import text
from analysis.report.variant_columns import NAME, signed_column, verdict_column, verdict_fields
from analysis.results.across import AGGREGATES, AcrossDatasets, Aggregates
from analysis.stats import Estimate


def scores_section(across: AcrossDatasets, notes: list[str]) -> Section:
    """The aggregates of each variant with their intervals. `notes`: on the runs of each dataset."""
    caption = text("averages", "scores", across=across)
    figure = Plot("across", draw_aggregates(across), caption)
    tables = [_aggregates_table("across", text("averages", "table"), across.scores, across, notes)]
    if across.normalised:
        caption = text("averages", "normalised", across=across)
        tables.append(_aggregates_table("normalised", caption, across.normalised, across, [], least=-math.inf))
    return Section("result", "Results", [figure, *tables])


def differences_section(across: AcrossDatasets) -> Section:
    """The average differences from the baseline with verdicts, and the probabilities of improvement."""
    metric, count = across.policy.metric, len(across.datasets)
    columns = (
        NAME,
        signed_column(metric, f"difference from {across.baseline}", "_diff"),
        Column("p", "p_holm", formatting.p_values),
        verdict_column(),
        Column("datasets with a higher mean", "higher_on", formatting.each(lambda n: f"{n} of {count}")),
        Column("probability of improvement, %", "improvement", formatting.each(_probability)),
    )
    rows = [
        {
            "variant": variant,
            "diff": compared.diff.value,
            "low": compared.diff.low,
            "high": compared.diff.high,
            "_diff": compared.diff,
            "p": compared.p,
            "p_holm": compared.p_holm,
            **verdict_fields(compared),
            "higher_on": sum(bool(differences.mean() > 0) for differences in across.by_dataset[variant].values()),
            "improvement": across.improvement[variant].estimate,
            **_bootstrap("bootstrap", across.improvement[variant].percentile),
        }
        for variant, compared in across.differences.items()
    ]
    caption, note = (text("averages", macro, across=across) for macro in ("improvement", "improvement_note"))
    table = Table("improvement", caption, pd.DataFrame(rows), columns, (note,))
    return Section("differences", "Differences from the baseline", [table])


def datasets_section(across: AcrossDatasets) -> Section:
    """The means and the differences from the baseline on each dataset, as in the report of the dataset's own study."""
    studies, baseline, means, differences = across.studies, across.baseline, {}, {}
    for name, results in studies.items():
        versus = results.comparisons.versus
        means[name] = {variant: results.means.of(variant) for variant in versus}
        differences[name] = {variant: versus[variant].diff for variant in versus if variant != baseline}
    tables = [_by_dataset("datasets", across, means)]
    if any(differences.values()):
        tables.append(_by_dataset("dataset-differences", across, differences, signed=True))
    return Section("datasets", "Each dataset", [*tables])


def _aggregates_table(
    name: str, caption: str, scores: Aggregates, across: AcrossDatasets, notes: list[str], least: float | None = None
) -> Table:
    """One row for each variant, one column for each aggregate; `least`: the lowest value that a score can have."""
    metric, rows = across.policy.metric, []
    for variant, aggregates in scores.items():
        row: dict[str, Any] = {"variant": variant}
        for key, aggregate in aggregates.items():
            row |= {key: aggregate.estimate, **_bootstrap(f"{key}_bootstrap", aggregate.percentile)}
        rows.append({**row, "runs": aggregate.estimate.n})
    show = formatting.intervals(metric, least=least)
    columns = [Column(f"{AGGREGATES[key]}{metric.unit}", key, show) for key in aggregates]
    runs = Column("runs", "runs", formatting.counts)
    return Table(name, caption, pd.DataFrame(rows), (NAME, *columns, runs), tuple(notes))


def _by_dataset(
    name: str, across: AcrossDatasets, estimates: Mapping[str, Mapping[str, Estimate]], signed: bool = False
) -> Table:
    """One row for each variant, one column for each dataset. `estimates`: dataset -> variant -> its estimate."""
    metric, columns = across.policy.metric, [NAME]
    rows: list[dict[str, Any]] = [{"variant": variant} for variant in next(iter(estimates.values()))]
    for dataset, of in estimates.items():
        for row in rows:
            row |= {dataset: of[row["variant"]], f"{dataset}_n": of[row["variant"]].n}
        unit = metric.difference_unit if signed else metric.unit
        columns.append(Column(f"{dataset}{unit}", dataset, formatting.intervals(metric, signed)))
        columns.append(Column("n", f"{dataset}_n", formatting.counts))
    return Table(name, text("averages", name.replace("-", "_"), across=across), pd.DataFrame(rows), tuple(columns))


def _bootstrap(name: str, percentile: tuple[float, float]) -> dict[str, float]:
    return {f"{name}_low": percentile[0], f"{name}_high": percentile[1]}


def _probability(share: Estimate) -> str:
    """`88 (53 to 99)`: the interval is not symmetric."""
    return f"{100 * share.value:.0f} ({100 * share.low:.0f} to {100 * share.high:.0f})"
