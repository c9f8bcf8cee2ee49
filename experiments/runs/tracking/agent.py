"""The W&B run that an agent of a sweep asks for. A run that an agent has started goes to this W&B run from then on."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from experiments.runs import record

RUN_ID, SWEEP_ID = "WANDB_RUN_ID", "WANDB_SWEEP_ID"
VARIABLES = (RUN_ID, SWEEP_ID, "WANDB_SWEEP_PARAM_PATH")  # that an agent sets for the command that it starts


@dataclass(frozen=True)
class AgentRun:
    """A W&B run of a sweep. `sweep`: the id of the sweep."""

    id: str
    sweep: str


def asked_for() -> AgentRun | None:
    """The W&B run for which an agent has started this command; None without an agent."""
    run, sweep = os.environ.get(RUN_ID), os.environ.get(SWEEP_ID)
    return AgentRun(run, sweep) if run and sweep else None


def take() -> AgentRun | None:
    """As `asked_for`, and hide it from the processes that this command starts: they may train several runs."""
    found = asked_for()
    for name in VARIABLES:
        os.environ.pop(name, None)
    return found


def note(folder: Path, run: str, agent: AgentRun, project: str) -> None:
    """Note that a run of this folder goes to the agent's W&B run. `project`: the URL of the server and the project."""
    path = _path(folder, run)
    path.parent.mkdir(parents=True, exist_ok=True)
    record.write_json(path, {**asdict(agent), "project": project})


def noted(folder: Path, run: str, project: str) -> AgentRun | None:
    """The W&B run in this project that `note` was last called with; None where there is none."""
    try:
        found = json.loads(_path(folder, run).read_text())
        return AgentRun(found["id"], found["sweep"]) if found["project"] == project else None
    except (OSError, ValueError, KeyError):
        return None


def _path(folder: Path, run: str) -> Path:
    return folder / "wandb" / "agents" / f"{run}.json"
