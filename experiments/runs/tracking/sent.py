"""Which runs W&B has completely: STUDY/wandb/sent/RUN.json, written after the server has confirmed all of a run."""

from __future__ import annotations

import json
from pathlib import Path

from experiments.runs import record
from experiments.runs.tracking.settings import FOLDER


def address(base_url: str, entity: str | None, project: str) -> str:
    """Where runs were sent to."""
    return f"{base_url}/{entity}/{project}"


def mark(folder: Path, run: str, digest: str, where: str, wandb_id: str) -> None:
    """Note that the W&B run with this id has the record with this digest."""
    path = _path(folder, run)
    path.parent.mkdir(parents=True, exist_ok=True)
    record.write_json(path, {"digest": digest, "where": where, "id": wandb_id})


def is_marked(folder: Path, run: str, digest: str, where: str, wandb_id: str) -> bool:
    """Whether `mark` was called with these. Earlier versions wrote no id: a run had only one."""
    try:
        found = {"id": wandb_id, **json.loads(_path(folder, run).read_text())}
        return found == {"digest": digest, "where": where, "id": wandb_id}
    except (OSError, ValueError):
        return False


def _path(folder: Path, run: str) -> Path:
    return folder / FOLDER / "sent" / f"{run}.json"
