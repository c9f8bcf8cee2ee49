"""What the tuning of a study shows: the expected best accuracy against the budget, and choices at the edge of the search space."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis import stats
from analysis.sources.runs_table import RunsTable
from experiments.config import DEFAULTS, LOCATIONS
from experiments.metric import Metric
from experiments.tuned import Range, Tuned

COLUMNS = ("variant", "trial", "seed", "status", "epochs", "val/acc", "val/loss")
EDGE = 0.05  # share of a range, on its scale, that counts as its edge


@dataclass(frozen=True)
class Tuning:
    """A tuning with its statistics. Values are in the data's units (accuracies as fractions)."""

    plan: Tuned
    metric: Metric
    """the metric that decided"""
    trials: pd.DataFrame
    """one row for each trial: `COLUMNS` and then the settings of the space; metrics of trials without a value are NaN"""
    expected: dict[str, pd.DataFrame]
    """variant -> a row for each number of trials: the `epochs` that they take on average, and the expected best `value`. A
    trial without a value (diverged or failed) counts as 0"""
    at_edge: dict[str, list[str]]
    """setting -> variants whose choice lies at or near an end of the range that was tried"""
    other_base: dict[str, tuple[Any, Any]]
    """setting -> (in the tuning, in the study), for settings of the base that differ"""

    def of(self, variant: str) -> pd.DataFrame:
        """The trials of a variant."""
        return self.trials[self.trials["variant"] == variant]


def study_tuning(study: RunsTable) -> Tuning | None:
    """The tuning of a study; None for a study that was not tuned."""
    plan = study.plan.tuned
    if plan is None:
        return None
    rows = [{**trial.model_dump(by_alias=True), **trial.settings} for trial in plan.trials]
    trials = pd.DataFrame(rows, columns=[*COLUMNS, *plan.space]).astype({"val/acc": float, "val/loss": float})
    variants = [variant for variant in study.variants if variant in plan.variants]
    expected = {}
    for variant, of_variant in trials.groupby("variant", sort=False):
        number, best = np.arange(1, len(of_variant) + 1), stats.expected_best(of_variant[plan.objective].fillna(0.0))
        expected[variant] = pd.DataFrame({"epochs": number * of_variant["epochs"].mean(), "value": best})
    ranges = {path: tried for path, tried in plan.space.items() if tried.low is not None}
    edges = {
        path: [variant for variant in variants if _is_edge(tried, plan.variants[variant].settings[path])]
        for path, tried in ranges.items()
    }
    return Tuning(
        plan=plan,
        metric=Metric(plan.objective),
        trials=trials,
        expected={variant: expected[variant] for variant in variants},
        at_edge={path: named for path, named in edges.items() if named},
        other_base=_other_base(plan, study),
    )


def _is_edge(tried: Range, value: float) -> bool:
    """Whether a value lies in the outer part of its range. An end at 0 is no edge: there is nothing below."""
    scale = math.log if tried.log else float
    low, high = map(scale, tried.ends)
    share = (scale(value) - low) / (high - low)
    return share > 1 - EDGE or (share < EDGE and tried.ends[0] > 0)


def _other_base(plan: Tuned, study: RunsTable) -> dict[str, tuple[Any, Any]]:
    ignored = {*plan.space, *study.varied, *LOCATIONS, "seed"}
    pairs = {path: (plan.base.get(path, default), study.base.get(path, default)) for path, default in DEFAULTS.items()}
    return {path: pair for path, pair in pairs.items() if pair[0] != pair[1] and path not in ignored}
