"""The sections that compare two studies, A and B: how the variants of both changed, and in what the studies differ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from analysis.figures.style import Plot
from analysis.figures.two_studies import draw_means
from analysis.report import formats
from analysis.report.document import Facts, Section, present
from analysis.report.table import Column, Table, estimate_fields
from analysis.report.text import facts, text
from analysis.report.variant_columns import NAME, comparison_fields, p_column, signed_column
from analysis.results.means import Means
from analysis.results.two_studies import TwoStudies, outcome
from analysis.sources.runs_table import RunsTable
from analysis.stats import Comparison, PairedComparison


def result_section(both: TwoStudies, means: Sequence[Means], notes: Sequence[str]) -> Section:
    """The means of A and B, and B − A. `notes`: on the runs of the studies."""
    metric, unit = both.metric, f"{both.metric.label}{both.metric.unit}"
    frame = pd.DataFrame([_change_row(variant, change, means) for variant, change in both.changes.items()])
    columns = (
        NAME,
        Column(f"A: {unit}", formats.interval("a", metric), sort="a"),
        Column("A: n", formats.count("a_n"), sort="a_n"),
        Column(f"B: {unit}", formats.interval("b", metric), sort="b"),
        Column("B: n", formats.count("b_n"), sort="b_n"),
        signed_column(metric, "B − A", "diff"),
        Column("n", formats.text("_n"), sort="pairs", note=text("two_studies", "pairs")),
        p_column("p", "p_holm"),
        Column("B is", formats.text("_word"), numeric=False, mark="_word_mark"),
    )
    table = Table("compared", text("two_studies", "compared"), frame, columns, tuple(notes))
    caption, alt = (text("two_studies", macro, metric=metric) for macro in ("figure", "alt"))
    return Section("result", "Results", present(table, Plot("compared", draw_means(both.shared, means), caption, alt)))


def shifts_section(both: TwoStudies, versus: Sequence[Mapping[str, Comparison]], baselines: Sequence[str]) -> Section:
    """The differences from the baseline in A and in B, and a test of how they change."""
    columns = [NAME]
    for side in "ab":
        bounds = {"low": f"{side}_low", "high": f"{side}_high", "blank": f"_{side}_is_baseline"}
        columns.append(signed_column(both.metric, f"{side.upper()}: difference", f"{side}_diff", **bounds))
        verdict = formats.text(f"{side}_verdict")
        columns.append(Column(f"{side.upper()}: verdict", verdict, numeric=False, mark=f"_{side}_mark"))
    columns += [
        signed_column(both.metric, "change, B − A", "shift"),
        p_column("p", "shift_p_holm"),
        Column("B's difference is", formats.text("_shift_word"), numeric=False, mark="_shift_word_mark"),
    ]
    rows = [
        {"variant": v, **_verdict("a", versus[0][v]), **_verdict("b", versus[1][v]), **_shift(both.shifts.get(v))}
        for v in both.shared
    ]
    caption, note = text("two_studies", "verdicts", baselines=baselines), text("two_studies", "verdicts_note")
    table = Table("verdicts", caption, pd.DataFrame(rows), tuple(columns), (note,))
    return Section("verdicts", "Differences from the baseline", present(table))


def settings_section(settings: Sequence[tuple[str, str, str]], studies: Sequence[RunsTable]) -> Section:
    """In what the studies differ. `settings`: path, value in A, value in B."""
    origins = [
        (name, *("; ".join(sorted(study.runs[name].dropna().unique())) for study in studies))
        for name in ("commit", "hardware", "versions")
    ]
    items = facts("two_studies", "settings", settings=settings, studies=studies, origins=origins)
    return Section("settings", "Settings that differ", [Facts(items)])


def _change_row(variant: str, change: PairedComparison, means: Sequence[Means]) -> dict[str, Any]:
    a, b = (own.of(variant) for own in means)
    return {
        "variant": variant,
        **estimate_fields("a", a),
        "a_n": a.n,
        **estimate_fields("b", b),
        "b_n": b.n,
        **estimate_fields("diff", change.diff),
        "pairs": change.n,
        "dropped": change.dropped,
        "_n": f"{change.n}" + (f" ({change.dropped})" if change.dropped else ""),
        "p_holm": change.p_holm,
        **_outcome("word", change),
    }


def _verdict(side: str, compared: Comparison) -> dict[str, Any]:
    fields = comparison_fields(compared)
    return {
        f"{side}_diff": fields["diff"],
        f"{side}_low": fields["diff_low"],
        f"{side}_high": fields["diff_high"],
        f"{side}_verdict": fields["_verdict"],
        f"_{side}_mark": fields["_mark"],
        f"_{side}_is_baseline": fields["_no_difference"],
    }


def _shift(change: PairedComparison | None) -> dict[str, Any]:
    """The change of a variant's difference; empty for a baseline."""
    if change is None:
        unknown = dict.fromkeys(("shift", "shift_low", "shift_high", "shift_p_holm"), math.nan)
        return {**unknown, **dict.fromkeys(("shift_word", "_shift_word", "_shift_word_mark"))}
    return {**estimate_fields("shift", change.diff), "shift_p_holm": change.p_holm, **_outcome("shift_word", change)}


def _outcome(field: str, change: PairedComparison) -> dict[str, str]:
    word = outcome(change)
    shown = word + " (depends on diverged runs)" * change.depends_on_diverged
    return {field: word, f"_{field}": shown, f"_{field}_mark": word.replace(" ", "-")}
