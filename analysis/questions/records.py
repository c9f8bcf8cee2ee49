"""Which runs are there? Every run, with a link to its record."""

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pandas as pd

from analysis import words
from analysis.findings import Findings
from analysis.findings.columns import baseline_name, key_columns
from analysis.findings.rows import VariantRow
from analysis.runs.runs import ENDED
from analysis.write.document import Section
from analysis.write.table import Column, Table
from experiments.metric import METRICS, Metric

LINKED = "A seed links to the record of its run. "
PAIRED = "Differences are from the baseline's run with the same seed. "
ABOUT = (
    "runs.csv has a row for each run, with its settings, "
    "metrics, cost and provenance; curves.csv has a row for each epoch of each run."
)
FOLDED = 200  # runs from which the list is folded
FIELDS = ("run", "run_id", "variant", "seed", "status", "epochs", "device_seconds", "reused_from")
MOST_LISTED = 2000  # runs that the page lists


def question(findings: Findings) -> Section:
    """Every run; a seed links to its record where the report lies in the study's folder."""
    folder, out = findings.study.folder, findings.options.out
    linked = folder is not None and (out is None or out.absolute().parent == folder.absolute())
    said = LINKED * linked + PAIRED * (findings.policy.unit == "seed") + ABOUT
    return Section("runs", "Runs", [runs_table(findings, linked)], [said], frames={"runs": findings.runs})


@dataclass(frozen=True)
class RunRow:
    """A run and its variant. `record`: the link to its record."""

    of: VariantRow
    run: Mapping[Hashable, Any]  # its row of `Runs.runs`
    difference: float  # from the baseline's run with the same seed; NaN where there is none
    record: str


def runs_table(findings: Findings, linked: bool = True) -> Table:
    """All runs, variant by variant, with their differences from the baseline's run on the same seed."""
    variants, metric, runs = findings.variants, findings.means.metric, findings.study.runs
    runs, others = runs[runs["variant"].isin(variants.names)], [m for m in METRICS if m in findings.means.by_metric]
    caption = f"All {words.plural(len(runs), 'run')}."
    if len(runs) > MOST_LISTED:
        most = max(1, MOST_LISTED // len(variants.names))
        caption = f"The first {most} runs of each variant, of {words.count(len(runs))} runs."
        runs = runs.groupby("variant", sort=False).head(most)
    paired, head = findings.policy.unit == "seed", f"difference from {baseline_name(variants)}{metric.difference_unit}"
    seed = Column("seed", _of("seed"), words.digits, key=True, link="record")
    columns = (
        *(*key_columns(variants, "of.", link=False), *([seed] if paired else [])),
        Column("status", _of("status"), mark=lambda row: "" if row.run["status"] == "finished" else row.run["status"]),
        Column(f"{metric.label}{metric.unit}", _of(metric), _number(metric)),
        *([Column(head, "difference", _number(metric, signed=True))] if paired else []),
        Column("device time (s)", _of("device_seconds"), words.numbers(1)),
        Column("epochs", _of("epochs"), words.counts),
        *(Column(f"{m.label}{m.unit}", _of(m), _number(m), detail=True) for m in others if m != metric),
        Column("run", _of("run"), detail=paired),
        Column("run id", _of("run_id"), detail=True),
    )
    rows, folded = _rows(findings, runs[[*FIELDS, *{metric: 0, **dict.fromkeys(others)}]], linked), len(runs) > FOLDED
    return Table("runs", caption, rows, columns, folded=folded, group=lambda row: row.of.anchor[1:], listing=True)


def _rows(findings: Findings, runs: pd.DataFrame, linked: bool) -> list[RunRow]:
    values = findings.means.values
    differences = values.sub(values[findings.variants.baseline], axis=0).to_dict()
    by_variant, rows = dict(list(runs.groupby("variant"))), list[RunRow]()
    for row in findings.rows:
        for run in by_variant[row.variant].to_dict("records"):
            is_there = run["status"] in ENDED and pd.isna(run["reused_from"])
            recorded = linked and findings.study.folder is not None and is_there
            link = f"../{quote(run['run'])}/summary.json" if recorded else ""  # from the report's folder
            rows.append(RunRow(row, run, differences[row.variant].get(run["seed"], math.nan), link))
    return rows


def _of(field: str) -> Callable[[RunRow], Any]:
    return lambda row: row.run[field]


def _number(metric: Metric, signed: bool = False) -> words.Format:
    return words.numbers(2 if metric.is_share else 4, metric.scale, signed)
