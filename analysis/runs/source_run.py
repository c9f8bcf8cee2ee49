"""A run as its source holds it, its row in a table of runs, and what the values of a row may be."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from analysis.runs.settings import PLACES, leaves
from experiments.files import RecordError
from experiments.metric import LARGEST, METRICS, Metric, known_metrics
from experiments.runs import record

ENDED = record.STATUSES
SPEED = ("wall_seconds", "device_seconds", "images_per_second")
COST = ("params", "params_fixed", "flops_per_image", *SPEED, "peak_memory_bytes", "cohort")
IMAGES = ("train_images", "val_images", "test_images")
FROM_SUMMARY = {
    **{name: f"cost.{name}" for name in COST},
    **{name: f"data.{name}" for name in IMAGES},
    "image_files": "data.files",
    "test_copies": "data.copies.test",  # test images that are training images as well
    **{name: f"provenance.{name}" for name in ("commit", "dirty", "started", "finished", "command")},
    **{f"plugin_{name}": f"provenance.plugin.{name}" for name in ("modules", "digest", "committed")},
}
"""A column -> its place in summary.json."""
COLUMNS = (
    *("run", "run_id", "variant", "seed", "status", "epochs"),
    *METRICS,
    *FROM_SUMMARY,
    *("hardware", "versions", "digest", "reused_from"),
)
"""The columns of `Runs.runs` that every source gives. Then come, in any order, the settings by dotted path
("model.depth") and the metrics that only some runs measure ("fewshot/mnist/5")."""
NUMBERS = ("epochs", *COST, *IMAGES, "test_copies")


def apart(name: str, kind: str) -> str:
    """The name of a column of a user's table in `Runs.runs`: `KIND.NAME` where the name means something else there."""
    return f"{kind}.{name}" if name in (*COLUMNS, *FROM_SUMMARY.values(), *PLACES) else name


@dataclass(frozen=True)
class SourceRun:
    """A run as its source holds it."""

    name: str
    status: str  # of `ENDED`, or "incomplete", "unreadable" (a damaged record), "unplanned" (not in the plan)
    config: Mapping[str, Any] = field(default_factory=dict)  # nested settings
    variant: str = ""  # "" where a plan states it or the source has none
    summary: Mapping[str, Any] = field(default_factory=dict)  # as in summary.json
    rows: list[dict[str, Any]] = field(default_factory=list)  # its epochs, as in metrics.csv
    held: Mapping[str, Any] | None = None  # the row, of a run that the study takes from another one

    @cached_property
    def row(self) -> dict[str, Any]:
        """The row of `Runs.runs`, without what a plan says of the run."""
        if self.held is not None:
            return dict(self.held)
        summary, settings = dict(leaves(self.summary)), dict(leaves(self.config))
        versions = _part(summary, "provenance.versions")
        return {
            **settings,
            "run": self.name,
            "run_id": summary.get("run_id") or None,
            "variant": "",
            "seed": settings.get("seed"),
            "status": self.status,
            "epochs": summary.get("epochs", 0),
            **{metric: summary.get(metric) for metric in known_metrics(summary)},
            **{column: summary.get(path) for column, path in FROM_SUMMARY.items()},
            "hardware": ", then ".join(dict.fromkeys(_devices(self.summary))),
            "versions": ", ".join(f"{package} {version}" for package, version in sorted(versions.items())),
            "digest": summary.get("digest"),
            "reused_from": None,
        }


STATUSES = (*ENDED, "incomplete", "unreadable", "unplanned")
FLAGS = ("dirty", "plugin_committed")
GIVEN = ("run", "variant", "hardware", "versions")  # texts that every row has
_OTHERS = {*METRICS, *NUMBERS, *FLAGS, "status", "seed"}
TEXTS = {name: "" if name in GIVEN else None for name in COLUMNS if name not in _OTHERS}
"""A column of texts -> its value where that is missing."""


def check_row(row: Mapping[str, Any], source: object) -> None:
    """Raise `RecordError` where a value has another type or cannot be, such as an accuracy of 70.

    Every source checks its rows: a digest shows that values are unchanged, not that they are possible.
    """
    if missing := [name for name in ("run", "variant", "seed", "status") if name not in row]:
        raise RecordError(f"{source}: {missing[0]}: is required")
    metrics: dict[str, Metric] = {str(metric): metric for metric in known_metrics(row)}
    for name, value in row.items():
        may_lack = value is None and name not in (*GIVEN, "status")
        if not may_lack and (expected := _expected(name, value, metrics.get(name))):
            shown = f"{value:g}" if type(value) in (int, float) else repr(str(value)[:60])
            raise RecordError(f"{source}: {name}: {shown} is not allowed: expected {expected}")


def _expected(name: str, value: Any, metric: Metric | None) -> str:
    """What a column holds, where the value is something else; else nothing."""
    size = abs(value) if type(value) in (int, float) else math.nan
    if metric is not None and metric.is_share and not math.isnan(size) and not 0 <= value <= 1:
        return "a fraction from 0 to 1; divide percent by 100, or give the column another name, such as acc"
    if metric is not None or name in NUMBERS:
        return "" if size <= LARGEST and (metric is not None or value >= 0) else "a number"
    if name == "status":
        return "" if value in STATUSES else ", ".join(STATUSES)
    if name in (*TEXTS, *FLAGS, "seed"):
        kind = str if name in TEXTS else bool if name in FLAGS else int
        return "" if type(value) is kind else kind.__name__
    return "one value" if isinstance(value, dict | list) else ""


def _part(summary: Mapping[str, Any], section: str) -> dict[str, Any]:
    """The values of a section of a flat summary."""
    return {path[len(section) + 1 :]: value for path, value in summary.items() if path.startswith(f"{section}.")}


def _devices(summary: Mapping[str, Any]) -> Iterator[str]:
    """What each session of a run was trained on. An interrupted run may go on elsewhere."""
    provenance = summary.get("provenance") or {}
    for session in (*provenance.get("sessions", ()), provenance):
        hardware = session.get("hardware") or {}
        device, threads = hardware.get("device"), hardware.get("threads")
        name = str(hardware.get("name") or device or "")
        yield f"{name} ({device}, {threads} thread{'s' * (threads != 1)})" if threads else name
