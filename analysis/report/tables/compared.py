"""Tables that compare two studies: the variants of both, and their differences from the baselines."""

from __future__ import annotations

import math

from analysis import formatting
from analysis.comparison import Change, TwoStudies
from analysis.report.render import Cell, Column, Table
from analysis.report.tables.cells import (
    count_cell,
    counts_note,
    difference_cell,
    estimate_cell,
    interval_cell,
    points,
    verdict_cell,
)
from experiments.metric import Metric


def compared_table(both: TwoStudies) -> Table:
    """Return the means of both studies and B − A, one row for each variant that both have."""
    a, b, metric = both.a, both.b, both.a.study.metric
    unit = f"{metric.label}{metric.unit}"
    columns = (
        Column("variant", ("variant",), numeric=False),
        Column(f"A: {unit}", ("a", "a_low", "a_high")),
        Column("A: n", ("a_n",)),
        Column(f"B: {unit}", ("b", "b_low", "b_high")),
        Column("B: n", ("b_n",)),
        Column(f"B − A{points(metric)}", ("diff", "diff_low", "diff_high")),
        Column("n", ("pairs", "dropped"), help="seeds with a result in both studies; in brackets: seeds without"),
        Column("p", ("p_holm",)),
        Column("B is", ("word",), numeric=False),
    )
    rows = []
    for change in both.changes:
        mean_a, mean_b, n = a.mean(change.variant), b.mean(change.variant), change.diff.n
        difference, p, word = _change_cells(change, metric)
        rows.append(
            (
                Cell(change.variant, (change.variant,)),
                estimate_cell(mean_a, metric),
                count_cell(mean_a.n),
                estimate_cell(mean_b, metric),
                count_cell(mean_b.n),
                difference,
                Cell(f"{n}" + (f" ({change.dropped})" if change.dropped else ""), (n, change.dropped), n),
                p,
                word,
            )
        )
    notes = [
        f"Only in {name}: {formatting.listing(only)}."
        for name, each in (("A", a), ("B", b))
        if (only := sorted(set(each.variants.names) - set(both.shared)))
    ]
    notes += [f"{name}: {counts_note(each)}" for name, each in (("A", a), ("B", b))]
    caption = "Variants in both studies: mean ± half-width of the 95 % interval, and B − A, paired by seed."
    return Table("compared", caption, columns, tuple(rows), tuple(notes))


def verdicts_table(both: TwoStudies) -> Table:
    """Return the differences from the baseline in both studies, and a test of how they change."""
    a, b, metric = both.a, both.b, both.a.study.metric
    columns = (
        Column("variant", ("variant",), numeric=False),
        Column(f"A: difference{points(metric)}", ("a_diff", "a_low", "a_high")),
        Column("A: verdict", ("a_verdict",), numeric=False),
        Column(f"B: difference{points(metric)}", ("b_diff", "b_low", "b_high")),
        Column("B: verdict", ("b_verdict",), numeric=False),
        Column(f"change, B − A{points(metric)}", ("shift", "shift_low", "shift_high")),
        Column("p", ("shift_p_holm",)),
        Column("B's difference is", ("shift_word",), numeric=False),
    )
    rows, by_name = [], {change.variant: change for change in both.shifts}
    for variant in both.shared:
        row = [Cell(variant, (variant,))]
        for compared in (a.versus[variant], b.versus[variant]):
            row += [difference_cell(compared, metric), verdict_cell(compared)]
        rows.append((*row, *_change_cells(by_name.get(variant), metric)))
    caption = f"Differences from the baseline of each study (A: {formatting.quoted(a.study.baseline)}; B: {formatting.quoted(b.study.baseline)})."
    note = (
        "Different verdicts in A and B do not show that the differences changed. The last three columns test the change, "
        "over the seeds that all four runs have."
    )
    return Table("verdicts", caption, columns, tuple(rows), (note,))


def _change_cells(change: Change | None, metric: Metric) -> tuple[Cell, Cell, Cell]:
    """B − A, its p-value and the outcome; dashes where nothing was compared."""
    if change is None:
        nothing = Cell(formatting.DASH, sort=math.nan)
        return nothing, nothing, nothing
    diff = change.diff
    return (
        interval_cell(diff, metric, signed=True),
        Cell(formatting.p_value(change.p_holm), (change.p_holm,), change.p_holm),
        Cell(
            change.word + " (depends on diverged runs)" * change.depends_on_diverged,
            (change.word,),
            mark=change.word.replace(" ", "-"),
        ),
    )
