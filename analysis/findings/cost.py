"""What each variant costs: parameters, FLOPs, memory, time."""

import pandas as pd

from analysis.runs.runs import Runs
from analysis.runs.source_run import ENDED

SIZES = ("params", "params_fixed", "flops_per_image", "peak_memory_bytes")
TIMES = ("device_seconds", "images_per_second")


def study_cost(study: Runs) -> pd.DataFrame:
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
