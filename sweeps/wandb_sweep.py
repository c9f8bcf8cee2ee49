"""Sweeps of W&B that train a study: what W&B is told of them, and the note of those that are registered."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from experiments.errors import UserError
from experiments.runs import record
from experiments.runs.tracking.register import Registered
from sweeps.plan import Plan

SPEC, NOTE = "wandb-sweep.yaml", "wandb-sweep.json"  # in the study's folder
PROGRAM = "vit-sweep"


def runs_sweep(plan: Plan, study_dir: Path, options: Sequence[str], project: str, entity: str | None) -> dict[str, Any]:
    """The specification of a sweep that trains each run of a study once. `options`: of `vit-sweep cell`.

    Its one parameter is the name of the run, so every study can be a grid: with linked factors, extra variants, null levels.
    """
    return {
        "name": plan.study.name,
        **({"description": plan.study.description} if plan.study.description else {}),
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
    found = _note(study_dir).get(name, {})
    return Registered(**found["sweep"]) if found.get("server") == server else None


def keep_sweep(study_dir: Path, name: str, server: str, sweep: Registered) -> None:
    """Note a registered sweep in the study's folder."""
    record.write_json(
        study_dir / NOTE, {**_note(study_dir), name: {"server": server, "url": sweep.url, "sweep": asdict(sweep)}}
    )


def _note(study_dir: Path) -> dict[str, Any]:
    path = study_dir / NOTE
    try:
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read ({error}); move it away to register new sweeps") from error
