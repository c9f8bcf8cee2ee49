"""Read a study from its run folders.

A record that is damaged or altered is an error or, on request, a row with the status "unreadable". A planned run that
has not ended is a row with the status "incomplete". No planned run is left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from analysis.sources.hits import RunHits, read_hits
from analysis.sources.plugin_source import Sources, read_sources
from analysis.sources.runs_table import RunsTable, assemble, run_row
from analysis.sources.settings import flatten, level_text
from analysis.sources.summary import read_checked
from experiments.config import completed
from experiments.errors import UserError
from experiments.runs import record
from experiments.runs.looks import read_looks
from experiments.study import RunSpec, StudyPlan


def read_folder(study_dir: Path, skip_unreadable: bool = False) -> RunsTable:
    """Read the study in a folder of run folders, OUT/STUDY.

    Raises `RecordError` naming the first record that is missing, altered or different from the plan. With
    `skip_unreadable` such records are listed in `troubles` instead. A plan that cannot be read is always an error.
    """
    study_dir = Path(study_dir)
    if not study_dir.is_dir():
        raise UserError(f"{study_dir}: no such folder; give the folder of a study, OUT/STUDY")
    if not (study_dir / record.STUDY).is_file():
        raise record.RecordError(f"{study_dir / record.STUDY}: no such file; give the folder of a study, OUT/STUDY")
    plan = StudyPlan.read(study_dir)
    for run in plan.runs:
        if Path(run.name).name != run.name:
            raise record.RecordError(f"{study_dir / record.STUDY}: runs: {run.name!r} is not the name of a folder")
    reader = _Reader(skip_unreadable)
    for run in plan.runs:
        reader.add_planned(study_dir, run)
    planned = {run.name for run in plan.runs}
    for folder in sorted(study_dir.iterdir()):
        if folder.name not in planned and (folder / record.CONFIG).is_file():
            reader.add_unplanned(folder)
    looks = read_looks(study_dir)
    return assemble(plan, reader.rows, reader.curves, reader.troubles, study_dir, reader.hits, reader.sources, looks)


class _Reader:
    """Collects rows, epochs and troubles, run by run."""

    def __init__(self, skip: bool) -> None:
        self.skip = skip
        self.rows: list[dict[str, Any]] = []
        self.curves: list[dict[str, Any]] = []
        self.troubles: dict[str, str] = {}
        self.sources: Sources = {}  # of plug-ins
        self.hits: dict[str, RunHits] = {}
        self.labels: dict[str, np.ndarray] = {}  # of the test images; see read_hits

    def add_planned(self, study_dir: Path, planned: RunSpec) -> None:
        folder = study_dir / planned.name
        if not record.is_finished(folder):
            self.rows.append(run_row(planned, "incomplete", {}, {}))
            return
        try:
            run = read_checked(folder)
            _check_plan(run, planned)
            config = completed(run.config)
            hits = read_hits(run, config, self.labels)
            read_sources(run, self.sources)
        except record.RecordError as error:
            self._trouble(planned, error)
            return
        self.rows.append(run_row(planned, run.summary["status"], config, run.summary))
        if hits is not None:
            self.hits[run.name] = hits
        self.curves.extend(
            {"run": run.name, "variant": planned.variant, "seed": planned.seed, **row} for row in run.rows
        )

    def add_unplanned(self, folder: Path) -> None:
        """List a run that the plan lacks. It is excluded from every number."""
        self.troubles[folder.name] = f"is not in {record.STUDY}, so it is not used"
        run = RunSpec(name=folder.name, run_id="", variant="", seed=0)
        self.rows.append({**run_row(run, "unplanned", {}, {}), "seed": None})

    def _trouble(self, planned: RunSpec, error: record.RecordError) -> None:
        if not self.skip:
            raise record.RecordError(
                f"{error}; delete the folder and run the sweep again, or report without it by --skip-unreadable"
            ) from error
        self.troubles[planned.name] = str(error)
        self.rows.append(run_row(planned, "unreadable", {}, {}))


def _check_plan(run: record.RunRecord, planned: RunSpec) -> None:
    """Raise `RecordError` where a record belongs to another run than the plan says."""
    if run.summary.get("run_id") != planned.run_id:
        raise record.RecordError(
            f"{run.dir / record.SUMMARY}: run_id is {run.summary.get('run_id')!r}, planned is {planned.run_id!r}"
        )
    settings = dict(flatten(run.config))
    for path, level in {**planned.levels, "seed": planned.seed}.items():
        level = level_text(level) if isinstance(level, list) else level
        if path not in settings or settings[path] != level:
            raise record.RecordError(
                f"{run.dir / record.CONFIG}: {path} is {settings.get(path)!r}, planned is {level!r}"
            )
