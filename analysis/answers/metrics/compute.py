"""How training went: what each variant costs (parameters, FLOPs, memory, time), and its learning curves."""

from typing import NamedTuple

import pandas as pd

from analysis import stats
from analysis.results.policy import smallest_sd
from analysis.sources.runs_table import RunsTable
from analysis.sources.source_run import ENDED
from experiments.metric import Metric


class Curve(NamedTuple):
    """The finished runs of a variant by epoch. `mean`: `value`, `low` and `high`; `runs`: a column for each run."""

    mean: pd.DataFrame
    runs: pd.DataFrame


Curves = dict[Metric, dict[str, Curve]]
"""metric -> variant -> its learning curve"""

SHOWN = tuple(map(Metric, ("val/acc", "train/loss")))
"""The metrics whose learning curves are shown."""
SIZES = ("params", "params_fixed", "flops_per_image", "peak_memory_bytes")
TIMES = ("device_seconds", "images_per_second")


def study_cost(study: RunsTable) -> pd.DataFrame:
    """A row for each variant: `SIZES`, `TIMES`, `device_seconds_ratio` and `slowest`.

    Sizes are the variant's (the largest, should its runs differ); times are medians over its runs, diverged ones too:
    one run beside which the machine had other work must not make a variant slow. `device_seconds_ratio` is the median,
    over the seeds that were trained on the same hardware as the baseline's run, of the ratio to it; `slowest` the
    longest run over the median of its variant's on its hardware.
    """
    ended = study.of(*ENDED)
    grouped = ended.groupby("variant", sort=False)
    seconds = ended.set_index(["seed", "hardware"])["device_seconds"]
    alike = seconds[(ended["variant"] == study.baseline).to_numpy()]
    alike = alike[~alike.index.duplicated()]
    ratio = pd.Series(seconds.to_numpy() / alike.reindex(seconds.index).to_numpy(), index=ended.index)
    usual = ended.groupby(["variant", "hardware"], dropna=False)["device_seconds"].transform("median")
    beside = pd.DataFrame({"device_seconds_ratio": ratio, "slowest": ended["device_seconds"] / usual})
    beside = beside.groupby(ended["variant"], sort=False).agg({"device_seconds_ratio": "median", "slowest": "max"})
    table = pd.concat([grouped[list(SIZES)].max(), grouped[list(TIMES)].median(), beside], axis=1)
    return table.reindex(study.variants)


def study_curves(study: RunsTable) -> Curves:
    """The learning curves of two epochs or more.

    An accuracy's interval is clipped to [0, 1], which a t interval may exceed.
    """
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


def _curve(table: pd.DataFrame, metric: Metric, floor: float) -> Curve:
    """A variant's curve, from a row for each epoch and a column for each of its runs."""
    table = table.dropna(how="all")
    means = stats.means(table.to_numpy(dtype=float), floor=floor) if len(table) else []
    curve = pd.DataFrame(means, index=table.index, columns=["value", "low", "high", "n"], dtype=float).drop(columns="n")
    return Curve(curve.clip(0, 1) if metric.is_share else curve, table)
