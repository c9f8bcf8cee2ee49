"""Read runs from an Optuna study: a trial is a run, its parameters are settings, its value is a metric. Read only.

Optuna stores values without a unit. What they are is known from the metric names of the study, or because `vit-sweep` wrote
it: its trials hold validation metrics, also where the study's own metric is of the test set. Otherwise the user says it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis.sources.imported import ImportedRun
from analysis.sources.runs_table import ENDED
from analysis.sources.settings import nested
from experiments.errors import UserError
from experiments.metric import METRICS, Metric, is_metric


def find_runs(place: str, metric: str | None) -> tuple[str, str, list[ImportedRun]]:
    """The study's name, the metric and the trials. `place`: a SQLite file or a storage URL, "#STUDY" where it holds several.

    `metric`: what the user says that the values are. Raises `UserError` where there is no such storage or study, or where
    its values are another metric.
    """
    import optuna
    from sqlalchemy.exc import SQLAlchemyError

    where, _, wanted = place.partition("#")
    if "://" not in where and not Path(where).is_file():
        raise UserError(f"optuna:{where}: no such file")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        storage = optuna.storages.RDBStorage(
            where if "://" in where else f"sqlite:///{where}", skip_table_creation=True
        )
        names = optuna.get_all_study_names(storage)
        if wanted not in names and (wanted or len(names) != 1):
            raise UserError(
                f"optuna:{where}: {f'no study {wanted!r}' if wanted else 'holds several studies'}; add #STUDY, one of: "
                f"{', '.join(names) or 'none'}"
            )
        study = optuna.load_study(study_name=wanted or names[0], storage=storage)
        trials = study.get_trials(deepcopy=False)
        held = study.metric_names or _own_metric(study, trials)
    except (SQLAlchemyError, optuna.exceptions.OptunaError, RuntimeError, ImportError) as error:
        raise UserError(f"optuna:{where}: is not an Optuna storage that can be read") from error
    index, metric = _choose(f"optuna:{place}", held, study.directions, metric)
    return study.study_name, metric, [_imported(trial, metric, index) for trial in trials]


def _own_metric(study: Any, trials: list[Any]) -> list[str] | None:
    """The metric of a storage that an older `vit-sweep` wrote, without metric names; None for another program's."""
    own = trials and all({"run", "run_id", "variant"} <= trial.user_attrs.keys() for trial in trials)
    if not own:
        return None
    return ["val/loss" if study.direction.name == "MINIMIZE" else "val/acc"]


def _choose(source: str, held: list[str] | None, directions: Sequence[Any], metric: str | None) -> tuple[int, str]:
    """The index of the value to read, and its metric. Raises `UserError` where the two do not agree."""
    held = held or []
    known = [name for name in held if is_metric(name)]
    if metric in held:
        index = held.index(metric)
    elif len(known) == 1 and metric is None:
        metric, index = known[0], held.index(known[0])
    elif known:
        asked = "give one with --metric" if metric is None else f"--metric {metric} is not allowed"
        raise UserError(f"{source}: the values of its trials are {', '.join(held)}; {asked}")
    elif len(directions) > 1:
        named = f", {', '.join(held)}," if held else ""
        raise UserError(
            f"{source}: its trials have {len(directions)} values{named} and none is one of: {', '.join(METRICS)}"
        )
    elif metric is None:
        named = f", which the storage calls {held[0]!r}, are" if held else " are"
        raise UserError(f"{source}: give with --metric what the values of its trials{named}: {', '.join(METRICS)}")
    else:
        index = 0
    direction = directions[index].name
    fitting = "MINIMIZE" if Metric(metric).lower_is_better else "MAXIMIZE"
    if is_metric(metric) and direction != fitting:
        raise UserError(
            f"{source}: --metric {metric} is not allowed: the study {direction.lower()}s its values, which does not fit it"
        )
    return index, metric


def _imported(trial: Any, metric: str, index: int = 0) -> ImportedRun:
    attrs = trial.user_attrs
    ended = {"COMPLETE": "finished", "PRUNED": "pruned"}.get(trial.state.name, "incomplete")
    status = attrs["status"] if attrs.get("status") in ENDED else ended  # another program's status may be any text
    seconds = trial.duration.total_seconds() if trial.duration else None
    summary = {
        "run_id": attrs.get("run_id"),
        metric: trial.values[index] if trial.values else None,
        "cost": {"wall_seconds": seconds},
        "provenance": {"started": _time(trial.datetime_start), "finished": _time(trial.datetime_complete)},
    }
    name = f"{attrs['run']} (trial {trial.number})" if "run" in attrs else f"trial {trial.number}"
    rows = [{"epoch": float(step), metric: value} for step, value in sorted(trial.intermediate_values.items())]
    params = trial.params or trial.system_attrs.get("fixed_params", {})  # a waiting trial has the latter only
    own = {"seed": attrs["seed"]} if "run" in attrs and "seed" in attrs else {}  # `vit-sweep` stores it as an attribute
    return ImportedRun(name, status, nested({**own, **params}), str(attrs.get("variant", "")), summary, rows)


def _time(moment: Any) -> str | None:
    return moment.isoformat(timespec="seconds") if moment else None
