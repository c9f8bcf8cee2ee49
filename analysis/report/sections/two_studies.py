"""The sections that compare two studies, A and B: how the variants of both changed, and in what the studies differ."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.figures.several_studies import draw_two
from analysis.figures.style import Plot
from analysis.report import formats
from analysis.report.document import Facts, Section
from analysis.report.table import Column, Table, estimate_fields
from analysis.report.text import facts, text
from analysis.report.variant_columns import NAME, count_column, p_column, signed_column
from analysis.results.two_studies import TwoStudies, outcome
from analysis.stats import Comparison


def result_section(both: TwoStudies, notes: list[str]) -> Section:
    """The means of A and B, and B − A. `notes`: on the runs of the studies."""
    rows, columns, metric = [], [NAME], both.a.means.metric
    for variant, change in both.changes.items():
        row: dict[str, Any] = {"variant": variant}
        for side, results in both.sides.items():
            mean = results.means.of(variant)
            row |= {**estimate_fields(side.lower(), mean), f"{side.lower()}_n": mean.n}
        row |= {**estimate_fields("diff", change.diff), "pairs": change.n, "dropped": change.dropped}
        rows.append({**row, "p_holm": change.p_holm, **_word("word", change, outcome(change))})
    for field, side in (("a", "A"), ("b", "B")):
        head = f"{side}: {metric.label}{metric.unit}"
        columns += [
            Column(head, formats.interval(field, metric), sort=field),
            count_column(f"{field}_n", label=f"{side}: n"),
        ]
    columns += [
        signed_column(metric, "B − A", "diff"),
        count_column("pairs", label="n"),
        count_column("dropped", label="seeds without a pair"),
        p_column("p", "p_holm"),
        _word_column("B is", "word"),
    ]
    table = Table("compared", text("two_studies", "compared"), pd.DataFrame(rows), tuple(columns), tuple(notes))
    caption = text("two_studies", "figure", metric=metric)
    figure = Plot("compared", draw_two(both), caption)
    return Section("result", "Results", [table, figure])


def shifts_section(both: TwoStudies) -> Section:
    """The differences from the baseline in A and in B, and a test of how they change."""
    rows: list[dict[str, Any]] = [{"variant": variant} for variant in both.changes]
    columns, metric = [NAME], both.a.means.metric
    for side, results in both.sides.items():
        name = side.lower()
        for row in rows:
            compared = results.comparisons.versus[row["variant"]]
            diff = compared.diff
            row |= {f"{name}_diff": diff.value, f"{name}_low": diff.low, f"{name}_high": diff.high}
            row |= {**_word(f"{name}_verdict", compared, compared.verdict), f"_{name}": compared.verdict == "baseline"}
        bounds = {"low": f"{name}_low", "high": f"{name}_high", "blank": f"_{name}"}
        columns.append(signed_column(metric, f"{side}: difference", f"{name}_diff", **bounds))
        columns.append(_word_column(f"{side}: verdict", f"{name}_verdict"))
    if both.shifts:
        for row in rows:
            if change := both.shifts.get(row["variant"]):
                row |= {**estimate_fields("shift", change.diff), "shift_p_holm": change.p_holm}
                row |= _word("shift_word", change, outcome(change))
        columns += [signed_column(metric, "change, B − A", "shift"), p_column("p", "shift_p_holm")]
        columns.append(_word_column("B's difference is", "shift_word"))
    caption, note = (text("two_studies", macro, both=both) for macro in ("verdicts", "verdicts_note"))
    table = Table("verdicts", caption, pd.DataFrame(rows), tuple(columns), (note,))
    return Section("verdicts", "Differences from the baseline", [table])


def settings_section(both: TwoStudies) -> Section:
    """In what the studies differ."""
    origins = [
        (name, *("; ".join(sorted(results.study.runs[name].dropna().unique())) for results in both.sides.values()))
        for name in ("commit", "hardware", "versions")
    ]
    items = facts("two_studies", "settings", both=both, origins=origins)
    return Section("settings", "Settings that differ", [Facts(items)])


def _word(field: str, compared: Comparison, word: str) -> dict[str, str]:
    """A verdict in the table, with whether it depends on diverged runs, and its colour."""
    shown = word + " (depends on diverged runs)" * compared.depends_on_diverged
    return {field: shown, f"_{field}_mark": word.replace(" ", "-")}


def _word_column(label: str, field: str) -> Column:
    return Column(label, formats.text(field), numeric=False, mark=f"_{field}_mark")
