"""Read runs from an Optuna study: a trial is a run, its parameters are settings, its value is the metric. Read only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from analysis.sources.imported import ImportedRun
from analysis.sources.settings import nested
from analysis.sources.study import ENDED
from experiments.errors import UserError


def find_runs(place: str, metric: str) -> tuple[str, list[ImportedRun]]:
    """The study's name and its trials. `place`: a SQLite file or a storage URL, and "#STUDY" where it holds several.

    Raises `UserError` where there is no such storage or study.
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
    except (SQLAlchemyError, optuna.exceptions.OptunaError, RuntimeError, ImportError) as error:
        raise UserError(f"optuna:{where}: is not an Optuna storage that can be read") from error
    return study.study_name, [_imported(trial, metric) for trial in trials]


def _imported(trial: Any, metric: str) -> ImportedRun:
    attrs = trial.user_attrs
    ended = {"COMPLETE": "finished", "PRUNED": "pruned"}.get(trial.state.name, "incomplete")
    status = attrs["status"] if attrs.get("status") in ENDED else ended  # another program's status may be any text
    seconds = trial.duration.total_seconds() if trial.duration else None
    summary = {
        "run_id": attrs.get("run_id"),
        metric: trial.values[0] if trial.values else None,
        "cost": {"wall_seconds": seconds},
        "provenance": {"started": _time(trial.datetime_start), "finished": _time(trial.datetime_complete)},
    }
    name = f"{attrs['run']} (trial {trial.number})" if "run" in attrs else f"trial {trial.number}"
    rows = [{"epoch": float(step), metric: value} for step, value in sorted(trial.intermediate_values.items())]
    params = trial.params or trial.system_attrs.get("fixed_params", {})  # a waiting trial has the latter only
    return ImportedRun(name, status, nested(params), str(attrs.get("variant", "")), summary, rows)


def _time(moment: Any) -> str | None:
    return moment.isoformat(timespec="seconds") if moment else None
