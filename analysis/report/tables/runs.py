"""The runs of each variant, with links to their records."""

from __future__ import annotations

import math
from urllib.parse import quote

from analysis import formatting
from analysis.metric import Metric
from analysis.report.render import Cell, Column, Table
from analysis.report.tables.cells import baseline_name, points
from analysis.results import Results
from analysis.sources.study import ENDED, METRICS


def runs_table(results: Results, variant: str, linked: bool = True) -> Table:
    """Return the runs of a variant with their differences from the baseline's run on the same seed.

    `linked` makes each run's name a link to its record.
    """
    study, runs = results.study, results.study.runs
    metrics = [metric for metric in METRICS if metric in results.means]
    columns = (
        Column("run", numeric=False),
        Column("run id", numeric=False),
        Column("seed"),
        Column("status", numeric=False),
        Column("epochs"),
        *(Column(f"{metric.label}{metric.unit}") for metric in metrics),
        Column(f"difference from {baseline_name(results)}{points(study.metric)}"),
        Column("device time (s)"),
    )
    shown = ["run", "run_id", "seed", "status", "epochs", *metrics, "device_seconds"]  # of some seventy columns
    own = runs.loc[runs["variant"] == variant, shown].to_dict("records")
    rows = tuple(_row(results, variant, run, metrics, linked) for run in own)
    return Table(f"runs-v{results.variants.index(variant)}", f"Runs of {variant}", columns, rows)


def _row(results: Results, variant: str, run: dict, metrics: list[Metric], linked: bool) -> tuple[Cell, ...]:
    study = results.study
    base = results.values[study.baseline].get(run["seed"], math.nan)
    diff = (results.values[variant].get(run["seed"], math.nan) - base) * study.metric.scale
    return (
        Cell(run["run"], href=_link(results, run) if linked else ""),
        Cell(str(run["run_id"] or formatting.DASH)),
        Cell(str(run["seed"]), sort=run["seed"]),
        Cell(run["status"], mark=run["status"] if run["status"] != "finished" else ""),
        Cell(formatting.count(run["epochs"]), sort=run["epochs"]),
        *(Cell(_number(run[metric] * metric.scale, metric), sort=run[metric]) for metric in metrics),
        Cell(_number(diff, study.metric, signed=True), sort=diff),
        Cell(formatting.number(run["device_seconds"], 1), sort=run["device_seconds"]),
    )


def _number(value: float, metric: Metric, signed: bool = False) -> str:
    return formatting.number(value, 2 if metric.is_share else 4, signed)


def _link(results: Results, run: dict) -> str:
    """The path from the report's folder to the run's record; empty where there is no record."""
    return f"../{quote(run['run'])}/summary.json" if results.study.folder and run["status"] in ENDED else ""
