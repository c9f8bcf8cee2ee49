"""Sweeps of W&B that train a study: what W&B is told of them, and the note of those that are registered."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from experiments.errors import first_line
from experiments.runs import record
from experiments.runs.tracking.register import Registered
from experiments.study import StudyPlan

SPEC, NOTE = "wandb-sweep.yaml", "wandb-sweep.json"  # in the study's folder
PROGRAM = "vit-sweep"
_NOTE = TypeAdapter(dict[str, Registered])  # name of a sweep -> the sweep


def runs_sweep(
    plan: StudyPlan, study_dir: Path, options: Sequence[str], project: str, entity: str | None
) -> dict[str, Any]:
    """The specification of a sweep that trains each run of a study once. `options`: of `vit-sweep cell`.

    Its one parameter is the name of the run, so every study can be a grid: with linked factors, extra variants, null levels.
    """
    return {
        "name": plan.name,
        **({"description": plan.description} if plan.description else {}),
        **place(project, entity),
        "program": PROGRAM,
        "method": "grid",
        "parameters": {"run": {"values": [run.name for run in plan.runs]}},
        "command": [PROGRAM, "cell", str(study_dir.resolve()), "${args_no_hyphens}", *options],
    }


def place(project: str, entity: str | None) -> dict[str, str]:
    """Where a sweep is."""
    return {"project": project, **({"entity": entity} if entity else {})}


def read_note(study_dir: Path) -> dict[str, Registered]:
    """The registered sweeps that the study's folder notes, by name. Raises `RecordError` where the note is damaged."""
    path = study_dir / NOTE
    try:
        return _NOTE.validate_python(record.read_json(path)) if path.exists() else {}
    except ValidationError as error:
        raise record.RecordError(f"{path}: {first_line(error)}; move it away to register new sweeps") from error


def keep_sweep(study_dir: Path, name: str, sweep: Registered) -> None:
    """Note a registered sweep in the study's folder."""
    record.write_json(study_dir / NOTE, _NOTE.dump_python({**read_note(study_dir), name: sweep}, mode="json"))
