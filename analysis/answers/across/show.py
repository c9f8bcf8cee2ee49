"""The sections of a report over several datasets: means, differences from the baseline, and each dataset."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis import formatting
from analysis.answers.across.compute import AcrossDatasets
from analysis.answers.columns import NAME, VERDICT, difference_column, difference_fields, verdict_fields
from analysis.figures.means import draw_averages
from analysis.figures.style import Plot
from analysis.stats import Estimate
from analysis.write.document import Section
from analysis.write.table import Column, Table
from analysis.write.text import text


def scores_section(across: AcrossDatasets, notes: list[str]) -> Section:
    """The means of each variant with their intervals. `notes`: on the runs of each dataset."""
    figure = Plot("across", draw_averages(across), text("averages", "scores", across=across))
    return Section("result", "Results", [figure, _scores_table(across, notes)])


def differences_section(across: AcrossDatasets) -> Section:
    """The average differences from the baseline with verdicts."""
    metric, count = across.policy.metric, len(across.studies)
    difference = difference_column(metric, f"difference from {across.baseline}")
    columns = (
        NAME,
        difference,
        Column("p (adjusted)", "p_adjusted", formatting.p_values, detail=True),
        VERDICT,
        Column("datasets with a higher mean", "higher_on", formatting.each(lambda n: f"{n} of {count}")),
    )
    rows = [
        {
            "variant": variant,
            **difference_fields(compared),
            "diff": compared.diff.value,
            "low": compared.diff.low,
            "high": compared.diff.high,
            "p": compared.p,
            "p_adjusted": compared.p_adjusted,
            **verdict_fields(compared),
            "higher_on": sum(bool(differences.mean() > 0) for differences in across.by_dataset[variant].values()),
        }
        for variant, compared in across.differences.items()
    ]
    caption, note = (text("averages", macro, across=across) for macro in ("differences", "differences_note"))
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


def _scores_table(across: AcrossDatasets, notes: list[str]) -> Table:
    """One row for each variant."""
    metric = across.policy.metric
    rows = [{"variant": variant, "mean": score, "runs": score.n} for variant, score in across.scores.items()]
    mean = Column(f"mean{metric.unit}", "mean", formatting.intervals(metric))
    runs = Column("runs", "runs", formatting.counts)
    return Table("across", text("averages", "table"), pd.DataFrame(rows), (NAME, mean, runs), tuple(notes))


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
