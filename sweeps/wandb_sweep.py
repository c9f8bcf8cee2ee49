"""Sweeps of W&B that train a study: what W&B is told of them, and the note of those that are registered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from experiments.errors import UserError, first_line
from experiments.runs import record
from experiments.runs.tracking.register import Registered
from experiments.study import StudyPlan

SPEC, NOTE = "wandb-sweep.yaml", "wandb-sweep.json"  # in the study's folder
PROGRAM = "vit-sweep"


@dataclass(frozen=True)
class Noted:
    """A registered sweep as the study's folder notes it. `server`: its address."""

    server: str
    url: str
    sweep: Registered


_NOTE = TypeAdapter(dict[str, Noted])


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


def known_sweep(study_dir: Path, name: str, server: str) -> Registered | None:
    """The sweep of this name that was registered with this server; None where there is none."""
    found = read_note(study_dir).get(name)
    return found.sweep if found and found.server == server else None


def keep_sweep(study_dir: Path, name: str, server: str, sweep: Registered) -> None:
    """Note a registered sweep in the study's folder."""
    note = {**read_note(study_dir), name: Noted(server=server, url=sweep.url, sweep=sweep)}
    record.write_json(study_dir / NOTE, _NOTE.dump_python(note, mode="json"))


def read_note(study_dir: Path) -> dict[str, Noted]:
    """The registered sweeps that the study's folder notes, by name. Raises `UserError` where the note is damaged."""
    path = study_dir / NOTE
    try:
        return _NOTE.validate_json(path.read_bytes()) if path.exists() else {}
    except ValidationError as error:
        reason = first_line(error)
    except OSError as error:
        reason = str(error.strerror)
    raise UserError(f"{path}: cannot be read ({reason}); move it away to register new sweeps")
