"""What else was measured? The learning curves, the mean of every metric, and how runs vary."""

import pandas as pd

from analysis import words
from analysis.figures.drawing import ONLY_COLOURED
from analysis.figures.style import Plot
from analysis.figures.values import FEWEST_FOR_BAND, draw_curves
from analysis.findings import Findings
from analysis.findings.columns import mean_column, variant_table
from analysis.write.document import Section
from analysis.write.table import Column, Table
from experiments.metric import METRICS, Metric

CURVES = tuple(map(Metric, ("val/acc", "train/loss")))  # the metrics whose learning curves are shown


def curves(findings: Findings) -> Section | None:
    """The learning curves; nothing where no run has two epochs."""
    rows, styles, frames = curve_rows(findings), findings.styles, {"curves": findings.study.curves}
    if rows.empty:
        return Section("curves", "Learning curves", frames=frames)
    runs = rows.groupby(["metric", "variant"])["run"].nunique()
    few, many = bool(runs.min() < FEWEST_FOR_BAND), bool(runs.max() >= FEWEST_FOR_BAND)
    from_on, below = f", from {FEWEST_FOR_BAND} runs on", f", where there are fewer than {FEWEST_FOR_BAND}"
    labels = words.listing([Metric(name).label for name in rows["metric"].unique()])
    caption = f"Learning curves: {labels} by epoch. {'Thick line' if few else 'Line'}: mean over the finished runs."
    caption += f" Band: its {words.CONFIDENCE} interval{from_on * few}." * many
    caption += f" Thin lines: the runs{below * many}." * few
    caption += f" {ONLY_COLOURED}" * bool(styles.note)
    plot = Plot("curves", lambda: draw_curves(rows, styles), caption)
    return Section("curves", "Learning curves", [plot], frames=frames)


def curve_rows(findings: Findings) -> pd.DataFrame:
    """The learning curves: a row for each metric, variant that has a colour, finished run and epoch, with its `value`;
    none where no run has two epochs.
    """
    epochs, finished = findings.study.curves, findings.study.of("finished")["run"]
    epochs = epochs[epochs["run"].isin(finished) & epochs["variant"].isin(findings.styles.coloured)]
    measured = [metric for metric in CURVES if metric in epochs]
    rows = epochs.melt(["variant", "run", "epoch"], measured, "metric", "value").dropna(subset="value")
    return rows if rows["epoch"].nunique() > 1 else rows.iloc[:0]


def question(findings: Findings) -> Section:
    """The mean of every metric, and how runs vary."""
    return Section("metrics", "All metrics", [metrics_table(findings)])


def metrics_table(findings: Findings) -> Table:
    """The mean of every metric and the standard deviation of the study's; those of the training images are details."""
    metric, means = findings.means.metric, findings.means
    measured = [other for other in METRICS if other in means.by_metric] or [metric]
    columns = [mean_column(other, findings, detail=other.startswith("train/")) for other in measured]
    n = Column("n", "mean.n", words.counts, "n", detail=len({row.mean.n for row in findings.rows}) == 1)
    show = words.numbers(words.shared_places(means.of_variants.values(), metric), metric.scale)
    head = f"standard deviation of {metric.label}{metric.difference_unit}"
    spread = Column(head, lambda row: means.values[row.variant].std(), show, "sd")
    caption = f"All metrics after the last epoch: mean and {words.CONFIDENCE} confidence interval."
    return variant_table("metrics", caption, findings, (n, *columns, spread))
