"""Paired differences between variants, with every statistic that belongs to them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from analysis import formatting
from analysis.metric import Metric
from analysis.report.render import Cell, Column, Table
from analysis.report.tables.cells import (
    anchor,
    difference_cell,
    margin_text,
    p_cell,
    points,
    variant_cells,
    variant_columns,
    verdict_cell,
)
from analysis.results import Results
from analysis.stats import Comparison
from analysis.stats.power import FEW_SEEDS, MOST_SEEDS

NOT_ADJUSTED = (
    "Intervals are not adjusted for multiple comparisons, verdicts are: an interval can exclude zero, or lie within the "
    "margin, without a verdict."
)
MOST_PAIR_ROWS = 66  # twelve variants; a longer table of pairs is only written as a file


def baseline_table(results: Results) -> Table:
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


def pairs_table(results: Results) -> Table | None:
    """Return the difference of each pair of variants; None where every pair contains the baseline."""
    if len(results.variants) < 3 or not results.pairs:
        return None
    rows = tuple(
        (
            Cell(a, (a,), results.variants.index(a), anchor(results, a)),
            Cell(b, (b,), results.variants.index(b), anchor(results, b)),
            *_cells(results, a, compared),
        )
        for (a, b), compared in results.pairs.items()
    )
    columns = (
        Column("variant", ("variant",), numeric=False),
        Column("reference", ("reference",), numeric=False),
        *_columns(results.study.metric),
    )
    notes = (
        f"Columns as in the table of differences from the baseline, for {len(rows)} comparisons: p and equivalence p are "
        f"Holm-adjusted over {len(rows)} comparisons, and the minimum detectable difference is at 5 %/{len(rows)}. A verdict "
        "on a difference from the baseline can therefore differ between the two tables. The headline uses the other table.",
        *_degenerate_note(list(results.pairs.values())),
    )
    return Table("pairs", "All pairs of variants (variant − reference), paired by seed.", columns, rows, notes)


def _notes(results: Results, compared: Sequence[Comparison]) -> tuple[str, ...]:
    """Explain the columns; `compared` is the content of the table."""
    family = len(compared)
    adjusted = f"Holm-adjusted over the {family} comparisons of this table" if family > 1 else "of a single comparison"
    level = f"5 %/{family}" if family > 1 else "5 %"
    return (
        f"n: seeds with a result for both variants. Intervals are at 95 %. {NOT_ADJUSTED if family > 1 else ''}".strip(),
        f"p: paired t test; equivalence p: two one-sided t tests within ±{margin_text(results)}; both {adjusted}. "
        "Effect size: Hedges' g of the paired differences. Better on: seeds on which the variant is better than the "
        "reference; a tie counts as half.",
        "Minimum detectable difference: the smallest true difference that the t test finds with 80 % power at "
        f"{level}. Seeds needed: the total number of seeds that gives a verdict with 80 % power, if the observed "
        "difference and spread are the true ones; – means that there is a verdict already, or that the spread is "
        f"unknown. An estimate from fewer than {FEW_SEEDS} seeds is unreliable.",
        *_degenerate_note(compared),
    )


def _degenerate_note(compared: Sequence[Comparison]) -> tuple[str, ...]:
    if not any(c.n > 2 and c.diff.low == c.diff.high for c in compared):
        return ()
    return (
        "Where all seeds give the same difference, the standard deviation is zero and the p-value is 0 or 1. Such a p-value "
        "is not a valid test.",
    )


def _columns(metric: Metric) -> tuple[Column, ...]:
    return (
        Column("n", ("n", "dropped"), help="seeds with a result for both variants; in brackets: seeds without"),
        Column(f"difference{points(metric)}", ("diff", "diff_low", "diff_high")),
        Column("95 % interval", ()),
        Column("effect size", ("effect",), help="mean over standard deviation of the differences, Hedges' correction"),
        Column("p", ("p", "p_holm")),
        Column(
            "better on",
            ("improvement", "improvement_low", "improvement_high"),
            help="seeds on which the variant is better",
        ),
        Column("equivalence p", ("tost_p", "tost_p_holm")),
        Column("verdict", ("verdict",), numeric=False),
        Column(f"minimum detectable difference{points(metric)}", ("detectable",)),
        Column("seeds needed (80 % power)", ("seeds_needed",)),
    )


def _cells(results: Results, variant: str, c: Comparison) -> tuple[Cell, ...]:
    metric = results.study.metric
    scale, places = metric.scale, formatting.decimals(formatting.half_width(c.diff) * metric.scale)
    better = c.improvement
    wins = f"{better.value * c.n:.3g} of {formatting.plural(c.n, 'seed')}" if c.n else formatting.DASH
    return (
        Cell(f"{c.n}" + (f" ({c.dropped})" if c.dropped else ""), (c.n, c.dropped), c.n),
        difference_cell(c, metric, anchor(results, variant)),
        Cell(formatting.bounds(c.diff, scale), (), c.diff.low),
        Cell(formatting.number(c.effect, 2, signed=True), (c.effect,), c.effect),
        p_cell(c.p, c.p_holm),
        Cell(wins, (better.value, better.low, better.high), better.value),
        p_cell(c.tost_p, c.tost_p_holm),
        verdict_cell(c),
        Cell(formatting.number(c.detectable * scale, places), (c.detectable,), c.detectable),
        Cell(_seeds_needed(c), (c.seeds_needed,), c.seeds_needed if c.seeds_needed is not None else math.inf),
    )


def _seeds_needed(c: Comparison) -> str:
    if c.verdict != "not enough evidence":
        return formatting.DASH
    if c.seeds_needed is not None:
        return formatting.count(c.seeds_needed)
    return f"> {formatting.count(MOST_SEEDS)}" if math.isfinite(c.detectable) else formatting.DASH
