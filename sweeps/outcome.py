"""The scores of finished runs in words: one run, and a small table of all variants. The report has the comparisons."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from experiments.metric import Metric
from experiments.runs import record
from experiments.study import StudyPlan


def result_text(folder: Path, metric: Metric, status: str) -> str:
    """The status of an ended run and, if it finished, its score: "finished, test/acc 97.2 %"."""
    value = record.read_summary(folder).get(metric) if record.is_finished(folder) else None
    return f"{status}, {metric} {_score(metric, value)}" if status == "finished" and value is not None else status


def outcome_lines(plan: StudyPlan, study_dir: Path) -> list[str]:
    """A table of the mean score of every variant with finished runs, in the order of the plan, as lines of text.

    The interval is Student's, at 95 %, for the mean over seeds. Where it is not known, or leaves the range of an
    accuracy, the line shows the lowest and the highest seed instead.
    """
    metric = Metric(plan.metric)
    scores: dict[str, list[float]] = {}
    others: dict[str, Counter[str]] = {}
    for run in plan.runs:
        summary = record.read_summary(study_dir / run.name) if record.is_finished(study_dir / run.name) else None
        status = summary["status"] if summary else "not trained"
        if summary and status == "finished" and summary.get(metric) is not None:
            scores.setdefault(run.variant, []).append(summary[metric])
        else:
            others.setdefault(run.variant, Counter())[status] += 1
    variants = list(dict.fromkeys(run.variant for run in plan.runs))
    if not scores:
        return []
    cells = {variant: _interval(metric, scores.get(variant, [])) for variant in variants}
    width = max(map(len, cells.values()))
    unit = " in %" if metric.is_share else ""
    lines = [f"{metric}{unit}: mean ± half of its 95 % interval (or the range of the seeds), number of seeds, variant"]
    for variant, cell in cells.items():
        notes = ["baseline"] * (variant == plan.baseline)
        notes += [f"{count} {status}" for status, count in others.get(variant, Counter()).items()]
        note = f" ({', '.join(notes)})" if notes else ""
        lines.append(f"  {cell:>{width}}  n = {len(scores.get(variant, []))}  {variant}{note}")
    return lines


def _score(metric: Metric, value: float) -> str:
    return f"{value * metric.scale:.{_digits(metric)}f}" + " %" * metric.is_share


def _digits(metric: Metric) -> int:
    return 1 if metric.is_share else 4


def _interval(metric: Metric, values: Sequence[float]) -> str:
    """The mean and its interval, or the range of the seeds."""
    if not values:
        return "-"
    scale, digits = metric.scale, _digits(metric)
    low, high = min(values) * scale, max(values) * scale
    if len(values) == 1:
        return f"{low:.{digits}f}"
    from scipy.special import stdtrit

    mean = statistics.fmean(values) * scale
    error = statistics.stdev(values) * scale / math.sqrt(len(values))
    half = float(stdtrit(len(values) - 1, 0.975)) * error
    if half == 0 or (metric.is_share and not 0 <= mean - half <= mean + half <= 100):
        return f"{low:.{digits}f} to {high:.{digits}f}" if low < high else f"all {low:.{digits}f}"
    return f"{mean:.{digits}f} ± {half:.{digits}f}"
