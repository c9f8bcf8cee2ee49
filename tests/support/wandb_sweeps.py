"""The stand-in server of W&B with sweeps: enough for the real `wandb.sweep` and `wandb agent`.

A grid is sent point by point to agents that are idle, in order, and ends when the last point was sent. The real server
has other searches, and decides itself what becomes of a run whose agent is gone; here such a run stays as it is.
"""

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml
from wandb_server import Run, WandbServer


@dataclass
class Sweep:
    """A sweep. `sent`: id of a W&B run -> its parameters, in the order in which agents got them."""

    name: str
    project: str
    config: str
    state: str = "PENDING"
    sent: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def spec(self) -> dict[str, Any]:
        """The specification."""
        return yaml.safe_load(self.config)

    def points(self) -> Iterator[dict[str, Any]]:
        """The points of the grid. A range gives its lowest value."""
        parameters = self.spec["parameters"]
        values = [p["values"] if "values" in p else [p.get("value", p.get("min"))] for p in parameters.values()]
        return (dict(zip(parameters, point, strict=True)) for point in itertools.product(*values))


class SweepServer(WandbServer):
    """The server. `sweeps`: id -> sweep. `stop`: ids of runs that an agent is told to stop."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.sweeps: dict[str, Sweep] = {}
        self.agents: dict[str, str] = {}  # id -> the id of its sweep
        self.stop: set[str] = set()

    def op_UpsertSweep(self, v: dict[str, Any]) -> dict[str, Any]:
        sweep = self.sweeps.get(v.get("id") or "")
        if sweep is None:
            name = f"sweep{len(self.sweeps)}"
            sweep = self.sweeps[name] = Sweep(name, v["projectName"], v["config"])
        sweep.state = v.get("state") or sweep.state
        node = {"name": sweep.name, "project": self.project(sweep.project)}
        return {"upsertSweep": {"sweep": node, "configValidationWarnings": []}}

    def op_SweepWithRuns(self, v: dict[str, Any]) -> dict[str, Any]:
        sweep = self.sweeps.get(v.get("name") or v["sweep"])
        if sweep is None or sweep.project != v["project"]:
            return {"project": {"sweep": None}}
        times = {"createdAt": "2026-01-01T00:00:00Z", "updatedAt": "2026-01-01T00:00:00Z", "heartbeatAt": None}
        facts = {
            "id": sweep.name,
            "name": sweep.name,
            "state": sweep.state,
            "config": sweep.config,
            "displayName": None,
        }
        others = dict.fromkeys(("description", "bestLoss", "controller", "scheduler", "earlyStopJobRunning"))
        counts = {"runCount": len(sweep.sent), "runCountExpected": None, "runs": {"edges": []}, "method": "grid"}
        return {"project": {"sweep": {**times, **others, **facts, **counts}}}

    def op_CreateAgent(self, v: dict[str, Any]) -> dict[str, Any]:
        name = f"agent{len(self.agents)}"
        self.agents[name] = v["sweep"]
        return {"createAgent": {"agent": {"id": name}}}

    def op_Heartbeat(self, v: dict[str, Any]) -> dict[str, Any]:
        sweep, busy = self.sweeps[self.agents[v["id"]]], json.loads(v["runState"])
        commands = [{"type": "stop", "run_id": name} for name in busy if name in self.stop]
        if not busy:
            commands = [self._next(sweep)]
        return {"agentHeartbeat": {"agent": {"id": v["id"]}, "commands": json.dumps(commands)}}

    def _next(self, sweep: Sweep) -> dict[str, Any]:
        """The command for an idle agent: the next point, or the end.

        As on the real server, the run is there at once.
        """
        point = next(itertools.islice(sweep.points(), len(sweep.sent), None), None)
        if point is None or sweep.state not in ("PENDING", "RUNNING"):
            sweep.state = "FINISHED" if sweep.state == "RUNNING" else sweep.state
            return {"type": "exit"}
        sweep.state, name = "RUNNING", f"{sweep.name}run{len(sweep.sent)}"
        sweep.sent[name] = point
        args = {key: {"value": value} for key, value in point.items()}
        self.runs[name] = Run(name, sweep.project, config=dict(args), state="pending")
        return {"type": "run", "run_id": name, "args": args, "program": sweep.spec.get("program")}
