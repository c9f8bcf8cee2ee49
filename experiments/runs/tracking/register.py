"""Register sweeps with W&B, in a process of its own: a server that does not answer costs a minute."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from experiments.runs import record
from experiments.runs.tracking import child, server

HEAD = "# Written by `vit-sweep wandb`. `wandb sweep FILE` registers it; `vit-sweep wandb` does so and keeps its id.\n"
SECONDS = 60.0  # that the server has in all
OPEN = ("PENDING", "RUNNING", "PAUSED")  # states of a sweep that may start runs


@dataclass(frozen=True)
class Registered:
    """A sweep on a server. `path`: ENTITY/PROJECT/ID, by which W&B's commands name it. `url`: its page."""

    server: str
    path: str
    url: str


def write_spec(path: Path, spec: dict[str, Any]) -> None:
    """Write a specification as W&B reads it."""
    record.write_text(path, HEAD + yaml.safe_dump(spec, sort_keys=False, allow_unicode=True, width=1000))


def register(
    file: Path, spec: dict[str, Any], known: Registered | None, left: Sequence[str] | None
) -> tuple[Registered, bool]:
    """Register the sweep of a specification. Returns it, and whether it is new. Raises `Unreachable`.

    `known`, the sweep of an earlier call, is kept while it is open and has the same specification. `left`: the runs to train; a
    new sweep has those that `known` cannot start, and `file` gets its specification. None: the sweep is a search.
    """
    task = {"file": str(file), "spec": spec, "known": known and asdict(known), "left": left}
    answer = child.ask("experiments.runs.tracking.register", task, SECONDS)
    return Registered(**answer["sweep"]), answer["new"]


def _register(task: dict[str, Any], tell: child.Tell) -> None:
    import wandb

    spec, left, known = task["spec"], task["left"], task["known"]
    entity, address = server.probe(spec.get("entity")), server.base_url()
    if known and known["server"] == address and known["path"].startswith(f"{entity}/{spec['project']}/"):
        old = _open_spec(known["path"])
        if left is None:
            is_kept = old is not None and _is_same(old, spec)
        else:
            startable = (
                _names(old) if old and _is_same({**old, "parameters": None}, {**spec, "parameters": None}) else []
            )
            left = [run for run in left if run not in startable]
            is_kept = not left
        if is_kept:
            return tell(sweep=known, new=False)
    if left is not None and left != _names(spec):
        spec = {**spec, "parameters": {"run": {"values": left}}}
        write_spec(Path(task["file"]), spec)
    path = f"{entity}/{spec['project']}/{wandb.sweep(spec, entity=entity, project=spec['project'])}"
    url = wandb.Api(timeout=server.ANSWER_SECONDS).sweep(path).url
    tell(sweep=asdict(Registered(address, path, url)), new=True)


def _open_spec(path: str) -> dict[str, Any] | None:
    """The specification of a sweep on the server, if it may start runs."""
    import wandb

    with contextlib.suppress(ValueError, wandb.errors.Error):  # it is not there
        sweep = wandb.Api(timeout=server.ANSWER_SECONDS).sweep(path)
        return dict(sweep.config) if sweep.state.upper() in OPEN else None
    return None


def _is_same(old: dict[str, Any], spec: dict[str, Any]) -> bool:
    """Whether a server's specification is this one. The server may add fields."""
    return {key: old.get(key) for key in spec} == spec


def _names(spec: dict[str, Any]) -> list[str]:
    return spec["parameters"]["run"]["values"]


if __name__ == "__main__":
    child.serve(_register)
