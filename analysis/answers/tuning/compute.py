"""How the variants were tuned: every trial, and choices that a reader must be warned of."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.sources.runs_table import RunsTable
from experiments.config import DEFAULTS, LOCATIONS
from experiments.metric import Metric
from experiments.tuned import Tuned

COLUMNS = ("variant", "trial", "seed", "status", "epochs", "val/acc", "val/loss")


@dataclass(frozen=True)
class Tuning:
    """A tuning: its plan, the metric that decided, and the variants of the study that were tuned.

    `trials`: a row for each trial: `COLUMNS`, then the settings of the space; metrics of trials without a value are
    NaN. `at_edge`: setting -> variants whose choice lies at or near an end of the range that was tried. `other_base`:
    setting -> (in the tuning, in the study), for settings of the base that differ. `leads`: variant -> how far its
    choice is ahead of the best finished trial with other settings, NaN without one. `seed_sd`: the standard deviation
    between the seeds of a finished trial, pooled over trials; NaN where no trial has two seeds.
    """

    plan: Tuned
    metric: Metric
    variants: list[str]
    trials: pd.DataFrame
    at_edge: dict[str, list[str]]
    other_base: dict[str, tuple[Any, Any]]
    leads: dict[str, float]
    seed_sd: float

    @property
    def choices(self) -> int:
        """How many different settings were chosen."""
        return len({str(self.plan.variants[variant].settings) for variant in self.variants})

    @property
    def seeds(self) -> list[int]:
        """The seeds of all trials, sorted."""
        return sorted({seed for trial in self.plan.trials for seed in trial.seeds})

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
        path: [variant for variant in variants if tried.edge(plan.variants[variant].settings[path])]
        for path, tried in plan.space.items()
    }
    at_edge = {path: named for path, named in edges.items() if named}
    base, leads = _other_base(plan, study), {variant: _lead(plan, variant) for variant in variants}
    return Tuning(plan, Metric(plan.objective), variants, trials, at_edge, base, leads, _seed_sd(plan))


def _lead(plan: Tuned, variant: str) -> float:
    chosen, trials = plan.variants[variant], [trial for trial in plan.trials if trial.variant == variant]
    others = [trial for trial in trials if trial.status == "finished" and trial.settings != chosen.settings]
    return chosen.val_acc - max((trial.val_acc for trial in others if trial.val_acc is not None), default=math.nan)


def _seed_sd(plan: Tuned) -> float:
    values = [list((trial.accuracies or {}).values()) for trial in plan.trials if trial.status == "finished"]
    groups = [np.array(x, float) for x in values if len(x) > 1]
    df = sum(len(group) - 1 for group in groups)
    return math.sqrt(sum(float(((x - x.mean()) ** 2).sum()) for x in groups) / df) if df else math.nan


def _other_base(plan: Tuned, study: RunsTable) -> dict[str, tuple[Any, Any]]:
    """Those of `eval` are left out: they change no training, and a tuning needs no few-shot evaluation."""
    ignored = {*plan.space, *study.varied, *LOCATIONS, "seed"}
    pairs = {path: (plan.base.get(path, default), study.base.get(path, default)) for path, default in DEFAULTS.items()}
    return {
        path: pair
        for path, pair in pairs.items()
        if pair[0] != pair[1] and path not in ignored and not path.startswith("eval.")
    }
