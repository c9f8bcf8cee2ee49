"""How the variants of a study were tuned, from its plan: the search, the settings chosen and every trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.sources.study import Study
from experiments.metric import METRICS, Metric
from experiments.runs.record import RecordError

COLUMNS = ("variant", "trial", "seed", "status", "epochs", "val/acc", "val/loss")
KINDS = {"sampler": str, "pruner": str, "budget": int, "space": dict, "base": dict, "variants": dict, "trials": list}


@dataclass(frozen=True)
class Choice:
    """The settings chosen for a variant, the trial they come from, its value, the epochs of all its trials, and Optuna's
    importances of the settings (empty where not known)."""

    settings: dict[str, Any]
    trial: int
    value: float
    epochs: int
    importances: dict[str, float]


@dataclass(frozen=True)
class Tuning:
    """`budget`: trials of each variant. `space`: setting -> low, high and log, or choices. `base`: settings of all trials
    that differ from the defaults. `trials`: one row for each, `COLUMNS` and then the settings in `space`; the metrics of
    trials that diverged or failed are NaN.
    """

    sampler: str
    pruner: str
    budget: int
    objective: Metric
    space: dict[str, dict[str, Any]]
    base: dict[str, Any]
    commit: str | None
    choices: dict[str, Choice]
    trials: pd.DataFrame

    def of(self, variant: str) -> pd.DataFrame:
        """The trials of a variant."""
        return self.trials[self.trials["variant"] == variant]


def read_tuning(study: Study) -> Tuning | None:
    """The tuning that the study's plan states; None for a study that was not tuned.

    Raises `RecordError` where a part of it is missing or wrong.
    """
    tree = study.plan.tuned
    if not tree:
        return None
    try:
        for key, kind in KINDS.items():
            if not isinstance(tree[key], kind):
                raise TypeError(f"{key} is a {type(tree[key]).__name__}, not {kind.__name__}")
        objective = Metric(tree["objective"])
        if objective not in METRICS:
            raise ValueError(f"objective is {objective!r}")
        return Tuning(
            sampler=tree["sampler"],
            pruner=tree["pruner"],
            budget=tree["budget"],
            objective=objective,
            space={path: dict(tried) for path, tried in tree["space"].items()},
            base=dict(tree["base"]),
            commit=tree.get("code", {}).get("commit"),
            choices={str(variant): _choice(own, objective) for variant, own in tree["variants"].items()},
            trials=_trials(tree["trials"], list(tree["space"])),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(
            f"{study.name}: study.json: tuned: cannot be read ({type(error).__name__}: {error})"
        ) from error


def _choice(own: Mapping[str, Any], objective: Metric) -> Choice:
    importances = {path: float(share) for path, share in own.get("importances", {}).items()}
    return Choice(dict(own["settings"]), int(own["trial"]), float(own[objective]), int(own["epochs"]), importances)


def _trials(rows: list[Mapping[str, Any]], space: list[str]) -> pd.DataFrame:
    """A row without a metric, of a trial that diverged or failed, has NaN."""
    flat = [{**{name: row.get(name) for name in COLUMNS}, **row["settings"]} for row in rows]
    table = pd.DataFrame(flat, columns=[*COLUMNS, *space])
    for name in ("val/acc", "val/loss"):
        table[name] = pd.to_numeric(table[name])
    return table.astype({"trial": int, "seed": int, "epochs": int})
