"""Read a study from wherever its runs are: a study's folder, W&B, or an Optuna storage."""

from __future__ import annotations

from pathlib import Path

from analysis.sources.folder import read_folder
from analysis.sources.imported import infer
from analysis.sources.study import METRICS, Study
from experiments.errors import UserError

WANDB, OPTUNA = "wandb:", "optuna:"
METRIC = "test/acc"


def is_mirror(source: str) -> bool:
    """Whether this names W&B or an Optuna study, and not a folder."""
    return source.startswith((WANDB, OPTUNA))


def read(source: str, skip_unreadable: bool = False, metric: str | None = None, baseline: str | None = None) -> Study:
    """Read a study from where `source` says: a folder, "wandb:ENTITY/PROJECT[/STUDY]", "wandb:FOLDER" or
    "optuna:FILE[#STUDY]".

    Raises `UserError` naming what is missing, or what does not suit the source.
    """
    if not is_mirror(source):
        for name, given in (("metric", metric), ("baseline", baseline)):
            if given is not None:
                raise UserError(f"--{name}: {given!r} cannot be chosen for a folder; its study.json says it")
        return read_folder(Path(source), skip_unreadable)
    if source.startswith(OPTUNA) and metric is None:
        raise UserError(f"{source}: say with --metric what its trials' values are: {', '.join(METRICS)}")
    if source.startswith(WANDB):
        from analysis.sources.wandb_project import find_runs
    else:
        from analysis.sources.optuna_storage import find_runs
    name, found = find_runs(source.partition(":")[2], metric or METRIC)
    return infer(name, source, found, metric or METRIC, baseline)
