"""The sections that compare two studies, A and B: how the variants of both changed, and in what the studies differ."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pandas as pd

from analysis import formatting
from analysis.answers.columns import NAME, shown_difference, signed_column, verdict_column, verdict_fields
from analysis.answers.two_studies.compute import TwoStudies, outcome
from analysis.figures.means import draw_two
from analysis.figures.style import Plot
from analysis.stats import UNKNOWN, PairedComparison
from analysis.write.document import Facts, Section
from analysis.write.table import Column, Table
from analysis.write.text import facts, text


def result_section(both: TwoStudies, notes: list[str]) -> Section:
    """The means of A and B, and B − A. `notes`: on the runs of the studies."""
    rows, metric, (name_a, name_b) = [], both.a.means.metric, both.sides
    for variant, change in both.changes.items():
        a, b = (results.means.of(variant) for results in both.sides.values())
        row = {"variant": variant, "a": a, "a_n": a.n, "b": b, "b_n": b.n, "diff": change.diff, "pairs": change.n}
        row |= {"dropped": change.dropped, "p_holm": change.p_holm, **_word(change, "word", variant in both.identical)}
        rows.append(row)
    columns = (
        NAME,
        Column(f"{name_a}: {metric.label}{metric.unit}", "a", formatting.intervals(metric)),
        Column(f"{name_a}: n", "a_n", formatting.counts),
        Column(f"{name_b}: {metric.label}{metric.unit}", "b", formatting.intervals(metric)),
        Column(f"{name_b}: n", "b_n", formatting.counts),
        signed_column(metric, f"{name_b} − {name_a}", "diff"),
        Column("n", "pairs", formatting.counts),
        Column("seeds without a pair", "dropped", formatting.counts),
        Column("p", "p_holm", formatting.p_values),
        verdict_column(f"{name_b} is", "word"),
    )
    table = Table("compared", text("two_studies", "compared", both=both), pd.DataFrame(rows), columns, tuple(notes))
    caption = text("two_studies", "figure", metric=metric)
    figure = Plot("compared", draw_two(both), caption)
    return Section("result", "Results", [table, figure])


def shifts_section(both: TwoStudies) -> Section:
    """The differences from the baseline in A and in B, and a test of how they change."""
    rows, columns, metric, (name_a, name_b) = [], [NAME], both.a.means.metric, both.sides
    for variant in both.changes:
        row: dict[str, Any] = {"variant": variant}
        for name, results in zip("ab", both.sides.values()):
            compared = results.comparisons.versus[variant]
            diff = compared.diff
            row |= {f"{name}_diff": diff.value, f"{name}_low": diff.low, f"{name}_high": diff.high}
            row |= {f"_{name}": shown_difference(compared), **verdict_fields(compared, f"{name}_verdict")}
        if change := both.shifts.get(variant):
            row |= {"shift": change.diff, "shift_p_holm": change.p_holm}
            row |= _word(change, "shift_word", variant in both.identical_shifts)
        elif both.shifts:
            row |= {"shift": UNKNOWN, "shift_p_holm": math.nan}
        rows.append(row)
    for name, side in zip("ab", both.sides):
        columns.append(replace(signed_column(metric, f"{side}: difference", f"_{name}"), sort=f"{name}_diff"))
        columns.append(verdict_column(f"{side}: verdict", f"{name}_verdict"))
    if both.shifts:
        columns += [
            signed_column(metric, f"change, {name_b} − {name_a}", "shift"),
            Column("p", "shift_p_holm", formatting.p_values),
        ]
        columns.append(verdict_column(f"{name_b}: difference is", "shift_word"))
    caption, note = text("two_studies", "verdicts", both=both), text("two_studies", "verdicts_note", both=both)
    table = Table("verdicts", caption, pd.DataFrame(rows), tuple(columns), (note,))
    return Section("verdicts", "Differences from the baseline", [table])


def _word(change: PairedComparison, field: str, identical: bool) -> dict[str, object]:
    return verdict_fields(change, field, "identical" if identical else outcome(change))


def settings_section(both: TwoStudies) -> Section:
    """In what the studies differ."""
    origins = [
        (name, *("; ".join(sorted({*results.study.runs[name].dropna()} - {""})) for results in both.sides.values()))
        for name in ("commit", "hardware", "versions")
    ]
    items = facts("two_studies", "settings", both=both, origins=origins)
    return Section("settings", "Settings that differ", [Facts(items)])
