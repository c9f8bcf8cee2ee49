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
from analysis.report.tables.cells import points
from analysis.report.text import facts, text
from analysis.results.means import Means
from analysis.results.two_studies import TwoStudies, outcome
from analysis.sources.runs_table import RunsTable
from analysis.stats import Comparison, PairedComparison
from experiments.metric import Metric

DEPENDS = " (depends on diverged runs)"


def result_section(both: TwoStudies, means: Sequence[Means], notes: Sequence[str]) -> Section:
    """The means of A and B, and B − A. `notes`: on the runs of the studies."""
    a, b = means
    metric, unit = a.metric, f"{a.metric.label}{a.metric.unit}"
    rows = [
        {
            "variant": variant,
            **estimate_fields("a", a.of(variant)),
            "a_n": a.of(variant).n,
            **estimate_fields("b", b.of(variant)),
            "b_n": b.of(variant).n,
            **estimate_fields("diff", change.diff),
            "pairs": change.n,
            "dropped": change.dropped,
            "p_holm": change.p_holm,
            **_outcome("word", change),
        }
        for variant, change in both.changes.items()
    ]
    columns = (
        Column("variant", formats.text("variant"), numeric=False, key=True),
        Column(f"A: {unit}", formats.interval("a", metric), sort="a"),
        Column("A: n", formats.count("a_n"), sort="a_n"),
        Column(f"B: {unit}", formats.interval("b", metric), sort="b"),
        Column("B: n", formats.count("b_n"), sort="b_n"),
        Column(f"B − A{points(metric)}", formats.interval("diff", metric, signed=True), sort="diff"),
        Column("n", formats.rows(_pairs), sort="pairs", note=text("two_studies", "pairs")),
        Column("p", formats.p("p_holm"), sort="p_holm"),
        Column("B is", formats.text("_word"), numeric=False, mark="_word_mark"),
    )
    table = Table("compared", text("two_studies", "compared"), pd.DataFrame(rows), columns, tuple(notes))
    alt = text("two_studies", "alt", metric=metric, count=len(both.shared))
    figure = Plot("compared", draw_means(both.shared, means), text("two_studies", "figure", metric=metric), alt)
    return Section("result", "Results", present(table, figure))


def shifts_section(both: TwoStudies, versus: Sequence[Mapping[str, Comparison]], baselines: Sequence[str]) -> Section:
    """The differences from the baseline in A and in B, and a test of how they change."""
    metric = both.metric
    columns = (
        Column("variant", formats.text("variant"), numeric=False, key=True),
        *_verdict_columns("a", metric),
        *_verdict_columns("b", metric),
        Column(f"change, B − A{points(metric)}", formats.interval("shift", metric, signed=True), sort="shift"),
        Column("p", formats.p("shift_p_holm"), sort="shift_p_holm"),
        Column("B's difference is", formats.text("_shift_word"), numeric=False, mark="_shift_word_mark"),
    )
    rows = [
        {
            "variant": variant,
            **_verdict("a", versus[0][variant]),
            **_verdict("b", versus[1][variant]),
            **_shift(both.shifts.get(variant)),
        }
        for variant in both.shared
    ]
    caption, note = text("two_studies", "verdicts", baselines=baselines), text("two_studies", "verdicts_note")
    table = Table("verdicts", caption, pd.DataFrame(rows), columns, (note,))
    return Section("verdicts", "Differences from the baseline", present(table))


def settings_section(settings: Sequence[tuple[str, str, str]], studies: Sequence[RunsTable]) -> Section:
    """In what the studies differ. `settings`: path, value in A, value in B."""
    origins = [
        (name, *("; ".join(sorted(study.runs[name].dropna().unique())) for study in studies))
        for name in ("commit", "hardware", "versions")
    ]
    items = facts("two_studies", "settings", settings=settings, studies=studies, origins=origins)
    return Section("settings", "Settings that differ", [Facts(items)])


def _pairs(row: pd.Series) -> str:
    return f"{row['pairs']}" + (f" ({row['dropped']})" if row["dropped"] else "")


def _verdict_columns(side: str, metric: Metric) -> tuple[Column, Column]:
    difference = formats.interval(
        f"{side}_diff", metric, signed=True, low=f"{side}_low", high=f"{side}_high", blank=f"_{side}_is_baseline"
    )
    return (
        Column(f"{side.upper()}: difference{points(metric)}", difference, sort=f"{side}_diff"),
        Column(f"{side.upper()}: verdict", formats.text(f"{side}_verdict"), numeric=False, mark=f"_{side}_mark"),
    )


def _verdict(side: str, compared: Comparison) -> dict[str, Any]:
    return {
        f"{side}_diff": compared.diff.value,
        f"{side}_low": compared.diff.low,
        f"{side}_high": compared.diff.high,
        f"{side}_verdict": compared.verdict + DEPENDS * compared.depends_on_diverged,
        f"_{side}_mark": compared.verdict.replace(" ", "-"),
        f"_{side}_is_baseline": compared.verdict == "baseline",
    }


def _shift(change: PairedComparison | None) -> dict[str, Any]:
    """The change of a variant's difference; empty for a baseline."""
    if change is None:
        unknown = dict.fromkeys(("shift", "shift_low", "shift_high", "shift_p_holm"), math.nan)
        return {**unknown, **dict.fromkeys(("shift_word", "_shift_word", "_shift_word_mark"))}
    return {**estimate_fields("shift", change.diff), "shift_p_holm": change.p_holm, **_outcome("shift_word", change)}


def _outcome(field: str, change: PairedComparison) -> dict[str, str]:
    word = outcome(change)
    return {
        field: word,
        f"_{field}": word + DEPENDS * change.depends_on_diverged,
        f"_{field}_mark": word.replace(" ", "-"),
    }
