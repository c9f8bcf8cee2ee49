"""The sections of a report over several datasets: aggregates, differences from the baseline, and each dataset."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.figures.several_studies import draw_aggregates
from analysis.figures.style import Plot
from analysis.report import formats
from analysis.report.document import Section
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
        signed_column(metric, f"difference from {across.baseline}", "diff", low="low", high="high"),
        p_column("p", "p_holm"),
        verdict_column(),
        Column("datasets with a higher mean", formats.each("higher_on", lambda n: f"{n} of {count}"), sort="higher_on"),
        Column("probability of improvement, %", formats.rows(_probability), sort="improvement"),
    )
    rows = [
        {
            "variant": variant,
            **estimate_fields("diff", compared.diff),
            "p": compared.p,
            "p_holm": compared.p_holm,
            **comparison_fields(compared),
            "higher_on": sum(bool(differences.mean() > 0) for differences in across.by_dataset[variant].values()),
            **estimate_fields("improvement", across.improvement[variant].estimate),
            **_bootstrap("bootstrap", across.improvement[variant].percentile),
        }
        for variant, compared in across.differences.items()
    ]
    frame = pd.DataFrame(rows).rename(columns={"diff_low": "low", "diff_high": "high"})
    caption, note = (text("averages", macro, across=across) for macro in ("improvement", "improvement_note"))
    return Section(
        "differences", "Differences from the baseline", [Table("improvement", caption, frame, columns, (note,))]
    )


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
            row |= {**estimate_fields(key, aggregate.estimate), **_bootstrap(f"{key}_bootstrap", aggregate.percentile)}
        rows.append({**row, "runs": aggregate.estimate.n})
    columns = [
        Column(f"{AGGREGATES[key]}{metric.unit}", formats.interval(key, metric, least=least), sort=key)
        for key in aggregates
    ]
    return Table(name, caption, pd.DataFrame(rows), (NAME, *columns, count_column("runs")), tuple(notes))


def _by_dataset(
    name: str, across: AcrossDatasets, estimates: Mapping[str, Mapping[str, Estimate]], signed: bool = False
) -> Table:
    """One row for each variant, one column for each dataset. `estimates`: dataset -> variant -> its estimate."""
    metric, columns = across.policy.metric, [NAME]
    rows: list[dict[str, Any]] = [{"variant": variant} for variant in next(iter(estimates.values()))]
    for dataset, of in estimates.items():
        for row in rows:
            row |= {**estimate_fields(dataset, of[row["variant"]]), f"{dataset}_n": of[row["variant"]].n}
        shown = Column(f"{dataset}{metric.unit}", formats.interval(dataset, metric), sort=dataset)
        columns += [
            signed_column(metric, dataset, dataset) if signed else shown,
            count_column(f"{dataset}_n", label="n"),
        ]
    return Table(name, text("averages", name.replace("-", "_"), across=across), pd.DataFrame(rows), tuple(columns))


def _bootstrap(name: str, percentile: tuple[float, float]) -> dict[str, float]:
    return {f"{name}_low": percentile[0], f"{name}_high": percentile[1]}


def _probability(row: pd.Series) -> str:
    """`88 (53 to 99)`: the interval is not symmetric."""
    share, low, high = (100 * row[field] for field in ("improvement", "improvement_low", "improvement_high"))
    return f"{share:.0f} ({low:.0f} to {high:.0f})"
