"""A run as its source holds it, and its row in a table of runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from analysis.sources.settings import flatten
from experiments.metric import METRICS, known_metrics
from experiments.runs import record
from experiments.study import RunSpec

ENDED = record.STATUSES
SPEED = ("wall_seconds", "device_seconds", "images_per_second")
COST = ("params", "params_fixed", "flops_per_image", *SPEED, "peak_memory_bytes", "cohort")
IMAGES = ("train_images", "val_images", "test_images")
PLANNED_FIELDS = "planned.fields"  # a digest for each field of the plan
FROM_SUMMARY = {
    **{name: f"cost.{name}" for name in COST},
    **{name: f"data.{name}" for name in IMAGES},
    "image_files": "data.files",
    **{
        f"planned_{name}": f"planned.{name}" for name in record.COMPARISON
    },  # what the study stated when the run started
    "planned_fields": PLANNED_FIELDS,
    **{name: f"provenance.{name}" for name in ("commit", "dirty", "started", "finished", "command")},
    **{f"plugin_{name}": f"provenance.plugin.{name}" for name in ("modules", "digest", "committed")},
}
"""A column -> its place in summary.json."""
COLUMNS = (
    *("run", "run_id", "variant", "seed", "status", "epochs"),
    *METRICS,
    *FROM_SUMMARY,
    *("hardware", "versions", "digest"),
)
"""The columns of `RunsTable.runs` that every source gives. Then come, in any order, the settings by dotted path
("model.depth") and the metrics that only some runs measure ("fewshot/mnist/5")."""
NUMBERS = ("epochs", *METRICS, *COST, *IMAGES, "planned_margin")


@dataclass(frozen=True)
class SourceRun:
    """A run as its source holds it.

    `status`: one of `ENDED`, "incomplete", "unreadable" (the record is damaged) or "unplanned" (the plan lacks the run).
    `config`: nested settings. `variant`: its name, or "" where a plan states it or the source has none. `summary`: as in
    summary.json. `rows`: its epochs, as in metrics.csv.
    """

    name: str
    status: str
    config: Mapping[str, Any] = field(default_factory=dict)
    variant: str = ""
    summary: Mapping[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)


def run_row(run: SourceRun, planned: RunSpec | None) -> dict[str, Any]:
    """The row of `RunsTable.runs` of a run. `planned`: what the plan says of it; None for a run that the plan lacks."""
    summary = dict(flatten(run.summary))
    settings = dict(flatten(run.config)) or (dict(planned.levels) if planned else {})
    versions = _part(summary, "provenance.versions")
    return {
        **settings,
        "run": run.name,
        "run_id": summary.get("run_id") or (planned.run_id if planned else None) or None,
        "variant": planned.variant if planned else "",
        "seed": planned.seed if planned else None,
        "status": run.status,
        "epochs": summary.get("epochs", 0),
        **{metric: summary.get(metric) for metric in known_metrics(summary)},
        **{column: summary.get(path) for column, path in FROM_SUMMARY.items()},
        "planned_fields": " ".join(f"{name}={hex}" for name, hex in _part(summary, PLANNED_FIELDS).items()) or None,
        "hardware": _hardware(_part(summary, "provenance.hardware")),
        "versions": ", ".join(f"{package} {version}" for package, version in sorted(versions.items())),
        "digest": summary.get("digest"),
    }


def _part(summary: Mapping[str, Any], section: str) -> dict[str, Any]:
    """The values of a section of a flat summary."""
    return {path[len(section) + 1 :]: value for path, value in summary.items() if path.startswith(f"{section}.")}


def _hardware(hardware: Mapping[str, Any]) -> str:
    threads = hardware.get("threads")
    name = str(hardware.get("name") or hardware.get("device") or "")
    return f"{name} ({hardware.get('device')}, {threads} thread{'s' * (threads != 1)})" if threads else name
