"""Check the values of a run's summary: a digest shows that a file was not changed, not that its values are possible."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from experiments.metric import known_metrics
from experiments.runs import record

TEXTS = ("commit", "started", "finished", "command")


def read_checked(run_dir: Path) -> record.RunRecord:
    """`record.read_run`. Raises `RecordError` also where a value has another type or cannot be, such as an accuracy of 70."""
    run = record.read_run(run_dir)
    path = run.dir / record.SUMMARY
    for section in ("cost", "data", "init", "planned", "provenance"):
        if not isinstance(run.summary.get(section) or {}, dict):
            raise record.RecordError(f"{path}: {section}: expected an object, got {_short(run.summary[section])}")
    provenance = run.summary.get("provenance") or {}
    for name in TEXTS:
        if not isinstance(provenance.get(name) or "", str):
            raise record.RecordError(f"{path}: provenance.{name}: expected a text, got {_short(provenance[name])}")
    parts = (("provenance.plugin", provenance), ("planned.fields", run.summary.get("planned") or {}))
    for name, tree in parts:
        if not isinstance(tree.get(name.partition(".")[2]) or {}, dict):
            raise record.RecordError(f"{path}: {name}: expected an object")
    epochs = run.summary.get("epochs", 0)
    if type(epochs) is not int or epochs < 0:
        raise record.RecordError(f"{path}: epochs: expected a number from 0, got {_short(epochs)}")
    for metric in known_metrics(run.summary):
        value = run.summary.get(metric)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise record.RecordError(f"{path}: {metric}: expected a number, got {_short(value)}")
        if metric.is_share and not 0 <= value <= 1:
            raise record.RecordError(f"{path}: {metric}: expected a fraction from 0 to 1, got {value:g}")
    return run


def _short(value: Any) -> str:
    return repr(value)[:60]
