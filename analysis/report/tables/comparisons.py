"""Paired differences between variants, with every statistic that belongs to them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from analysis import formatting
from analysis.figures.labels import brief_names
from analysis.report.render import Cell, Column, Table
from analysis.report.tables.cells import (
    anchor,
    difference_cell,
    margin_text,
    number_cell,
    p_cell,
    points,
    variant_cells,
    variant_columns,
    verdict_cell,
)
from analysis.results.study_results import StudyResults
from analysis.stats import PairedComparison
from analysis.stats.power import FEW_SEEDS
from experiments.metric import Metric

_ADJUSTED = (
    "Verdicts are adjusted for multiple comparisons, intervals {intervals}. So the verdict can be “not enough evidence” "
    "although the interval excludes zero or lies within the margin."
)
_SEEDS_NEEDED = (
    " Seeds needed: the total number of seeds for a verdict with 80 % power, if the observed difference is the true one. It is "
    "a range, because the standard deviation is estimated (10 % to 90 % quantile). – means that there is a verdict already, "
    f"or that fewer than {FEW_SEEDS} seeds are too few for an estimate."
)
MOST_PAIR_ROWS = 66  # twelve variants; a longer table of pairs is only written as a file


def baseline_table(results: StudyResults) -> Table:
    """Return the difference of each variant from the baseline."""
    rows = tuple(
        (*variant_cells(results, variant), *_cells(results, variant, results.versus[variant]))
        for variant in results.others
    )
    return Table(
        "differences",
        f"Differences from the baseline (variant − {formatting.quoted(results.study.baseline)}), paired by seed.",
        (*variant_columns(results), *_columns(results.study.metric)),
        rows,
        _notes(results, [results.versus[variant] for variant in results.others]),
    )


def pairs_table(results: StudyResults) -> Table | None:
    """Return the difference of each pair of variants; None where every pair contains the baseline."""
    if len(results.variants.names) < 3 or not results.pairs:
        return None
    brief = brief_names(results)
    rows = tuple(
        (
            Cell(brief[a], (a,), results.variants.names.index(a), anchor(results, a)),
            Cell(brief[b], (b,), results.variants.names.index(b), anchor(results, b)),
            *_cells(results, a, compared),
        )
        for (a, b), compared in results.pairs.items()
    )
    columns = (
        Column("variant", ("variant",), numeric=False, key=True),
        Column("reference", ("reference",), numeric=False, key=True),
        *_columns(results.study.metric),
    )
    notes = ("Same columns as in the table of differences from the baseline. The pairs of that table are included.",)
    return Table("pairs", "All pairs of variants (variant − reference), paired by seed.", columns, rows, notes)


def _notes(results: StudyResults, compared: Sequence[PairedComparison]) -> tuple[str, ...]:
    """Explain the columns; `compared` is the content of the table."""
    family = len(results.pairs) or len(compared)
    pairs = f"{family} pairs {'of variants' if results.pairs else 'with the baseline'}"
    adjusted = f"Holm-adjusted over all {pairs}" if family > 1 else "not adjusted (one comparison)"
    level = f"5 % / {family}" if family > 1 else "5 %"
    if results.factorial is not None:  # pairs and factors share alpha
        adjusted += " and multiplied by 2 (pairs and factors share the 5 %)"
        level = f"2.5 % / {family}" if family > 1 else "2.5 %"
    if results.policy.plan:
        adjusted += ", and adjusted for the planned looks"
        level = f"the level of this look, for {level} over all looks"
    intervals = f" {_ADJUSTED.format(intervals=results.policy.intervals)}" if family > 1 else ""
    notes = [
        f"n: seeds with a result for both variants. CI: confidence interval.{intervals}",
        f"p: paired t test. Equivalence p: two one-sided t tests (TOST) within ±{margin_text(results)}. Both are {adjusted}. "
        "Seeds won: seeds on which the variant is better than the reference; a tie counts as half. "
        "Seed correlation: the correlation of the two variants over the seeds. Pairing by seed reduces the error if it is positive.",
        "Minimum detectable difference: the smallest true difference that the t test detects with 80 % power at alpha = "
        f"{level}.{_SEEDS_NEEDED if _any_seeds_needed(results, compared) else ''}",
    ]
    if results.policy.floor:
        notes.append(
            "Accuracies change in steps of one image, so seeds can have equal accuracies by chance. The tests therefore "
            f"use a standard deviation of at least half an image ({100 * results.policy.floor:.2g} points) for each run."
        )
    return tuple(notes)


def _any_seeds_needed(results: StudyResults, compared: Sequence[PairedComparison]) -> bool:
    """Whether a table shows the column of seeds needed: without any value it is left out."""
    return any(formatting.seeds_needed(c.seeds_needed) != formatting.DASH for c in (*compared, *results.pairs.values()))


def _columns(metric: Metric) -> tuple[Column, ...]:
    return (
        Column("n", ("n", "dropped"), help="seeds with a result for both variants; in brackets: seeds without"),
        Column(f"difference{points(metric)}", ("diff", "diff_low", "diff_high")),
        Column("p (adjusted)", ("p", "p_holm")),
        Column("equivalence p (adjusted)", ("tost_p", "tost_p_holm")),
        Column("verdict", ("verdict",), numeric=False),
        Column(
            "seeds won",
            ("paired_improvement", "paired_improvement_low", "paired_improvement_high"),
            help="seeds on which the variant is better than the reference; a tie counts as half",
        ),
        Column("95 % CI", (), detail=True),
        Column("seed correlation", ("seed_correlation",), help="between the two variants over the seeds", detail=True),
        Column(f"minimum detectable difference{points(metric)}", ("detectable",), detail=True),
        Column("seeds needed (80 % power)", ("seeds_needed_low", "seeds_needed_high"), detail=True),
    )


def _cells(results: StudyResults, variant: str, c: PairedComparison) -> tuple[Cell, ...]:
    metric = results.study.metric
    scale, half = metric.scale, formatting.half_width(c.diff) * metric.scale
    better, needed = c.paired_improvement, c.seeds_needed
    bounds = partial(formatting.bounds, c.diff, scale)
    wins = f"{better.value * c.n:.3g} of {c.n}" if c.n else formatting.DASH
    return (
        Cell(f"{c.n}" + (f" ({c.dropped})" if c.dropped else ""), (c.n, c.dropped), c.n),
        difference_cell(c, metric, anchor(results, variant)),
        p_cell(c.p, c.p_holm),
        p_cell(c.tost_p, c.tost_p_holm),
        verdict_cell(c),
        Cell(wins, (better.value, better.low, better.high), better.value),
        Cell(bounds(), (), c.diff.low, half=half, rounded=lambda places: bounds(places=places)),
        Cell(formatting.number(c.seed_correlation, 2), (c.seed_correlation,), c.seed_correlation),
        number_cell(c.detectable, scale, formatting.decimals(half), half),
        Cell(
            formatting.seeds_needed(needed),
            (needed.low, needed.high) if needed else (None, None),
            math.inf if needed is None or needed.low is None else needed.low,
        ),
    )
