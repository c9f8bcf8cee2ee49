"""Read runs from an Optuna study: a trial is a run, its parameters are settings, its value is a metric. Read only.

What the values are is known from the metric names of the study, which `vit-sweep` sets. Otherwise the user says it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from analysis.sources.settings import nested
from analysis.sources.source_run import ENDED, SourceRun, one_study
from experiments.errors import UserError
from experiments.metric import METRICS, Metric, is_metric


def find_runs(address: str, metric: str | None = None) -> list[SourceRun]:
    """The trials of a study. `address`: a SQLite file or a storage URL, "#STUDY" where it holds several.

    `metric`: what the user says that the values are. Raises `UserError` where this is wrong, or there is no such study.
    """
    import optuna
    from sqlalchemy.exc import SQLAlchemyError

    where, _, wanted = address.partition("#")
    url = where if "://" in where else f"sqlite:///{where}"
    if url != where and not Path(where).is_file():
        raise UserError(f"optuna:{where}: no such file")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        storage = optuna.storages.RDBStorage(url, skip_table_creation=True)
        name = one_study(f"optuna:{where}", "#", wanted, optuna.get_all_study_names(storage))
        study = optuna.load_study(study_name=name, storage=storage)
        trials = study.get_trials(deepcopy=False)
        directions = [direction.name for direction in study.directions]
        index, metric = _choose(f"optuna:{address}", study.metric_names or [], directions, metric)
    except (SQLAlchemyError, optuna.exceptions.OptunaError, RuntimeError, ImportError) as error:
        raise UserError(f"optuna:{where}: is not an Optuna storage that can be read") from error
    return [replace(source_run(trial, metric, index), study=name) for trial in trials]


def _choose(source: str, held: list[str], directions: list[str], metric: str | None) -> tuple[int, str]:
    """The index of the value to read, and its metric. `held`: the names of the values. Raises `UserError`."""
    known = [name for name in held if is_metric(name)]
    allowed = known or (METRICS if len(directions) == 1 else ())
    chosen = known[0] if metric is None and len(known) == 1 else metric
    if chosen not in allowed or chosen is None:
        asked = "give --metric" if metric is None else f"--metric: {metric!r} is not allowed"
        expected = ", ".join(allowed) or "a study whose values are named like metrics"
        raise UserError(f"{source}: its values are {', '.join(held) or 'not named'}; {asked}: expected {expected}")
    index = held.index(chosen) if known else 0
    if directions[index] != ("MINIMIZE" if Metric(chosen).lower_is_better else "MAXIMIZE"):
        direction = directions[index].lower()
        raise UserError(f"{source}: --metric: {chosen!r} is not allowed: the study has the direction {direction}")
    return index, chosen


def source_run(trial: Any, metric: str, index: int = 0) -> SourceRun:
    """A run from a trial. `index`: that of the value which is the metric."""
    attrs = trial.user_attrs
    ended = {"COMPLETE": "finished", "PRUNED": "pruned"}.get(trial.state.name, "incomplete")
    status = attrs["status"] if attrs.get("status") in ENDED else ended  # another program's status may be any text
    times = {"started": trial.datetime_start, "finished": trial.datetime_complete}
    summary = {
        "run_id": attrs.get("run_id"),
        metric: trial.values[index] if trial.values else None,
        "cost": {"wall_seconds": trial.duration.total_seconds() if trial.duration else None},
        "provenance": {key: time and time.isoformat(timespec="seconds") for key, time in times.items()},
    }
    name = f"{attrs['run']} (trial {trial.number})" if "run" in attrs else f"trial {trial.number}"
    rows = [{"epoch": float(step), metric: value} for step, value in sorted(trial.intermediate_values.items())]
    params = trial.params or trial.system_attrs.get("fixed_params", {})  # a waiting trial has the latter only
    seed = {"seed": attrs["seed"]} if "run" in attrs and "seed" in attrs else {}  # where `vit-sweep` stores it
    return SourceRun(name, status, nested({**seed, **params}), str(attrs.get("variant", "")), summary, rows)
