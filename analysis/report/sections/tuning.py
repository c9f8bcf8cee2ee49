"""The section on how the variants were tuned, with its methods and warnings."""

from __future__ import annotations

import math

import pandas as pd

from analysis import formatting
from analysis.figures.labels import Styles
from analysis.figures.style import Plot
from analysis.figures.tuning_figures import draw_budget, draw_trials, shown_setting
from analysis.report import formats
from analysis.report.document import Section, present
from analysis.report.table import Column, Table
from analysis.report.text import facts, text
from analysis.report.variant_columns import variant_columns, variant_fields
from analysis.results.tuning import Tuning
from analysis.results.variants import Variants

STATUSES = ("finished", "pruned", "diverged", "failed")


def tuning_section(tuning: Tuning, variants: Variants, styles: Styles) -> Section:
    """Return the section "Tuning"."""
    path, trials = shown_setting(tuning), None
    if path is not None:
        drawn = draw_trials(tuning, path, text("tuning", "axis", path=path), styles)
        trials = Plot("tuning", drawn, text("tuning", "figure", path=path), text("tuning", "alt", path=path))
    drawn = draw_budget(tuning, text("tuning", "budget_axis"), styles)
    budget = Plot("tuning-budget", drawn, text("tuning", "budget_figure"), text("tuning", "budget_alt"))
    items = present(choices_table(tuning, variants), trials, budget, importances_table(tuning, variants))
    return Section("tuning", "Tuning", items, [text("tuning", "section", tuning=tuning)])


def tuning_methods() -> tuple[tuple[str, str], ...]:
    """Return how the expected best is computed."""
    return facts("tuning", "methods")


def tuning_warnings(tuning: Tuning) -> list[str]:
    """Return where a choice lies at an end of its range, and where the trials had other settings than the runs."""
    edges = [
        text("tuning", "edge", path=path, variants=variants, tried=tuning.plan.space[path])
        for path, variants in tuning.at_edge.items()
    ]
    return edges + ([text("tuning", "base", pairs=tuning.other_base)] if tuning.other_base else [])


def choices_table(tuning: Tuning, variants: Variants) -> Table:
    """Return the settings chosen for each variant, and what its trials cost."""
    metric, plan = tuning.metric, tuning.plan
    counts = pd.crosstab(tuning.trials["variant"], tuning.trials["status"])
    statuses = [status for status in STATUSES if status in counts]
    rows = [
        {
            **variant_fields(variants, variant),
            **{path: plan.variants[variant].settings[path] for path in plan.space},
            metric: plan.variants[variant].val_acc,
            **counts.loc[variant, statuses],
            "epochs": plan.variants[variant].epochs,
        }
        for variant in tuning.expected
    ]
    settings = (
        Column(
            _label(path),
            formats.each(path, formatting.setting),
            numeric=tried.low is not None,
            sort=path if tried.low is not None else "",
        )
        for path, tried in plan.space.items()
    )
    accuracy, help = formats.number(metric, scale=metric.scale), text("tuning", "accuracy_help")
    columns = (
        *variant_columns(variants),
        *settings,
        Column(f"{metric.label}{metric.unit}", accuracy, sort=metric, note=help),
        *(
            Column(status, formats.count(status), sort=status, note=text("tuning", "status_help", status=status))
            for status in statuses
        ),
        Column("epochs", formats.count("epochs"), sort="epochs", note=text("tuning", "epochs_help")),
    )
    return Table(
        "tuning", text("tuning", "caption", metric=metric), pd.DataFrame(rows), columns, (text("tuning", "note"),)
    )


def importances_table(tuning: Tuning, variants: Variants) -> Table | None:
    """Return Optuna's importances of the settings; None where they are not known for any variant."""
    rows = [
        {**variant_fields(variants, variant), **{path: known.get(path, math.nan) for path in tuning.plan.space}}
        for variant in tuning.expected
        if (known := tuning.plan.variants[variant].importances)
    ]
    if not rows:
        return None
    columns = (
        *variant_columns(variants),
        *(Column(_label(path), formats.number(path), sort=path) for path in tuning.plan.space),
    )
    caption, note = text("tuning", "importances_caption"), text("tuning", "importances_note")
    return Table("tuning-importances", caption, pd.DataFrame(rows), columns, (note,))


def _label(path: str) -> str:
    return text("tuning", "setting", path=path)
