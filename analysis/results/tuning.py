"""How the variants were tuned: every trial, and choices that a reader must be warned of."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.sources.runs_table import RunsTable
from experiments.config import DEFAULTS, LOCATIONS
from experiments.metric import Metric
from experiments.tuned import Range, Tuned

COLUMNS = ("variant", "trial", "seed", "status", "epochs", "val/acc", "val/loss")
EDGE = 0.05  # share of a range, on its scale, that counts as its edge


@dataclass(frozen=True)
class Tuning:
    """A tuning: its plan, the metric that decided, and the variants of the study that were tuned.

    `trials`: a row for each trial: `COLUMNS`, then the settings of the space; metrics of trials without a value are NaN.
    `at_edge`: setting -> variants whose choice lies at or near an end of the range that was tried. `other_base`: setting ->
    (in the tuning, in the study), for settings of the base that differ.
    """

    plan: Tuned
    metric: Metric
    variants: list[str]
    trials: pd.DataFrame
    at_edge: dict[str, list[str]]
    other_base: dict[str, tuple[Any, Any]]

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
    edges = {
        path: [variant for variant in variants if _is_edge(tried, plan.variants[variant].settings[path])]
        for path, tried in plan.space.items()
    }
    at_edge = {path: named for path, named in edges.items() if named}
    return Tuning(plan, Metric(plan.objective), variants, trials, at_edge, _other_base(plan, study))


def _is_edge(tried: Range, value: Any) -> bool:
    """Whether a value lies in the outer part of its range. An end at 0 is no edge: there is nothing below."""
    if tried.choices is not None:
        return False
    scale = math.log if tried.log else float
    low, high = map(scale, tried.ends)
    share = (scale(value) - low) / (high - low)
    return share > 1 - EDGE or (share < EDGE and tried.ends[0] > 0)


def _other_base(plan: Tuned, study: RunsTable) -> dict[str, tuple[Any, Any]]:
    ignored = {*plan.space, *study.varied, *LOCATIONS, "seed"}
    pairs = {path: (plan.base.get(path, default), study.base.get(path, default)) for path, default in DEFAULTS.items()}
    return {path: pair for path, pair in pairs.items() if pair[0] != pair[1] and path not in ignored}
