"""Read the runs of a Weights & Biases project through its API. Read only.

It is for runs whose local records are not at hand: a record has digests and provenance that W&B does not keep.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from analysis.runs.source_run import ENDED, SourceRun
from experiments.config import RunConfig
from experiments.errors import UserError
from experiments.metric import METRICS
from experiments.runs.tracking.settings import STUDY_KEY, TRIAL, check_settings

WANDB = "wandb:"  # before a project, as a source
TIMEOUT = 20  # seconds to wait for the server
WITHOUT_TYPE = "-"  # stands for the study of runs without a job type
OURS = {"run", "variant", "data", "model", "optim", "train", "seed"}  # in the configuration of a run of ours
FAILED = ("crashed", "failed", "killed")  # the states of runs that another program never goes on with
MAX_ROWS = 100_000  # of a run's history; by default W&B samples 500


def find_runs(source: str) -> list[SourceRun]:
    """The runs of wandb:ENTITY/PROJECT[/STUDY] but trials of a tuning. Raises `UserError` without an answer.

    A W&B run of ours has the key of its study in its configuration; for any other, the job type is its study. The group
    is its variant.
    """
    check_settings()
    import wandb

    parts = source.removeprefix(WANDB).split("/")
    if len(parts) not in (2, 3) or not all(parts):
        raise UserError(f"{source}: is not ENTITY/PROJECT[/STUDY]")
    entity, project, wanted = [*parts, ""][:3]
    where, runs = f"{WANDB}{entity}/{project}", dict[str, list[Any]]()
    try:
        for run in wandb.Api(timeout=TIMEOUT).runs(f"{entity}/{project}", order="+created_at"):
            if run.job_type != TRIAL:
                key = run.config.get(STUDY_KEY) if is_ours(run.config) else None
                runs.setdefault(str(key or run.job_type or WITHOUT_TYPE), []).append(run)
        if not runs and not wanted:
            return []
        study = wanted or (min(runs) if len(runs) == 1 else "")
        if study not in runs:
            reason = f"no study {wanted!r}" if wanted or not runs else "holds several studies"
            raise UserError(f"{where}: {reason}; add /STUDY, one of: {', '.join(sorted(runs)) or 'none'}")
        has_key = study == runs[study][0].config.get(STUDY_KEY)
        name = project if study == WITHOUT_TYPE else study.rpartition("-")[0] if has_key else study
        return [replace(source_run(run), study=name) for run in runs[study]]
    except UserError:
        raise
    except (wandb.errors.Error, ValueError, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"{where}: the runs could not be read from W&B: {reason}") from error


def is_ours(config: Mapping[str, Any]) -> bool:
    """Whether it is the configuration of a run that `vit-sweep` or `vit-train` has sent."""
    return config.keys() >= OURS


def source_run(run: Any) -> SourceRun:
    """A run of the API. The status of a run of ours is that of the record where the summary has it, else W&B's.

    A run of ours that is interrupted is incomplete, since it resumes; one of another program is a failed run.
    """
    values = {key: _value(value) for key, value in run.summary.items() if not key.startswith("_")}
    epochs: dict[float, dict[str, Any]] = {}
    for row in run.history(samples=MAX_ROWS, keys=None, pandas=False):
        if isinstance(row.get("epoch"), int | float):  # a resumed run logs an epoch twice: the last row counts
            logged = {key: _value(row[key]) for key in ("lr", *METRICS) if key in row}
            epochs.setdefault(float(row["epoch"]), {}).update(logged)
    settings = {key: value for key, value in run.config.items() if not key.startswith("_")}
    ours = is_ours(settings)
    lost = "diverged" if run.state in FAILED and not ours else "incomplete"
    status = "finished" if run.state == "finished" else lost
    if ours:  # another program's status may be any text, and its epochs those that were planned
        status = values["status"] if values.get("status") in ENDED else status
        if isinstance(values.get("epochs"), int) and 0 < len(epochs) < values["epochs"]:
            status = "incomplete"  # W&B lost epochs: the curve would end too early
        settings = {key: settings[key] for key in RunConfig.model_fields if key in settings}  # not the mirror's names
    summary = {"epochs": len(epochs), **values, "provenance": {"commit": getattr(run, "commit", None)}}
    rows = [{"epoch": epoch, **row} for epoch, row in sorted(epochs.items())]
    return SourceRun(f"{run.name} ({run.id})", status, settings, run.group or "", summary, rows)


def _value(value: Any) -> Any:
    """A logged value as plain data: {"last": v, "max": w} becomes v; what is not finite, also as text, None."""
    if hasattr(value, "items"):  # a dict, or the API's SummarySubDict, which is no Mapping and cannot be iterated over
        parts = dict(value.items())
        is_metric = "last" in parts and parts.keys() <= {"last", "max", "min", "mean", "best"}
        return _value(parts["last"]) if is_metric else {key: _value(part) for key, part in parts.items()}
    infinite = value in ("NaN", "Infinity", "-Infinity") or (isinstance(value, float) and not math.isfinite(value))
    return None if infinite else value
