"""The runs of a study, with links to their records."""

from __future__ import annotations

import math
from urllib.parse import quote

from analysis import formatting
from analysis.report.render import Cell, Column, Table
from analysis.report.tables.cells import anchor, baseline_name, points, variant_cells, variant_columns
from analysis.results.study_results import StudyResults
from analysis.sources.source_run import ENDED
from experiments.metric import METRICS, Metric


def runs_table(results: StudyResults, linked: bool = True) -> Table:
    """Return all runs, variant by variant, with their differences from the baseline's run on the same seed.

    `linked` makes each seed a link to the run's record.
    """
    study, runs = results.study, results.study.runs
    others = [metric for metric in METRICS if metric in results.means.by_metric and metric != study.metric]
    columns = (
        *variant_columns(results),
        Column("seed", key=True),
        Column("status", numeric=False),
        Column(f"{study.metric.label}{study.metric.unit}"),
        Column(f"difference from {baseline_name(results)}{points(study.metric)}"),
        Column("device time (s)"),
        Column("epochs"),
        *(Column(f"{metric.label}{metric.unit}", detail=True) for metric in others),
        Column("run", numeric=False, detail=True),
        Column("run id", numeric=False, detail=True),
    )
    shown = ["run", "run_id", "seed", "status", "epochs", study.metric, *others, "device_seconds"]  # of some seventy
    rows, groups = [], []
    for variant in results.variants.names:
        names = tuple(Cell(cell.text, sort=cell.sort) for cell in variant_cells(results, variant))
        own = runs.loc[runs["variant"] == variant, shown].to_dict("records")
        rows += [(*names, *_cells(results, variant, run, others, linked)) for run in own]
        groups += [anchor(results, variant).removeprefix("#")] * len(own)
    return Table("runs", "All runs.", columns, tuple(rows), groups=tuple(groups))


def _cells(results: StudyResults, variant: str, run: dict, others: list[Metric], linked: bool) -> tuple[Cell, ...]:
    study = results.study
    metric = study.metric
    base = results.values[study.baseline].get(run["seed"], math.nan)
    diff = (results.values[variant].get(run["seed"], math.nan) - base) * metric.scale
    return (
        Cell(str(run["seed"]), sort=run["seed"], href=_link(results, run) if linked else ""),
        Cell(run["status"], mark=run["status"] if run["status"] != "finished" else ""),
        Cell(_number(run[metric] * metric.scale, metric), sort=run[metric]),
        Cell(_number(diff, metric, signed=True), sort=diff),
        Cell(formatting.number(run["device_seconds"], 1), sort=run["device_seconds"]),
        Cell(formatting.count(run["epochs"]), sort=run["epochs"]),
        *(Cell(_number(run[each] * each.scale, each), sort=run[each]) for each in others),
        Cell(run["run"]),
        Cell(run["run_id"] if isinstance(run["run_id"], str) else formatting.DASH),
    )


def _number(value: float, metric: Metric, signed: bool = False) -> str:
    return formatting.number(value, 2 if metric.is_share else 4, signed)


def _link(results: StudyResults, run: dict) -> str:
    """The path from the report's folder to the run's record; empty where there is no record."""
    return f"../{quote(run['run'])}/summary.json" if results.study.folder and run["status"] in ENDED else ""
