"""Register sweeps with W&B, in a process of its own: a server that does not answer costs a minute."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from experiments.runs import record
from experiments.runs.tracking import server
from experiments.runs.tracking.mirror import ask
from experiments.runs.tracking.protocol import answer

HEAD = "# Written by `vit-sweep wandb`. `wandb sweep FILE` registers it; `vit-sweep wandb` does so and keeps its id.\n"
SECONDS = 60.0  # that the server has in all
OPEN = ("PENDING", "RUNNING", "PAUSED")  # states of a sweep that may start runs


@dataclass(frozen=True)
class Registered:
    """A sweep on a server. `url`: its page. `done`: what `register` did: registered, updated or kept.

    `without`: runs of the specification that it does not start, because an earlier sweep has.
    """

    id: str
    entity: str
    project: str
    url: str
    done: str = "registered"
    without: list[str] = field(default_factory=list)

    @property
    def path(self) -> str:
        """The path by which W&B's commands name it."""
        return f"{self.entity}/{self.project}/{self.id}"


def write_spec(path: Path, spec: dict[str, Any]) -> None:
    """Write a specification as W&B reads it."""
    record.write_text(path, HEAD + yaml.safe_dump(spec, sort_keys=False, allow_unicode=True, width=1000))


def register(
    file: Path, spec: dict[str, Any], known: Registered | None = None, left: Sequence[str] | None = None
) -> Registered | None:
    """Register the sweep of a specification, unless the server has it. Raises `Unreachable`.

    `file` gets the specification as it is registered. `known` is the sweep of an earlier call: it is kept, or updated while
    it has started no run. Otherwise a new sweep is registered, with the runs in `left` that the old one cannot start; None
    if there are none. Without `left`, it is a search, and a new one is registered only where the old one has ended or has
    another specification.
    """
    task = {"file": str(file), "spec": spec, "known": known and asdict(known), "left": left}
    found = ask("experiments.runs.tracking.register", task, SECONDS)["sweep"]
    return Registered(**found) if found else None


def _answer(task: dict[str, Any]) -> dict[str, Any]:
    known = Registered(**task["known"]) if task["known"] else None
    found = _keep_or_create(Path(task["file"]), task["spec"], known, task["left"])
    return {"sweep": asdict(found) if found else None}


def _keep_or_create(
    file: Path, spec: dict[str, Any], known: Registered | None, left: list[str] | None
) -> Registered | None:
    entity = server.probe(spec.get("entity"))
    if known and (known.entity, known.project) == (entity, spec["project"]):
        state, old = _look_up(known.path)
        wanted = _without(spec, known.without)
        if state in OPEN and _is_same(old, wanted):
            return _registered(known.path, "kept", known.without)
        if state == "PENDING":
            write_spec(file, wanted)
            command = [sys.executable, "-m", "wandb", "sweep", "--update", known.path, str(file)]
            subprocess.run(command, check=False, capture_output=True)
            if _is_same(_look_up(known.path)[1], wanted):
                return _registered(known.path, "updated", known.without)
        if state and left is not None:
            covered = _names(old) if state in OPEN and old.get("command") == spec["command"] else []
            rest = [name for name in left if name not in covered]
            if not rest:
                return None
            return _create(file, spec, entity, [name for name in _names(spec) if name not in rest])
    return _create(file, spec, entity, [])


def _create(file: Path, spec: dict[str, Any], entity: str, without: list[str]) -> Registered:
    import wandb

    spec = _without(spec, without)
    write_spec(file, spec)
    name = wandb.sweep(spec, entity=entity, project=spec["project"])
    return _registered(f"{entity}/{spec['project']}/{name}", "registered", without)


def _registered(path: str, done: str, without: list[str]) -> Registered:
    import wandb

    entity, project, name = path.split("/")
    url = wandb.Api(timeout=server.PROBE_SECONDS).sweep(path).url
    return Registered(name, entity, project, url, done, without)


def _without(spec: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """A specification with fewer runs."""
    if not names:
        return spec
    return {**spec, "parameters": {"run": {"values": [name for name in _names(spec) if name not in names]}}}


def _look_up(path: str) -> tuple[str, dict[str, Any]]:
    """State and specification of a sweep on the server; empty if it is not there."""
    import wandb

    with contextlib.suppress(ValueError, wandb.errors.Error):
        sweep = wandb.Api(timeout=server.PROBE_SECONDS).sweep(path)
        return sweep.state.upper(), dict(sweep.config)
    return "", {}


def _is_same(old: dict[str, Any], spec: dict[str, Any]) -> bool:
    """Whether a server's specification is this one. The server may add fields."""
    return {key: old.get(key) for key in spec} == spec


def _names(spec: dict[str, Any]) -> list[str]:
    return spec.get("parameters", {}).get("run", {}).get("values", [])


if __name__ == "__main__":
    answer(_answer)
