"""The section on how the variants were tuned, and its warnings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from analysis import formatting
from analysis.answers.answer import Answer, Page
from analysis.answers.columns import variant_table
from analysis.answers.tuning.compute import Tuning
from analysis.figures.labels import Styles
from analysis.figures.points import draw_trials, shown_setting
from analysis.figures.style import Plot
from analysis.results.variants import Variants
from analysis.write.document import Section, present
from analysis.write.table import Column, Table
from analysis.write.text import text

if TYPE_CHECKING:
    from analysis.answers.study_results import StudyResults

STATUSES = ("finished", "pruned", "diverged", "failed")


def tuning_section(tuning: Tuning, variants: Variants, styles: Styles) -> Section:
    """Return the section "Tuning"."""
    path, plot = shown_setting(tuning), None
    if path is not None:
        axis, caption = text("tuning", "axis", path=path), text("tuning", "figure", path=path)
        plot = Plot("tuning", draw_trials(tuning, path, axis, styles), caption)
    items = present(choices_table(tuning, variants), plot)
    return Section("tuning", "Tuning", items, [text("tuning", "section", tuning=tuning)])


def tuning_warnings(tuning: Tuning) -> list[str]:
    """Return where a choice lies at an end of its range or may be luck, and trials with other settings."""
    edges = [
        text("tuning", "edge", path=path, variants=variants, tried=tuning.plan.space[path])
        for path, variants in tuning.at_edge.items()
    ]
    luck = [text("tuning", "luck", tuning=tuning)]
    return edges + luck + ([text("tuning", "base", pairs=tuning.other_base)] if tuning.other_base else [])


def choices_table(tuning: Tuning, variants: Variants) -> Table:
    """Return the settings chosen for each variant, and what its trials cost."""
    metric, chosen = tuning.metric, tuning.plan.variants
    counts = pd.crosstab(tuning.trials["variant"], tuning.trials["status"])
    statuses = [status for status in STATUSES if status in counts]
    rows = {
        variant: {
            **{path: chosen[variant].settings[path] for path in tuning.plan.space},
            **{f"_{path}": formatting.setting(chosen[variant].settings[path]) for path in tuning.plan.space},
            metric: chosen[variant].val_acc,
            "lead": tuning.leads[variant],
            **counts.loc[variant, statuses],
            "epochs": chosen[variant].epochs,
        }
        for variant in tuning.variants
    }
    accuracy = formatting.numbers(scale=metric.scale)
    columns = (
        *(
            Column(_label(path), f"_{path}")
            if tried.choices is not None
            else Column(_label(path), path, formatting.each(formatting.setting))
            for path, tried in tuning.plan.space.items()
        ),
        Column(
            f"{metric.label}{metric.unit}",
            metric,
            accuracy,
            note=text("tuning", "accuracy_help", seeds=tuning.plan.seeds_per_trial),
        ),
        Column(f"lead over the second{metric.difference_unit}", "lead", accuracy, note=text("tuning", "lead_help")),
        *(Column(s, s, formatting.counts, note=text("tuning", "status_help", status=s)) for s in statuses),
        Column("epochs", "epochs", formatting.counts, note=text("tuning", "epochs_help")),
    )
    caption, notes = text("tuning", "caption", metric=metric), (text("tuning", "note"),)
    return variant_table("tuning", caption, variants, rows, columns, notes)


def _label(path: str) -> str:
    return text("tuning", "setting", path=path)


def answer(results: StudyResults, page: Page) -> Answer:
    """How the variants were tuned; nothing where they were not."""
    if (tuning := results.tuning) is None:
        return Answer()
    return Answer(
        lambda: [tuning_section(tuning, results.variants, page.styles)],
        headline=[text("tuning", "chosen", tuning=tuning)],
        frames={"tuning-trials": tuning.trials},
    )
