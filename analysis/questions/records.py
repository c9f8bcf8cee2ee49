"""Which runs are there? Every run, with a link to its record."""

from dataclasses import replace
from urllib.parse import quote

import pandas as pd

from analysis import words
from analysis.findings import Findings
from analysis.findings.columns import baseline_name, variant_columns, variant_fields
from analysis.runs.source_run import ENDED
from analysis.write.document import Section
from analysis.write.table import Column, Table
from experiments.metric import METRICS, Metric

PAIRED = "Differences are from the baseline's run with the same seed. "
ABOUT = (
    "runs.csv has a row for each run, with its settings, "
    "metrics, cost and provenance; curves.csv has a row for each epoch of each run."
)
FOLDED = 200  # runs from which the list is folded
MOST_LISTED = 2000  # runs that the page lists


def question(findings: Findings) -> Section:
    """Every run; a seed links to its record where the report lies in the study's folder."""
    folder, out = findings.study.folder, findings.page.out
    linked = folder is not None and (out is None or out.absolute().parent == folder.absolute())
    said = "A seed links to the record of its run. " * linked + PAIRED * (findings.policy.unit == "seed") + ABOUT
    frames = {"runs": findings.runs}
    return Section("runs", "Runs", [runs_table(findings, linked)], [said], frames=frames)


def runs_table(findings: Findings, linked: bool = True) -> Table:
    """All runs, variant by variant, with their differences from the baseline's run on the same seed."""
    variants, metric = findings.variants, findings.means.metric
    others = [other for other in METRICS if other in findings.means.by_metric and other != metric]
    frame = _frame(findings, [metric, *others], linked)
    difference = f"difference from {baseline_name(variants)}{metric.difference_unit}"
    paired = findings.policy.unit == "seed"
    columns = (
        *(replace(column, link="") for column in variant_columns(variants)),
        *[Column("seed", "seed", words.digits, key=True, link="_record")] * paired,
        Column("status", "status", mark="_mark"),
        Column(f"{metric.label}{metric.unit}", metric, _number(metric)),
        *[Column(difference, "_diff", _number(metric, signed=True))] * paired,
        Column("device time (s)", "device_seconds", words.numbers(1)),
        Column("epochs", "epochs", words.counts),
        *(Column(f"{other.label}{other.unit}", other, _number(other), detail=True) for other in others),
        Column("run", "run", detail=paired),
        Column("run id", "run_id", detail=True),
    )
    caption = f"All {words.plural(len(frame), 'run')}."
    if len(frame) > MOST_LISTED:
        most = max(1, MOST_LISTED // len(variants.names))
        caption = f"The first {most} runs of each variant, of {words.count(len(frame))} runs."
        frame = frame.groupby("variant", sort=False).head(most).reset_index(drop=True)
    return Table("runs", caption, frame, columns, folded=len(frame) > FOLDED, group="_group", listing=True)


def _frame(findings: Findings, metrics: list[Metric], linked: bool) -> pd.DataFrame:
    variants, values, study = findings.variants, findings.means.values, findings.study
    fields = ["run", "run_id", "variant", "seed", "status", "epochs", *metrics, "device_seconds"]
    named = pd.DataFrame([variant_fields(variants, variant) for variant in variants.names])
    frame = named.merge(study.runs[fields], on="variant", sort=False)
    own = [values[variant].get(seed) for variant, seed in zip(frame["variant"], frame["seed"])]
    baseline = [values[variants.baseline].get(seed) for seed in frame["seed"]]
    recorded = frame["status"].isin(ENDED) & linked & (study.folder is not None)
    return frame.assign(
        _diff=pd.Series(own, dtype=float) - pd.Series(baseline, dtype=float),
        _mark=frame["status"].where(frame["status"] != "finished"),
        # the path from the report's folder
        _record=("../" + frame["run"].map(quote) + "/summary.json").where(recorded),
        _group=frame["_runs"].str.removeprefix("#"),
    )


def _number(metric: Metric, signed: bool = False) -> words.Format:
    return words.numbers(2 if metric.is_share else 4, metric.scale, signed)
