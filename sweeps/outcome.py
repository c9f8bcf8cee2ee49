"""The outcome of a run in words. The report compares the variants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.metric import Metric


def result_text(summary: Mapping[str, Any], metric: Metric) -> str:
    """The status of an ended run and its score, if it has one: "finished, test/acc 97.2 %"."""
    status, value = summary["status"], summary.get(metric)
    if value is None or status == "diverged":
        return str(status)
    return f"{status}, {metric} {value * metric.scale:.{1 if metric.is_share else 4}f}{' %' * metric.is_share}"
