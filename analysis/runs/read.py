"""Read a study from where its runs are: run folders, an exported study, W&B or a table."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from analysis.options import FLAGS, ReportOptions
from analysis.runs import wandb_project
from analysis.runs.runs import Runs
from analysis.runs.table import FORMATS, TABLE, file_of, read_file, read_table
from experiments.errors import UserError
from experiments.files import reading
from experiments.metric import EXPECTED, METRICS, Metric, is_metric
from experiments.study import STUDY
from vit.registry import did_you_mean, nearest

CHOSEN = "A choice made after the results are known makes false differences more frequent."


def is_imported(source: str) -> bool:
    """Whether the source is W&B or a table of runs, not a folder."""
    return source.startswith((wandb_project.WANDB, TABLE))


def has_plan(source: str) -> bool:
    """Whether the source holds a plan, which states the metric and the baseline."""
    return not is_imported(source) and (Path(source) / STUDY).exists()


def read(source: str, **options: Any) -> Runs:
    """Read a source that holds one study, see `read_each`. `asked`: fields of `ReportOptions`."""
    (study,) = read_each(source, ReportOptions.of(**options))
    return study


def read_each(source: str, options: ReportOptions) -> list[Runs]:
    """Read a study from a folder, a table (see `locate`) or "wandb:ENTITY/PROJECT".

    A table with a column for the dataset has a study for each. A metric and a baseline that differ from the plan's make
    an exploratory report, which says so. Raises `UserError` naming what is missing or not possible, and where runs of a
    variant are not of one model.
    """
    source = locate(source)
    if (file := file_of(source)) is not None:
        return read_table(read_file(file), source, options)
    if source.startswith(wandb_project.WANDB):
        return _read_wandb(source, options)
    if others := [name for name in options.given if FLAGS[name][1].of_tables]:
        raise UserError(f"{others[0]}: is for a table of runs, such as runs.csv, and {source} is none")
    from analysis.runs.exported import is_export, read_export  # a table needs none
    from analysis.runs.folder import read_folder
    from analysis.runs.held_fixed import check_one_model

    folder, metric = Path(source), options.metric
    if metric is not None and not is_metric(metric) and not is_export(folder):
        raise UserError(f"--metric: {metric!r} is not allowed: {EXPECTED}")
    study = read_export(folder) if is_export(folder) else read_folder(folder, options.skip_unreadable)
    return [check_one_model(explore(study, metric, options.baseline), options.skip_unreadable)]


def _read_wandb(source: str, options: ReportOptions) -> list[Runs]:
    """Runs of W&B as a table. Unless the user says which ended, finished ones did, and running ones are left out."""
    frame, notes = wandb_project.read_project(source), list[str]()
    state = wandb_project.STATE
    if not any(condition.startswith((f"{state}=", f"{state}!=")) for condition in (*options.failed, *options.where)):
        frame, notes = wandb_project.without_unended(frame) if len(frame) else (frame, notes)
        if len(frame) and (frame[state] != "finished").any():
            options = options.model_copy(update={"failed": (*options.failed, f"{state}!=finished")})
    return read_table(frame, source, options, notes)


def locate(source: str) -> str:
    """The study that a source means: itself, a table of runs as "csv:FILE", or the only study in its folder.

    Raises `UserError` if there is none.
    """
    path = Path(source)
    with reading(path):
        if is_imported(source) or has_plan(source):
            return source
        if not path.exists():
            beside = sorted(item.name for item in path.parent.iterdir()) if path.parent.is_dir() else []
            near = did_you_mean(path.name, beside) or "give the folder of a study, OUT/STUDY, or a table"
            raise UserError(f"{source}: does not exist; {near}")
        if path.is_file():
            if source.lower().endswith(FORMATS):
                return f"{TABLE}{source}"
            raise UserError(f"{source}: is a file; save a table as {', '.join(FORMATS)}")
        if len(studies := studies_in(source)) != 1:
            content = f"{len(studies)} studies" if studies else f"no {STUDY}"
            advice = f"one of them: {', '.join(map(str, studies))}" if studies else "the folder of a study, OUT/STUDY"
            raise UserError(f"{source}: holds {content}; give {advice}")
        return str(studies[0])


def studies_in(source: str) -> list[Path]:
    """The studies in a folder, sorted; none where it is a study itself, or no folder."""
    folder = Path(source)
    with reading(folder):
        if is_imported(source) or not folder.is_dir() or has_plan(source):
            return []
        studies = [path.parent for depth in ("*", "*/*") for path in folder.glob(f"{depth}/{STUDY}")]
        real = {path: path.resolve() for path in studies}
        best_last = sorted(studies, key=lambda path: (real[path].name == path.name, -len(path.parts), path))
        return sorted({real[path]: path for path in best_last}.values())  # a link shows no study twice


def explore(study: Runs, metric: str | None, baseline: str | None) -> Runs:
    """The study with this metric and baseline, and a note for each that the plan does not state; None: the plan's.

    Raises `UserError` for a baseline that is not a variant, and for a metric that no run has measured.
    """
    if baseline is not None and baseline not in study.variants:
        raise UserError(f"--baseline: {baseline!r} is not a variant; {nearest(baseline, study.variants)}")
    if metric is not None and metric not in (*METRICS, study.metric, *study.measured):
        raise UserError(f"--metric: {metric!r} is not measured by any run; {nearest(metric, study.measured)}")
    plan, changes, notes = study.plan, dict[str, str | None](), list[str]()
    for field, value in (("metric", metric), ("baseline", baseline)):
        if value not in (None, stated := getattr(plan, field)):
            changes[field] = value
            notes.append(f"This report is exploratory: its {field} is {value}, and the plan states {stated}. {CHOSEN}")
    if study.margin and metric is not None and (wanted := Metric(metric)).is_share != study.metric.is_share:
        stated = f"The margin {study.margin:g} is stated for {study.metric.label}"
        notes.append(f"{stated}, and {wanted.label} has another unit, so no equivalence is tested.")
    if "baseline" in changes:
        changes["family"] = "all"  # `family: baseline` is stated for another one
    if "metric" in changes and not study.recorded:
        changes["lower_is_better"] = None  # it is of another column
    if not changes:
        return study
    return replace(study, plan=plan.changed(**changes), stated=study.stated_plan, noted=tuple(notes))
