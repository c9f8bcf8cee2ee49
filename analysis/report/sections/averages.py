"""The sections of a report over several datasets: aggregates, differences from the baseline, and each dataset."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from analysis.figures.averages import draw_aggregates, draw_improvement
from analysis.figures.style import Plot
from analysis.report import formats
from analysis.report.document import Section, present
from analysis.report.table import Column, Table, estimate_fields
from analysis.report.tables.cells import points
from analysis.report.text import text
from analysis.results.across import AGGREGATES, AcrossDatasets, Aggregates
from analysis.results.means import Means
from analysis.stats import Comparison
from experiments.metric import Metric

VARIANT = Column("variant", formats.text("variant"), numeric=False, key=True)


def scores_section(across: AcrossDatasets, notes: Sequence[str]) -> Section:
    """The aggregates of each variant with their intervals. `notes`: on the runs of each dataset."""
    metric, datasets = across.policy.metric, across.datasets
    figure = Plot(
        "across",
        draw_aggregates(across),
        text("averages", "scores_figure", metric=metric, datasets=datasets),
        text("averages", "scores_alt", metric=metric, datasets=datasets),
    )
    left_out = [text("averages", "left_out", variant=v, reason=reason) for v, reason in across.left_out.items()]
    caption = text("averages", "scores", metric=metric, count=len(datasets))
    items = present(figure, _aggregates_table("across", caption, across.scores, metric, (*left_out, *notes)))
    if across.normalised:
        note = text("averages", "chance", chance=across.chance)
        caption = text("averages", "normalised")
        items += present(
            _aggregates_table("normalised", caption, across.normalised, metric, (note,), limits=(-math.inf, 1.0))
        )
    return Section("result", "Results", items)


def differences_section(across: AcrossDatasets) -> Section:
    """The average differences from the baseline with verdicts, and the probabilities of improvement."""
    metric = across.policy.metric
    frame = pd.DataFrame([_difference_row(across, variant) for variant in across.differences])
    columns = (
        VARIANT,
        Column(
            f"difference from {across.baseline}{points(metric)}",
            formats.interval("diff", metric, signed=True, low="low", high="high"),
            sort="diff",
        ),
        Column("p", formats.p("p_holm"), sort="p_holm"),
        Column("verdict", formats.text("_verdict"), numeric=False, mark="_mark"),
        Column(
            "datasets with a higher mean",
            formats.each("higher_on", lambda n: f"{n} of {len(across.datasets)}"),
            sort="higher_on",
        ),
        Column(
            "probability of improvement, %",
            formats.rows(_probability),
            sort="improvement",
            note=text("averages", "probability"),
        ),
    )
    notes = [text("averages", "improvement_note", across=across, metric=metric)]
    if across.dropped:
        notes.append(text("averages", "dropped", n=across.dropped))
    if across.uncompared:
        notes.append(text("averages", "without_common_seed", variants=across.uncompared))
    table = Table("improvement", text("averages", "improvement", across=across), frame, columns, tuple(notes))
    figure = Plot(
        "improvement",
        draw_improvement(across),
        text("averages", "improvement_figure", across=across),
        text("averages", "improvement_alt", across=across),
    )
    return Section("differences", "Differences from the baseline", present(table, figure))


def datasets_section(
    means: Mapping[str, Means], versus: Mapping[str, Mapping[str, Comparison]], baseline: str, planned: bool
) -> Section:
    """Dataset -> its means, and its differences from the baseline, as in the report of the dataset's own study.

    `planned`: whether these studies plan looks.
    """
    variants = list(next(iter(versus.values())))
    others = [variant for variant in variants if variant != baseline]
    tables = [_means_table(means, variants)]
    if others:
        caption = text("averages", "differences", baseline=baseline, planned=planned)
        tables.append(_differences_table(versus, others, next(iter(means.values())).metric, caption))
    return Section("datasets", "Each dataset", present(*tables))


def _means_table(means: Mapping[str, Means], variants: Sequence[str]) -> Table:
    rows: list[dict[str, Any]] = [{"variant": variant} for variant in variants]
    columns = [VARIANT]
    for name, own in means.items():
        metric = own.metric
        for row in rows:
            mean = own.of(row["variant"])
            row.update({**estimate_fields(name, mean), f"{name}_n": mean.n})
        columns += [
            Column(f"{name}{metric.unit}", formats.interval(name, metric), sort=name),
            Column("n", formats.count(f"{name}_n"), sort=f"{name}_n", note=text("averages", "finished")),
        ]
    return Table("datasets", text("averages", "means", metric=metric), pd.DataFrame(rows), tuple(columns))


def _differences_table(
    versus: Mapping[str, Mapping[str, Comparison]], variants: Sequence[str], metric: Metric, caption: str
) -> Table:
    rows: list[dict[str, Any]] = [{"variant": variant} for variant in variants]
    columns = [VARIANT]
    for name, compared in versus.items():
        for row in rows:
            row.update(estimate_fields(name, compared[row["variant"]].diff))
        columns.append(Column(f"{name}{points(metric)}", formats.interval(name, metric, signed=True), sort=name))
    return Table("dataset-differences", caption, pd.DataFrame(rows), tuple(columns))


def _aggregates_table(
    name: str,
    caption: str,
    scores: Aggregates,
    metric: Metric,
    notes: Sequence[str],
    limits: tuple[float, float] | None = None,
) -> Table:
    """One row for each variant, one column for each aggregate; the CSV has the percentile intervals as well."""
    rows = []
    for variant, aggregates in scores.items():
        row: dict[str, Any] = {"variant": variant}
        for key, aggregate in aggregates.items():
            low, high = aggregate.percentile
            row |= estimate_fields(key, aggregate.estimate)
            row |= {f"{key}_bootstrap_low": low, f"{key}_bootstrap_high": high}
        rows.append({**row, "runs": aggregate.estimate.n})
    columns = [
        Column(f"{AGGREGATES[key]}{metric.unit}", formats.interval(key, metric, limits=limits), sort=key)
        for key in aggregates
    ]
    runs = Column("runs", formats.count("runs"), sort="runs", note=text("averages", "runs"))
    return Table(name, caption, pd.DataFrame(rows), (VARIANT, *columns, runs), tuple(notes))


def _difference_row(across: AcrossDatasets, variant: str) -> dict[str, Any]:
    compared, aggregate = across.differences[variant], across.improvement[variant]
    low, high = aggregate.percentile
    depends = " (depends on diverged runs)" * compared.depends_on_diverged
    return {
        "variant": variant,
        "diff": compared.diff.value,
        "low": compared.diff.low,
        "high": compared.diff.high,
        "p": compared.p,
        "p_holm": compared.p_holm,
        "verdict": compared.verdict,
        "_verdict": compared.verdict + depends,
        "_mark": compared.verdict.replace(" ", "-"),
        "higher_on": len(across.higher_on(variant)),
        **estimate_fields("improvement", aggregate.estimate),
        "bootstrap_low": low,
        "bootstrap_high": high,
    }


def _probability(row: pd.Series) -> str:
    """`88 (53 to 99)`: the interval is not symmetric."""
    share, low, high = (100 * row[field] for field in ("improvement", "improvement_low", "improvement_high"))
    return f"{share:.0f} ({low:.0f} to {high:.0f})"
