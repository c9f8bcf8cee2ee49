"""The scores of finished runs in words: one run, and a small table of all variants. The report has the comparisons."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from experiments.metric import Metric
from experiments.runs import record
from experiments.study import StudyPlan


def result_text(folder: Path, metric: Metric, status: str) -> str:
    """The status of an ended run and its score, if it has one: "finished, test/acc 97.2 %"."""
    value = record.read_summary(folder).get(metric) if record.is_finished(folder) else None
    if value is None or status == "diverged":
        return status
    return f"{status}, {metric} {_number(metric, value)}{' %' * metric.is_share}"


def outcome_lines(plan: StudyPlan, study_dir: Path) -> list[str]:
    """A table of the mean score of every variant with finished runs, in the order of the plan, as lines of text.

    The interval is Student's, at 95 %, for the mean over seeds. Where it is not known, or leaves the range of an
    accuracy, the line shows the lowest and the highest seed instead.
    """
    metric = Metric(plan.metric)
    scores: dict[str, list[float]] = {label: [] for label in plan.labels}
    others: dict[str, Counter[str]] = defaultdict(Counter)
    for run in plan.runs:
        summary = record.read_summary(study_dir / run.name) if record.is_finished(study_dir / run.name) else None
        status, value = (summary["status"], summary.get(metric)) if summary else ("not trained", None)
        if status == "finished" and value is not None:
            scores[run.variant].append(value)
        else:
            others[run.variant][status] += 1
    if not any(scores.values()):
        return []
    cells = {label: _interval(metric, values) for label, values in scores.items()}
    width = max(map(len, cells.values()))
    unit = " in %" if metric.is_share else ""
    lines = [f"{metric}{unit}: mean ± half of its 95 % interval (or the range of the seeds), number of seeds, variant"]
    for label, cell in cells.items():
        notes = ["baseline"] * (label == plan.baseline)
        notes += [f"{count} {status}" for status, count in others[label].items()]
        note = f" ({', '.join(notes)})" if notes else ""
        lines.append(f"  {cell:>{width}}  n = {len(scores[label])}  {label}{note}")
    return lines


def _number(metric: Metric, value: float) -> str:
    return f"{value * metric.scale:.{1 if metric.is_share else 4}f}"


def _interval(metric: Metric, values: Sequence[float]) -> str:
    """The mean and its interval, or the range of the seeds."""
    if len(values) < 2:
        return _number(metric, values[0]) if values else "-"
    from scipy.special import stdtrit

    mean = statistics.fmean(values)
    half = float(stdtrit(len(values) - 1, 0.975)) * statistics.stdev(values) / math.sqrt(len(values))
    if half == 0 or (metric.is_share and not 0 <= mean - half <= mean + half <= 1):
        low, high = _number(metric, min(values)), _number(metric, max(values))
        return f"{low} to {high}" if low != high else f"all {low}"
    return f"{_number(metric, mean)} ± {_number(metric, half)}"
