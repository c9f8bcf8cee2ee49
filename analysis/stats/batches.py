"""Batch effects: whether runs made on different machines, or by different commits, differ beyond their seeds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class BatchEffect:
    """A comparison of batches.

    `batches`: their number. `variants`: how many variants have runs in several batches; only these are compared.
    `difference`: the largest batch mean minus the smallest, in the data's unit, each variant's mean subtracted. `p`: of the
    F test; NaN where there are too few seeds. With no such variant, both are NaN.
    """

    batches: int
    variants: int
    difference: float
    p: float


def batch_effect(runs: pd.DataFrame, value: str, batch: str) -> BatchEffect:
    """Compare batches within variants.

    `runs`: one row for each run, with the columns `variant`, `seed`, `value` and `batch`. Each variant's mean is subtracted,
    then the runs of one seed in one batch are averaged: they share data order and initial weights, so they are one unit.
    A one-way ANOVA compares the units of the batches (Fisher 1925). If a variant's runs are unevenly divided between the
    batches, its mean takes up part of the effect, and the test is conservative.
    """
    from scipy import stats  # slow to import; most studies have one batch

    runs = runs[["variant", "seed", value, batch]].dropna()
    total = int(runs[batch].nunique())
    crossed = runs[runs.groupby("variant")[batch].transform("nunique") > 1]
    if crossed.empty:
        return BatchEffect(total, 0, float("nan"), float("nan"))
    centred = crossed[value] - crossed.groupby("variant")[value].transform("mean")
    units = centred.groupby([crossed[batch], crossed["seed"]]).mean()
    groups = [group.to_numpy() for _, group in units.groupby(level=0)]
    means = [float(group.mean()) for group in groups]
    spread = max(float(np.ptp(group)) for group in groups)
    testable = len(units) > len(groups) and spread > 0
    p = float(stats.f_oneway(*groups).pvalue) if testable else float("nan")
    return BatchEffect(total, int(crossed["variant"].nunique()), max(means) - min(means), p)
