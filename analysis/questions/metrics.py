"""What else was measured? The learning curves, the mean of every metric, and how runs vary."""

from collections.abc import Callable
from dataclasses import replace

import pandas as pd

from analysis import words
from analysis.figures.style import Plot
from analysis.figures.styles import ONLY_COLOURED
from analysis.figures.values import FEWEST_FOR_BAND, draw_curves
from analysis.findings import Findings
from analysis.findings.columns import mean_column, variant_table
from analysis.findings.rows import VariantRow
from analysis.write.document import Section
from analysis.write.table import Column, Table
from experiments.metric import METRICS, Metric

CURVES = tuple(map(Metric, ("val/acc", "train/loss")))  # the metrics whose learning curves are shown
SPREAD: dict[str, tuple[str, Callable[[pd.Series], float]]] = {
    "sd": ("standard deviation", pd.Series.std),
    "lowest": ("minimum", pd.Series.min),
    "highest": ("maximum", pd.Series.max),
}


def curves(findings: Findings) -> Section | None:
    """The learning curves; nothing where no run has two epochs."""
    rows, styles, frames = curve_rows(findings), findings.styles, {"curves": findings.study.curves}
    if rows.empty:
        return Section("curves", "Learning curves", frames=frames)
    runs = rows.groupby(["metric", "variant"])["run"].nunique()
    few, many = runs.min() < FEWEST_FOR_BAND, runs.max() >= FEWEST_FOR_BAND
    both = few and many
    labels = [Metric(name).label for name in rows["metric"].unique()]
    caption = [
        f"Learning curves: {words.listing(labels)} by epoch.",
        f"{'Thick line' if few else 'Line'}: mean over the finished runs.",
        f"Band: its {words.CONFIDENCE} interval{f', from {FEWEST_FOR_BAND} runs on' if both else ''}." if many else "",
        f"Thin lines: the runs{f', where there are fewer than {FEWEST_FOR_BAND}' if both else ''}." if few else "",
        ONLY_COLOURED if styles.note else "",
    ]
    plot = Plot("curves", lambda: draw_curves(rows, styles), " ".join(filter(None, caption)))
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
    spread = spread_table(findings)
    if findings.means.by_metric.keys().isdisjoint(METRICS):  # the user's own metric alone
        return Section("metrics", "Spread", [spread])
    return Section("metrics", "All metrics", [metrics_table(findings), spread])


def _seeds(findings: Findings) -> Column:
    """How many runs there are; the main table says it where all have as many."""
    return Column("n", "mean.n", words.counts, "n", detail=len({row.mean.n for row in findings.rows}) == 1)


def metrics_table(findings: Findings) -> Table:
    """The mean of every metric; those of the training images are details."""
    measured = [metric for metric in METRICS if metric in findings.means.by_metric]
    columns = (mean_column(metric, findings, detail=metric.startswith("train/")) for metric in measured)
    caption = f"All metrics after the last epoch: mean and {words.CONFIDENCE} confidence interval."
    return variant_table("metrics", caption, findings, (_seeds(findings), *columns))


def spread_table(findings: Findings) -> Table:
    """How the runs of each variant vary."""
    means, metric = findings.means, findings.means.metric
    show = words.numbers(words.shared_places(means.of_variants.values(), metric), metric.scale)

    def spread(measure: Callable[[pd.Series], float]) -> Callable[[VariantRow], float]:
        return lambda row: measure(pd.Series(means.values[row.variant], dtype=float))

    spreads = (Column(label, spread(measure), show, field) for field, (label, measure) in SPREAD.items())
    mean = replace(mean_column(metric, findings), label=f"mean {metric.label}{metric.unit}", field="mean")
    return variant_table("spread", f"Spread of the runs: {metric.label}.", findings, (_seeds(findings), mean, *spreads))
