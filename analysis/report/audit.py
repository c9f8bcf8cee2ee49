"""Warnings about a study's conduct: a plan that was changed after the first runs, and runs from several batches."""

from __future__ import annotations

from analysis import formatting
from analysis.results.policy import ALPHA
from analysis.results.study_results import StudyResults
from analysis.sources.plan_changes import PlanChange, plan_changes
from analysis.sources.runs_table import RunsTable
from experiments.runs.record import COMPARISON


def audit_warnings(results: StudyResults) -> list[str]:
    """A sentence for each finding; empty for a study whose plan was not changed and whose runs are of one batch."""
    study = results.study
    changes = plan_changes(study)
    if study.plan.looks and all(change.field != "looks" for change in changes):
        changes = [
            change for change in changes if change.field != "seeds"
        ]  # the planned looks say when seeds are added
    found = [_changed(change, study) for change in changes]
    return found + ([_batches(results)] if results.conduct.batches.batches > 1 else [])


def _changed(change: PlanChange, study: RunsTable) -> str:
    runs = formatting.plural(sum(change.before.values()), "run")
    before = formatting.listing([f"{value}" for value in change.before], "or")
    when, now = _when(change), getattr(study.stated_plan, change.field, None)
    if change.field == "looks":
        return (
            f"The planned looks were changed after runs had started: they were others when {runs} started, and are "
            f"{', '.join(map(str, now or [])) or 'none'} now. {when}Looks that are planned after seeing results do not keep the rate "
            "of false verdicts."
        )
    if change.field == "seeds":
        told = ", ".join(map(str, now or []))
        return (
            f"Seeds were added after runs had started: {runs} started when the seeds were {before}; now they are {told}. "
            f"{when}The tests do not account for a decision to add seeds after seeing results."
        )
    if change.field in COMPARISON:
        return (
            f"The {change.field} was changed after runs had started: it was {before} when {runs} started, and is {now} now. "
            f"{when}A comparison that was not stated before the runs is exploratory."
        )
    return f"The plan was changed after runs had started: {change.field} was another one when {runs} started. {when}".strip()


def _when(change: PlanChange) -> str:
    """A sentence, with a space behind it; empty where the time is not known."""
    if change.after is None and change.until is None:
        return ""
    after = f"after {change.after}" if change.after else ""
    return f"The change was made {' and '.join(filter(None, [after, change.until and f'by {change.until}']))}. "


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
