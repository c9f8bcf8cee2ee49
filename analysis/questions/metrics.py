"""What else was measured? The learning curves, the mean of every metric, and how runs vary."""

import pandas as pd

from analysis import verdicts, words
from analysis.figures.lines import FEWEST_FOR_BAND, Curve, draw_curves
from analysis.figures.style import Plot
from analysis.findings import Findings
from analysis.findings.columns import mean_column, variant_table
from analysis.write.document import Section
from analysis.write.table import Column, Table
from experiments.metric import METRICS, Metric

CURVES = tuple(map(Metric, ("val/acc", "train/loss")))  # the metrics whose learning curves are shown


def curves(findings: Findings) -> Section | None:
    """The learning curves; nothing where no run has two epochs."""
    by_metric, styles, frames = study_curves(findings), findings.styles, {"curves": findings.study.curves}
    if not by_metric:
        return Section("curves", "Learning curves", frames=frames)
    runs = {own[variant].runs.shape[1] for own in by_metric.values() for variant in styles.coloured} - {0}
    few, many = min(runs) < FEWEST_FOR_BAND, max(runs) >= FEWEST_FOR_BAND
    both = few and many
    caption = [
        f"Learning curves: {words.listing([metric.label for metric in by_metric])} by epoch.",
        f"{'Thick line' if few else 'Line'}: mean over the finished runs.",
        f"Band: its {words.CONFIDENCE} interval{f', from {FEWEST_FOR_BAND} runs on' if both else ''}." if many else "",
        f"Thin lines: the runs{f', where there are fewer than {FEWEST_FOR_BAND}' if both else ''}." if few else "",
        styles.left_out if styles.some_grey else "",
    ]
    plot = Plot("curves", lambda: draw_curves(by_metric, styles), " ".join(filter(None, caption)))
    return Section("curves", "Learning curves", [plot], frames=frames)


def study_curves(findings: Findings) -> dict[Metric, dict[str, Curve]]:
    """Metric -> variant that has a colour -> its learning curve, where a run has two epochs or more."""
    epochs, finished = findings.study.curves, findings.study.of("finished")
    if epochs.empty or epochs["epoch"].nunique() < 2:
        return {}
    epochs = epochs[epochs["run"].isin(finished["run"])]
    runs_of, by_metric = epochs.groupby("variant", sort=False)["run"].unique(), dict[Metric, dict[str, Curve]]()
    for metric in CURVES:
        if metric in epochs and epochs[metric].notna().any():
            table = epochs.pivot_table(index="epoch", columns="run", values=metric, aggfunc="last", sort=True)
            by_metric[metric] = {
                variant: _curve(table[table.columns.intersection(runs_of.get(variant, []))], metric)
                for variant in findings.styles.coloured
            }
    return by_metric


def _curve(table: pd.DataFrame, metric: Metric) -> Curve:
    """A variant's curve, an accuracy's cut at 0 and 1; `table`: a row for each epoch, a column for each of its runs."""
    table = table.dropna(how="all")
    means = verdicts.means(table.to_numpy(dtype=float)) if len(table) else []
    curve = pd.DataFrame(means, index=table.index, columns=["value", "low", "high", "n"], dtype=float).drop(columns="n")
    return Curve(curve.clip(0, 1) if metric.is_share else curve, table)


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
    spread = Column(
        f"standard deviation of {metric.label}{metric.difference_unit}",
        lambda row: pd.Series(means.values[row.variant], dtype=float).std(),
        show,
        "sd",
    )
    caption = f"All metrics after the last epoch: mean and {words.CONFIDENCE} confidence interval."
    return variant_table("metrics", caption, findings, (n, *columns, spread))
