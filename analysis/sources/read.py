"""Read a study from where its runs are: run folders, an exported study, W&B or an Optuna storage."""

from __future__ import annotations

from pathlib import Path

from analysis.sources.explore import explore
from analysis.sources.exported import is_export, read_export
from analysis.sources.folder import read_folder
from analysis.sources.imported import infer
from analysis.sources.pooling import check_pooling
from analysis.sources.run_folders import has_runs, read_runs
from analysis.sources.runs_table import RunsTable
from experiments.errors import UserError
from experiments.metric import EXPECTED, is_metric
from experiments.runs import record

WANDB, OPTUNA = "wandb:", "optuna:"


def is_imported(source: str) -> bool:
    """Whether the source is W&B or an Optuna storage, not a folder."""
    return source.startswith((WANDB, OPTUNA))


def has_plan(source: str) -> bool:
    """Whether the source holds a plan, which states the metric and the baseline."""
    return not is_imported(source) and (Path(source) / record.STUDY).is_file()


def locate(source: str) -> str:
    """The study that a source means: itself, or the only study in a folder of studies.

    Raises `UserError` where the folder holds no study or several, or cannot be read.
    """
    try:
        return _locate(source)
    except OSError as error:
        raise UserError(f"{source}: cannot be read: {error.strerror}") from error


def _locate(source: str) -> str:
    folder = Path(source)
    if is_imported(source) or (folder / record.STUDY).is_file():
        return source
    if not folder.is_dir():
        raise UserError(f"{source}: no such folder; give the folder of a study, OUT/STUDY")
    if (folder / record.CONFIG).is_file():
        raise UserError(f"{source}: is the folder of one run; give the folder that holds the runs, {folder.parent}")
    if (folder / record.TRIALS).is_file():
        raise UserError(f"{source}: holds the trials of a tuning, which are in no report; give the folder of a study")
    if has_runs(folder):
        return source
    patterns = (f"*/{record.STUDY}", f"*/*/{record.STUDY}")
    studies = sorted({path.parent for pattern in patterns for path in folder.glob(pattern)})
    studies = studies or sorted(path for path in folder.iterdir() if path.is_dir() and has_runs(path))
    if len(studies) > 1:
        raise UserError(f"{source}: holds {len(studies)} studies; give one of them: {', '.join(map(str, studies))}")
    if not studies:
        raise UserError(f"{source}: holds no {record.STUDY} and no runs; give the folder of a study, OUT/STUDY")
    return str(studies[0])


def read(
    source: str, skip_unreadable: bool = False, metric: str | None = None, baseline: str | None = None
) -> RunsTable:
    """Read a study.

    `source`: a folder (see `locate`), "wandb:ENTITY/PROJECT[/STUDY]" or "optuna:FILE[#STUDY]".
    `metric` and `baseline` differ from the plan in an exploratory report, which says so. Raises `UserError` naming what
    is missing or not possible, and where runs of a variant are not of one model.
    """
    return check_pooling(_read(locate(source), skip_unreadable, metric, baseline), skip_unreadable)


def _read(source: str, skip_unreadable: bool, metric: str | None, baseline: str | None) -> RunsTable:
    if metric is not None and not is_metric(metric):
        raise UserError(f"--metric: {metric!r} is not allowed: {EXPECTED}")
    if has_plan(source):
        folder = Path(source)
        planned = read_export(folder) if is_export(folder) else read_folder(folder, skip_unreadable)
        return explore(planned, metric, baseline)
    if not is_imported(source):
        return read_runs(Path(source), skip_unreadable, metric, baseline)
    place = source.partition(":")[2]
    if source.startswith(WANDB):
        from analysis.sources import wandb_project

        name, runs = wandb_project.find_runs(place)
    else:
        from analysis.sources import optuna_storage

        name, metric, runs = optuna_storage.find_runs(place, metric)
    return infer(name, source, runs, metric, baseline)
