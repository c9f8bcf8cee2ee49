"""Warnings about a study's conduct: a plan that was changed after the first runs, and runs from several batches."""

from __future__ import annotations

from typing import Any

from analysis import formatting
from analysis.results import ALPHA, Results
from analysis.sources.study import plan_changes


def audit_warnings(results: Results) -> list[str]:
    """A sentence for each finding; empty for a study whose plan was not changed and whose runs are of one batch."""
    study = results.study
    found = [_changed(name, old, study.plan[name]) for name, old in plan_changes(study).items()]
    return found + ([_batches(results)] if results.batches.batches > 1 else [])


def _changed(name: str, old: dict[Any, int], now: Any) -> str:
    """`old`: value at the start of runs -> number of these runs."""
    runs = sum(old.values())
    before = formatting.listing([f"{value}" for value in old], "or")
    if name == "seeds":
        told = ", ".join(map(str, now))
        return (
            f"Seeds were added after runs had started: {runs} run{'s' * (runs != 1)} started when the seeds were {before}; "
            f"now they are {told}. The tests do not account for a decision to add seeds after seeing results."
        )
    return (
        f"The {name} was changed after runs had started: it was {before} when {runs} run{'s' * (runs != 1)} started, and is "
        f"{now} now. A comparison that was not stated before the runs is exploratory."
    )


def _batches(results: Results) -> str:
    effect, metric = results.batches, results.study.metric
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
