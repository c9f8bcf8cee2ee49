"""Read a study from its folder of runs: one row a run, one row a run and epoch.

A record that cannot be trusted stops the reading or, on request, is listed as unreadable. A planned run that has not
ended is listed as incomplete. Nothing is left out silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from analysis.sources.study import Study, assemble, flatten, level_text, run_row
from experiments.config import completed
from experiments.errors import UserError
from experiments.runs import record


def read_folder(study_dir: Path, skip_unreadable: bool = False) -> Study:
    """Read a study's folder.

    Raises `RecordError` naming the first record that is missing, altered or at odds with the plan, unless
    `skip_unreadable`; then those are in `troubles`, with the status "unreadable". A plan that cannot be read is always
    an error.
    """
    study_dir = Path(study_dir)
    if not study_dir.is_dir():
        raise UserError(f"{study_dir}: no such folder; give the folder of a study, OUT/STUDY, as vit-sweep writes it")
    plan = _plan(study_dir)
    read = _Reader(skip_unreadable)
    for entry in plan["runs"]:
        read.planned(study_dir, entry)
    planned = {entry["run"] for entry in plan["runs"]}
    for folder in sorted(study_dir.iterdir()):
        if folder.name not in planned and (folder / record.CONFIG).is_file():
            read.unplanned(folder)
    return assemble(plan, read.rows, read.curves, read.troubles, study_dir)


class _Reader:
    """Collects rows, epochs and troubles, run by run."""

    def __init__(self, skip: bool) -> None:
        self.skip = skip
        self.rows: list[dict[str, Any]] = []
        self.curves: list[dict[str, Any]] = []
        self.troubles: dict[str, str] = {}

    def planned(self, study_dir: Path, entry: Mapping[str, Any]) -> None:
        folder = study_dir / entry["run"]
        if not record.is_finished(folder):
            self.rows.append(run_row(entry, "incomplete", {}, {}))
            return
        try:
            run = record.read_run(folder)
            _check_plan(run, entry)
        except record.RecordError as error:
            self._trouble(entry, error)
            return
        self.rows.append(run_row(entry, run.summary["status"], completed(run.config), run.summary))
        self.curves.extend(
            {"run": run.name, "variant": str(entry["variant"]), "seed": entry["seed"], **row} for row in run.rows
        )

    def unplanned(self, folder: Path) -> None:
        """A run in the folder that the plan does not know: shown, and kept out of the numbers."""
        self.troubles[folder.name] = f"is not in {record.STUDY}, so it is in no number"
        self.rows.append(run_row({"run": folder.name, "variant": "", "seed": None}, "unplanned", {}, {}))

    def _trouble(self, entry: Mapping[str, Any], error: record.RecordError) -> None:
        if not self.skip:
            raise record.RecordError(
                f"{error}; delete the folder and run the sweep again, or report without it by --skip-unreadable"
            ) from error
        self.troubles[entry["run"]] = str(error)
        self.rows.append(run_row(entry, "unreadable", {}, {}))


def _plan(study_dir: Path) -> dict[str, Any]:
    """study.json, its list of runs checked. Raises `RecordError`."""
    path = study_dir / record.STUDY
    if not path.is_file():
        raise record.RecordError(f"{path}: is not there; give the folder of a study, OUT/STUDY, as vit-sweep writes it")
    plan = record.read_study(study_dir)
    _expect(path, "factors", plan["factors"], dict)
    _expect(path, "base", plan["base"], dict)
    _expect(path, "runs", plan["runs"], list)
    if isinstance(plan["margin"], bool) or not isinstance(plan["margin"], int | float) or not plan["margin"] > 0:
        raise record.RecordError(f"{path}: margin: {plan['margin']!r} is not a positive number")
    for entry in plan["runs"]:
        if not isinstance(entry, dict) or not {"run", "run_id", "variant", "seed"} <= entry.keys():
            raise record.RecordError(f"{path}: runs: {str(entry)[:80]!r} lacks run, run_id, variant or seed")
        if Path(str(entry["run"])).name != entry["run"]:
            raise record.RecordError(f"{path}: runs: {entry['run']!r} is not the name of a folder")
    plan["base"] = completed(plan["base"])
    if not plan["runs"]:
        raise record.RecordError(f"{path}: runs: the study is empty; there is nothing to report")
    if plan["baseline"] not in [str(entry["variant"]) for entry in plan["runs"]]:
        raise record.RecordError(f"{path}: baseline: {plan['baseline']!r} is the variant of no run")
    return plan


def _expect(path: Path, key: str, value: Any, kind: type) -> None:
    if not isinstance(value, kind):
        raise record.RecordError(f"{path}: {key}: is a {type(value).__name__}, not a {kind.__name__}")


def _check_plan(run: record.Run, entry: Mapping[str, Any]) -> None:
    """Raise `RecordError` where a record is not of the run that the plan names."""
    if run.summary.get("run_id") != entry["run_id"]:
        raise record.RecordError(
            f"{run.dir / record.SUMMARY}: run_id is {run.summary.get('run_id')!r}, planned is {entry['run_id']!r}"
        )
    settings = dict(flatten(run.config))
    for path, planned in {**(entry.get("levels") or {}), "seed": entry["seed"]}.items():
        planned = level_text(planned) if isinstance(planned, list) else planned
        if path not in settings or settings[path] != planned:
            raise record.RecordError(
                f"{run.dir / record.CONFIG}: {path} is {settings.get(path)!r}, planned is {planned!r}"
            )
