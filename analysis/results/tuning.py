"""Statistics of a tuning: the expected best accuracy against the budget, and choices at the edge of the search space."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis import stats
from analysis.sources.runs_table import RunsTable
from experiments.metric import Metric
from experiments.tuned import Range, Tuned

COLUMNS = ("variant", "trial", "seed", "status", "epochs", "val/acc", "val/loss")
FIELDS = {"variant", "trial", "seed", "status", "epochs", "val_acc", "val_loss"}
EDGE = 0.05  # share of a range, on its scale, that counts as its edge


@dataclass(frozen=True)
class ExpectedBest:
    """`epochs` [N]: the cost of 1 to N trials, at the mean cost of the variant's trials; `value` [N]: the expected best."""

    epochs: np.ndarray
    value: np.ndarray


@dataclass(frozen=True)
class TuningResults:
    """A tuning with its statistics. Values are in the data's units (accuracies as fractions)."""

    tuning: Tuned
    trials: pd.DataFrame
    """one row for each trial: `COLUMNS` and then the settings of the space; metrics of trials without a value are NaN"""
    expected: dict[str, ExpectedBest]
    """variant -> the expected best of its trials. A trial without a value (diverged or failed) counts as 0"""
    at_edge: dict[str, list[str]]
    """setting -> variants whose choice lies at or near an end of the range that was tried"""
    other_base: dict[str, tuple[Any, Any]]
    """setting -> (in the tuning, in the study), for settings of the base that differ"""

    @property
    def metric(self) -> Metric:
        """The metric that decided."""
        return Metric(self.tuning.objective)

    def of(self, variant: str) -> pd.DataFrame:
        """The trials of a variant."""
        return self.trials[self.trials["variant"] == variant]


def tuning_results(study: RunsTable) -> TuningResults | None:
    """The statistics of a study's tuning; None for a study that was not tuned."""
    tuning = study.plan.tuned
    if tuning is None:
        return None
    variants = [variant for variant in study.variants if variant in tuning.variants]
    trials = _trials(tuning)
    return TuningResults(
        tuning=tuning,
        trials=trials,
        expected={variant: _expected(trials[trials["variant"] == variant], tuning.objective) for variant in variants},
        at_edge=_at_edge(tuning, variants),
        other_base=_other_base(tuning, study),
    )


def _trials(tuning: Tuned) -> pd.DataFrame:
    rows = [{**trial.model_dump(by_alias=True, include=FIELDS), **trial.settings} for trial in tuning.trials]
    table = pd.DataFrame(rows, columns=[*COLUMNS, *tuning.space])
    return table.astype({"val/acc": float, "val/loss": float})


def _expected(trials: pd.DataFrame, objective: str) -> ExpectedBest:
    number = np.arange(1, len(trials) + 1)
    return ExpectedBest(number * trials["epochs"].mean(), stats.expected_best(trials[objective].fillna(0.0)))


def _at_edge(tuning: Tuned, variants: list[str]) -> dict[str, list[str]]:
    found = {
        path: [variant for variant in variants if _is_edge(tried, tuning.variants[variant].settings[path])]
        for path, tried in tuning.space.items()
        if tried.low is not None
    }
    return {path: named for path, named in found.items() if named}


def _is_edge(tried: Range, value: float) -> bool:
    """Whether a value lies in the outer part of its range. An end at 0 is no edge: there is nothing below."""
    low, high = tried.ends
    if tried.log:
        low, high, value = math.log(low), math.log(high), math.log(value)
    share = (value - low) / (high - low)
    return share > 1 - EDGE or (share < EDGE and tried.ends[0] > 0)


def _other_base(tuning: Tuned, study: RunsTable) -> dict[str, tuple[Any, Any]]:
    from experiments.config import DEFAULTS, LOCATIONS

    ignored = {*tuning.space, *study.varied, *LOCATIONS, "seed"}
    pairs = {
        path: (tuning.base.get(path, default), study.base.get(path, default)) for path, default in DEFAULTS.items()
    }
    return {path: pair for path, pair in pairs.items() if pair[0] != pair[1] and path not in ignored}
