"""How training went: the learning curves of each variant."""

from __future__ import annotations

import pandas as pd

from analysis import stats
from analysis.results.policy import smallest_sd
from analysis.sources.runs_table import RunsTable
from experiments.metric import Metric

Curves = dict[Metric, dict[str, pd.DataFrame]]
"""metric -> variant -> its learning curve over the finished runs: a row for each epoch, with `value`, `low` and `high`"""

SHOWN = tuple(map(Metric, ("val/acc", "train/loss")))
"""The metrics whose learning curves are shown."""


def study_curves(study: RunsTable) -> Curves:
    """The learning curves of two epochs or more. An accuracy's interval is clipped to [0, 1], which a t interval may exceed."""
    epochs, finished = study.curves, study.of("finished")
    if epochs.empty or epochs["epoch"].nunique() < 2:
        return {}
    epochs = epochs[epochs["run"].isin(finished["run"])]
    runs_of = epochs.groupby("variant", sort=False)["run"].unique()
    curves: Curves = {}
    for metric in SHOWN:
        if metric in epochs and epochs[metric].notna().any():
            table = epochs.pivot_table(index="epoch", columns="run", values=metric, aggfunc="last", sort=True)
            floor = smallest_sd(finished, metric)
            curves[metric] = {
                variant: _curve(table[table.columns.intersection(runs_of.get(variant, []))], metric, floor)
                for variant in study.variants
            }
    return curves


def _curve(table: pd.DataFrame, metric: Metric, floor: float) -> pd.DataFrame:
    """A variant's curve, from a row for each epoch and a column for each of its runs."""
    table = table.dropna(how="all")
    means = stats.means(table.to_numpy(dtype=float), floor=floor) if len(table) else []
    curve = pd.DataFrame(means, index=table.index, columns=["value", "low", "high", "n"], dtype=float)
    curve = curve.drop(columns="n")
    return curve.clip(0, 1) if metric.is_share else curve
