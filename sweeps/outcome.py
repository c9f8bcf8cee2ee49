"""The outcome of a run in words. The report compares the variants."""

from __future__ import annotations

from pathlib import Path

from experiments.metric import Metric
from experiments.runs import record


def result_text(folder: Path, metric: Metric, status: str) -> str:
    """The status of an ended run and its score, if it has one: "finished, test/acc 97.2 %"."""
    value = record.read_summary(folder).get(metric) if record.is_finished(folder) else None
    if value is None or status == "diverged":
        return status
    return f"{status}, {metric} {value * metric.scale:.{1 if metric.is_share else 4}f}{' %' * metric.is_share}"
