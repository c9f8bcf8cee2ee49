"""The section "Runs": every run with a link to its record."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import quote

import pandas as pd

from analysis.report import formats
from analysis.report.document import Section
from analysis.report.table import Column, Format, Table
from analysis.report.text import text
from analysis.report.variant_columns import baseline_name, variant_columns, variant_fields
from analysis.results.means import Means
from analysis.results.variants import Variants
from analysis.sources.runs_table import RunsTable
from analysis.sources.source_run import ENDED
from experiments.metric import METRICS, Metric

FOLDED = 200  # runs from which the list is folded


def runs_section(study: RunsTable, variants: Variants, means: Means, linked: bool) -> Section:
    """Return the section; `linked` makes each seed a link to the run's record."""
    return Section("runs", "Runs", [runs_table(study, variants, means, linked)], [text("runs", "about", linked=linked)])


def runs_table(study: RunsTable, variants: Variants, means: Means, linked: bool = True) -> Table:
    """Return all runs, variant by variant, with their differences from the baseline's run on the same seed."""
    metric = study.metric
    others = [other for other in METRICS if other in means.by_metric and other != metric]
    frame = _frame(study, variants, means, [metric, *others], linked)
    columns = (
        *(replace(column, link="") for column in variant_columns(variants)),
        Column("seed", formats.text("seed"), sort="seed", key=True, link="_record"),
        Column("status", formats.text("status"), numeric=False, mark="_mark"),
        Column(f"{metric.label}{metric.unit}", _number(metric, metric), sort=metric),
        Column(
            f"difference from {baseline_name(variants)}{', points' if metric.is_share else ''}",
            _number("_diff", metric, True),
            sort="_diff",
        ),
        Column("device time (s)", formats.number("device_seconds", 1), sort="device_seconds"),
        Column("epochs", formats.count("epochs"), sort="epochs"),
        *(Column(f"{other.label}{other.unit}", _number(other, other), sort=other, detail=True) for other in others),
        Column("run", formats.text("run"), numeric=False, detail=True),
        Column("run id", formats.text("run_id"), numeric=False, detail=True),
    )
    caption = text("runs", "caption", n=len(frame))
    return Table("runs", caption, frame, columns, folded=len(frame) > FOLDED, group="_group", listing=True)


def _frame(study: RunsTable, variants: Variants, means: Means, metrics: list[Metric], linked: bool) -> pd.DataFrame:
    fields = ["run", "run_id", "variant", "seed", "status", "epochs", *metrics, "device_seconds"]
    named = pd.DataFrame([variant_fields(variants, variant) for variant in variants.names])
    frame = named.merge(study.runs[fields], on="variant", sort=False)
    values = [means.values[variant].get(seed) for variant, seed in zip(frame["variant"], frame["seed"])]
    baseline = [means.values[study.baseline].get(seed) for seed in frame["seed"]]
    recorded = frame["status"].isin(ENDED) & linked & (study.folder is not None)
    return frame.assign(
        _diff=pd.Series(values, dtype=float) - pd.Series(baseline, dtype=float),
        _mark=frame["status"].where(frame["status"] != "finished"),
        # the path from the report's folder
        _record=("../" + frame["run"].map(quote) + "/summary.json").where(recorded),
        _group=frame["_runs"].str.removeprefix("#"),
    )


def _number(field: str, metric: Metric, signed: bool = False) -> Format:
    return formats.number(field, 2 if metric.is_share else 4, metric.scale, signed)
