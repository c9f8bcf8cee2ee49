"""A study compared by another metric, or with another baseline, than its plan states. The report marks it as exploratory."""

from __future__ import annotations

from dataclasses import replace

from analysis.sources.runs_table import RunsTable
from experiments.errors import UserError
from experiments.metric import METRICS, Metric
from vit.registry import nearest


def explore(study: RunsTable, metric: str | None, baseline: str | None) -> RunsTable:
    """The study with this metric and this baseline, and a note for each that the plan does not state.

    None keeps the plan's. Raises `UserError` for a baseline that is not a variant.
    """
    if baseline is not None and baseline not in study.variants:
        raise UserError(f"--baseline: {baseline!r} is not a variant; {nearest(baseline, study.variants)}")
    wanted, notes = Metric(metric or study.metric), []
    measured = [name for name in study.metrics if study.runs[name].notna().any()]
    if wanted not in (*METRICS, study.metric, *measured):
        raise UserError(f"--metric: {str(wanted)!r} is not measured by any run; {nearest(wanted, measured)}")
    if wanted != study.metric:
        notes.append(_note("metric", wanted, study.metric))
        if wanted.is_share != study.metric.is_share:
            notes.append(
                f"The margin {study.margin:g} is stated for {study.metric.label}, and {wanted.label} has another unit. "
                "Do not read the equivalence tests."
            )
    if baseline not in (None, study.baseline):
        notes.append(_note("baseline", str(baseline), study.baseline))
    if not notes:
        return study
    changes = {"metric": str(wanted), "baseline": baseline or study.baseline, "notes": [*study.plan.notes, *notes]}
    return replace(study, plan=study.plan.model_copy(update=changes), stated=study.stated_plan)


def _note(field: str, here: str, planned: str) -> str:
    return (
        f"This report is exploratory: its {field} is {here}, and the plan states {planned}. "
        "A choice made after the results are known makes false differences more frequent."
    )
