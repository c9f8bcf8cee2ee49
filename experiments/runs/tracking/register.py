"""Register a sweep with W&B, in a process of its own: a server that does not answer costs a minute."""

from __future__ import annotations

import contextlib
from typing import Any

from experiments.runs.tracking import child, server

SECONDS = 60.0  # that the server has in all
OPEN = ("PENDING", "RUNNING", "PAUSED")  # states of a sweep that may start runs
Sweep = dict[str, Any]  # `server`: its address; `path`: ENTITY/PROJECT/ID; `url`: of its page


def register(spec: dict[str, Any], known: Sweep | None) -> Sweep:
    """Register the sweep of a specification, unless `known`, an earlier sweep of it, is open. Raises `Unreachable`."""
    return child.ask("experiments.runs.tracking.register", {"spec": spec, "known": known}, SECONDS)


def _register(task: dict[str, Any], tell: child.Tell) -> None:
    import wandb

    spec, known, address = task["spec"], task["known"], server.base_url()
    entity = server.probe(spec.get("entity"))
    api = wandb.Api(timeout=server.ANSWER_SECONDS)
    if known and known["server"] == address:
        with contextlib.suppress(ValueError, wandb.errors.Error):  # it was deleted
            if api.sweep(known["path"]).state.upper() in OPEN:
                return tell(**known)
    path = f"{entity}/{spec['project']}/{wandb.sweep(spec, entity=entity, project=spec['project'])}"
    tell(server=address, path=path, url=api.sweep(path).url)


if __name__ == "__main__":
    child.serve(_register)
