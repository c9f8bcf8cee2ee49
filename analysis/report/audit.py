"""Warnings about a study's conduct: a plan that was changed after the first runs, and runs from several batches."""

from __future__ import annotations

from typing import Any

from analysis import formatting
from analysis.results.policy import ALPHA
from analysis.results.study_results import StudyResults
from analysis.sources.plan_changes import plan_changes
from analysis.sources.runs_table import RunsTable
from experiments.runs.record import COMPARISON


def audit_warnings(results: StudyResults) -> list[str]:
    """A sentence for each finding; empty for a study whose plan was not changed and whose runs are of one batch."""
    study = results.study
    changes = plan_changes(study)
    if study.plan.looks and "looks" not in changes:
        changes.pop("seeds", None)  # the planned looks say when seeds are added
    sentences = [_changed(field, before, study) for field, before in changes.items()]
    return sentences + ([_batches(results)] if results.conduct.batches.batches > 1 else [])


def _changed(field: str, values: dict[Any, int], study: RunsTable) -> str:
    runs = formatting.plural(sum(values.values()), "run")
    before = formatting.listing([f"{value}" for value in values], "or")
    now = getattr(study.stated_plan, field, None)
    if field == "looks":
        return (
            f"The planned looks were changed after runs had started: they were others when {runs} started, and are "
            f"{', '.join(map(str, now or [])) or 'none'} now. Looks that are planned after seeing results do not keep the rate "
            "of false verdicts."
        )
    if field == "seeds":
        told = ", ".join(map(str, now or []))
        return (
            f"Seeds were added after runs had started: {runs} started when the seeds were {before}; now they are {told}. "
            f"The tests do not account for a decision to add seeds after seeing results."
        )
    if field in COMPARISON:
        return (
            f"The {field} was changed after runs had started: it was {before} when {runs} started, and is {now} now. "
            f"A comparison that was not stated before the runs is exploratory."
        )
    return f"The plan was changed after runs had started: {field} was another one when {runs} started."


def _batches(results: StudyResults) -> str:
    effect, metric = results.conduct.batches, results.study.metric
    several = f"The runs come from {effect.batches} batches, which differ in hardware or commit."
    if not effect.variants:
        return (
            f"{several} No variant has runs in two batches, so a difference between variants may come from the batches."
        )
    size = f"{formatting.number(effect.difference * metric.scale, 2 if metric.is_share else 4)}{metric.points}"
    if not effect.p <= 1:
        return f"{several} There are too few seeds to test for a batch effect; the batch means differ by {size}."
    test = f"F test over seeds, p = {formatting.p_value(effect.p)}".replace("= <", "<")
    if effect.p < ALPHA:
        return (
            f"{several} Within variants, the batch means differ by {size} ({test}). Differences between runs of one seed "
            "are free of this effect only where all runs of that seed come from one batch."
        )
    return f"{several} No batch effect was found: within variants, the batch means differ by {size} ({test})."
