"""Read run folders without a study.json, as vit-train leaves them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from analysis.sources.hits import RunHits, read_hits
from analysis.sources.imported import ImportedRun, infer
from analysis.sources.plugin_source import Sources, read_sources
from analysis.sources.runs_table import RunsTable
from analysis.sources.summary import read_checked
from experiments.config import completed
from experiments.runs import record


def has_runs(folder: Path) -> bool:
    """Whether the folder holds run folders. Trials of a tuning are none."""
    return not (folder / record.TRIALS).is_file() and next(folder.glob(f"*/{record.CONFIG}"), None) is not None


def read_runs(folder: Path, skip_unreadable: bool, metric: str | None, baseline: str | None) -> RunsTable:
    """Infer a study from the run folders in a folder. Raises `RecordError` for a record that is damaged or altered."""
    runs: list[ImportedRun] = []
    troubles: dict[str, str] = {}
    hits: dict[str, RunHits] = {}
    labels: dict[str, np.ndarray] = {}
    sources: Sources = {}
    for path in sorted(folder.glob(f"*/{record.CONFIG}")):
        try:
            run, own_hits = _read_run(path.parent, labels, sources)
        except record.RecordError as error:
            if not skip_unreadable:
                raise record.RecordError(
                    f"{error}; delete the folder, or report without it by --skip-unreadable"
                ) from error
            troubles[path.parent.name] = str(error)
            continue
        runs.append(run)
        if own_hits is not None:
            hits[run.run] = own_hits
    study = infer(folder.resolve().name, str(folder), runs, metric, baseline, folder)
    study.troubles.update(troubles)
    study.hits.update(hits)
    study.sources.update(sources)
    return study


def _read_run(folder: Path, labels: dict[str, np.ndarray], sources: Sources) -> tuple[ImportedRun, RunHits | None]:
    if record.is_finished(folder):
        run = read_checked(folder)
        read_sources(run, sources)
        config = completed(run.config)
        found = ImportedRun(run.name, run.summary["status"], config, "", run.summary, run.rows)
        return found, read_hits(run, config, labels)
    try:
        config = json.loads((folder / record.CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise record.RecordError(f"{folder / record.CONFIG}: cannot be read: {error}") from error
    if not isinstance(config, dict):
        raise record.RecordError(f"{folder / record.CONFIG}: holds a JSON {type(config).__name__}, not an object")
    return ImportedRun(folder.name, "incomplete", completed(config)), None
