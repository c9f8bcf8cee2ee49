"""The mean of every metric, and how the runs of each variant vary."""

from __future__ import annotations

import pandas as pd

from analysis.report import formats
from analysis.report.document import Section, present
from analysis.report.table import Column, Table, estimate_fields
from analysis.report.text import text
from analysis.report.variant_columns import count_column, mean_column, variant_columns, variant_fields
from analysis.results.conduct import Conduct
from analysis.results.means import Means
from analysis.results.variants import Variants
from experiments.metric import METRICS

SPREAD = {"sd": "standard deviation", "lowest": "minimum", "highest": "maximum"}


def metrics(variants: Variants, means: Means, conduct: Conduct) -> Section:
    """All metrics."""
    items = present(metrics_table(variants, means, conduct), spread_table(variants, means))
    return Section("metrics", "All metrics", items)


def metrics_table(variants: Variants, means: Means, conduct: Conduct) -> Table:
    """The mean of every metric; those of the training images are details."""
    measured = [metric for metric in METRICS if metric in means.by_metric]
    rows = []
    for variant in variants.names:
        row = {**variant_fields(variants, variant), "n": means.of(variant).n}
        for metric in measured:
            row |= estimate_fields(metric, means.by_metric[metric][variant])
        rows.append(row)
    shown = (mean_column(metric, metric, detail=metric.startswith("train/")) for metric in measured)
    notes = (text("conduct", "counts", conduct=conduct),)
    columns = (*variant_columns(variants), count_column(), *shown)
    return Table("metrics", text("metrics", "caption"), pd.DataFrame(rows, dtype=object), columns, notes)


def spread_table(variants: Variants, means: Means) -> Table:
    """How the runs of each variant vary."""
    metric = variants.metric
    rows = []
    for variant in variants.names:
        mean, runs = means.of(variant), pd.Series(means.values[variant], dtype=float)
        spread = {"sd": runs.std(), "lowest": runs.min(), "highest": runs.max()}
        rows.append({**variant_fields(variants, variant), "n": mean.n, **estimate_fields("mean", mean), **spread})
    columns = (
        *variant_columns(variants),
        count_column(),
        mean_column(metric, "mean", "mean "),
        *(Column(label, formats.like_spread(field, metric, "sd"), sort=field) for field, label in SPREAD.items()),
    )
    caption = text("metrics", "spread_caption", metric=metric)
    return Table("spread", caption, pd.DataFrame(rows, dtype=object), columns)
