"""What was measured: the learning curves, the mean of every metric, how runs vary, and every run with its record."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote

import pandas as pd

from analysis import formatting
from analysis.answers.answer import Answer, Page
from analysis.answers.columns import baseline_name, mean_column, variant_columns, variant_fields, variant_table
from analysis.answers.metrics.compute import Curves
from analysis.figures.labels import Styles
from analysis.figures.line_figures import FEWEST_FOR_BAND, draw_curves
from analysis.figures.style import Plot
from analysis.formatting import Format
from analysis.results.means import Means
from analysis.results.variants import Variants
from analysis.sources.runs_table import RunsTable
from analysis.sources.source_run import ENDED
from analysis.write.document import Section
from analysis.write.table import Column, Table
from analysis.write.text import text
from experiments.metric import METRICS, Metric

if TYPE_CHECKING:
    from analysis.answers.study_results import StudyResults

SEEDS = Column("n", "n", formatting.counts)
SPREAD = {"sd": "standard deviation", "lowest": "minimum", "highest": "maximum"}
FOLDED = 200  # runs from which the list is folded


def curves_section(curves: Curves, styles: Styles) -> Section:
    """Return the figure of the learning curves; the section is empty where no run has two epochs."""
    if not curves:
        return Section("curves", "Learning curves")
    runs = {by_variant[variant].runs.shape[1] for by_variant in curves.values() for variant in styles.coloured} - {0}
    labels = [metric.label for metric in curves]
    caption = text("metrics", "curves", metrics=labels, styles=styles, runs=runs, fewest=FEWEST_FOR_BAND)
    return Section("curves", "Learning curves", [Plot("curves", draw_curves(curves, styles), caption)])


def metrics_section(variants: Variants, means: Means) -> Section:
    """All metrics."""
    spread = spread_table(variants, means)
    if means.by_metric.keys().isdisjoint(METRICS):  # the user's own metric alone
        return Section("metrics", "Spread", [spread])
    return Section("metrics", "All metrics", [metrics_table(variants, means), spread])


def metrics_table(variants: Variants, means: Means) -> Table:
    """The mean of every metric; those of the training images are details."""
    measured = [metric for metric in METRICS if metric in means.by_metric]
    rows = {
        variant: {"n": means.of(variant).n, **{metric: means.by_metric[metric][variant] for metric in measured}}
        for variant in variants.names
    }
    columns = (mean_column(metric, metric, detail=metric.startswith("train/")) for metric in measured)
    return variant_table("metrics", text("metrics", "caption"), variants, rows, (SEEDS, *columns))


def spread_table(variants: Variants, means: Means) -> Table:
    """How the runs of each variant vary."""
    metric, rows = variants.metric, {}
    for variant in variants.names:
        mean, runs = means.of(variant), pd.Series(means.values[variant], dtype=float)
        spread = {"sd": runs.std(), "lowest": runs.min(), "highest": runs.max()}
        rows[variant] = {"n": mean.n, "mean": mean, **spread}
    show = formatting.numbers(formatting.shared_places(map(means.of, variants.names), metric), metric.scale)
    spreads = (Column(label, field, show) for field, label in SPREAD.items())
    columns = (SEEDS, mean_column(metric, "mean", "mean "), *spreads)
    return variant_table("spread", text("metrics", "spread_caption", metric=metric), variants, rows, columns)


def runs_section(study: RunsTable, variants: Variants, means: Means, linked: bool) -> Section:
    """Return the section; `linked` makes each seed a link to the run's record."""
    return Section(
        "runs", "Runs", [runs_table(study, variants, means, linked)], [text("metrics", "runs", linked=linked)]
    )


def runs_table(study: RunsTable, variants: Variants, means: Means, linked: bool = True) -> Table:
    """Return all runs, variant by variant, with their differences from the baseline's run on the same seed."""
    metric = study.metric
    others = [other for other in METRICS if other in means.by_metric and other != metric]
    frame = _runs_frame(study, variants, means, [metric, *others], linked)
    difference = f"difference from {baseline_name(variants)}{metric.difference_unit}"
    columns = (
        *(replace(column, link="") for column in variant_columns(variants)),
        Column("seed", "seed", formatting.digits, key=True, link="_record"),
        Column("status", "status", mark="_mark"),
        Column(f"{metric.label}{metric.unit}", metric, _number(metric)),
        Column(difference, "_diff", _number(metric, signed=True)),
        Column("device time (s)", "device_seconds", formatting.numbers(1)),
        Column("epochs", "epochs", formatting.counts),
        *(Column(f"{other.label}{other.unit}", other, _number(other), detail=True) for other in others),
        Column("run", "run", detail=True),
        Column("run id", "run_id", detail=True),
    )
    caption = text("metrics", "runs_caption", n=len(frame))
    return Table("runs", caption, frame, columns, folded=len(frame) > FOLDED, group="_group", listing=True)


def _runs_frame(
    study: RunsTable, variants: Variants, means: Means, metrics: list[Metric], linked: bool
) -> pd.DataFrame:
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


def _number(metric: Metric, signed: bool = False) -> Format:
    return formatting.numbers(2 if metric.is_share else 4, metric.scale, signed)


def curves(results: StudyResults, page: Page) -> Answer:
    """The learning curves."""
    return Answer(lambda: [curves_section(results.curves, page.styles)], frames={"curves": results.study.curves})


def answer(results: StudyResults, page: Page) -> Answer:
    """The mean of every metric, and how runs vary."""
    return Answer(lambda: [metrics_section(results.variants, results.means)])


def runs(results: StudyResults, page: Page) -> Answer:
    """Every run, with a link to its record where the page lies in the study's folder."""
    study = results.study
    linked = study.folder is not None and (page.out is None or page.out.absolute().parent == study.folder.absolute())
    return Answer(lambda: [runs_section(study, results.variants, results.means, linked)], frames={"runs": study.runs})
