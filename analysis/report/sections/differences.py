"""Paired differences between variants, with every statistic that belongs to them."""

from __future__ import annotations

import math

import pandas as pd

from analysis import formatting
from analysis.figures import means as figures
from analysis.figures.labels import Styles
from analysis.figures.style import Plot
from analysis.report import formats
from analysis.report.document import Section, present
from analysis.report.table import Column, Table, estimate_fields
from analysis.report.text import paragraphs, text
from analysis.report.variant_columns import (
    comparison_fields,
    difference_column,
    p_column,
    variant_columns,
    variant_fields,
    verdict_column,
)
from analysis.results.comparisons import Comparisons
from analysis.results.policy import Policy
from analysis.results.variants import Variants
from analysis.stats import PairedComparison
from analysis.stats.power import FEW_SEEDS
from experiments.metric import Metric

MOST_PAIR_ROWS = 66  # twelve variants; a longer table of pairs is only written as a file


def differences(
    variants: Variants, comparisons: Comparisons, pairs: Table | None, policy: Policy, plot: Plot | None
) -> Section:
    """The differences from the baseline and, unless there are too many, `pairs`: those of all pairs."""
    section = Section("differences", "Differences from the baseline")
    if variants.others:
        shown = pairs if pairs is not None and len(pairs.frame) <= MOST_PAIR_ROWS else None
        section.items.extend(present(plot, baseline_table(variants, comparisons, policy), shown))
    return section


def baseline_table(variants: Variants, comparisons: Comparisons, policy: Policy) -> Table:
    """The difference of each variant from the baseline."""
    compared = {variant: comparisons.versus[variant] for variant in variants.others}
    rows = [{**variant_fields(variants, v), **_fields(comparison)} for v, comparison in compared.items()]
    needed = any(c.seeds_needed for c in (*compared.values(), *comparisons.pairs.values()))
    family = len(comparisons.pairs) or len(compared)
    slots = {"policy": policy, "family": family, "all_pairs": bool(comparisons.pairs), "needed": needed}
    return Table(
        "differences",
        text("differences", "baseline_caption", baseline=variants.baseline),
        pd.DataFrame(rows, dtype=object),
        (*variant_columns(variants), *_columns(variants.metric)),
        tuple(paragraphs("differences", "notes", few_seeds=FEW_SEEDS, **slots)),
    )


def pairs_table(variants: Variants, comparisons: Comparisons) -> Table | None:
    """The difference of each pair of variants; None where every pair contains the baseline."""
    if len(variants.names) < 3 or not comparisons.pairs:
        return None
    place = {variant: at for at, variant in enumerate(variants.names)}
    rows = [
        {"variant": a, "reference": b, **_ends(variants, place, a, b), **_fields(comparison)}
        for (a, b), comparison in comparisons.pairs.items()
    ]
    names = [
        Column("variant", formats.text("_name"), numeric=False, key=True, sort="_place", link="_runs"),
        Column("reference", formats.text("_other"), numeric=False, key=True, sort="_other_place", link="_other_runs"),
    ]
    caption, notes = text("differences", "pairs_caption"), (text("differences", "pairs_note"),)
    return Table("pairs", caption, pd.DataFrame(rows, dtype=object), (*names, *_columns(variants.metric)), notes)


def _ends(variants: Variants, place: dict[str, int], a: str, b: str) -> dict[str, object]:
    return {
        "_name": variants.brief[a],
        "_place": place[a],
        "_runs": variants.anchor(a),
        "_other": variants.brief[b],
        "_other_place": place[b],
        "_other_runs": variants.anchor(b),
    }


def _fields(c: PairedComparison) -> dict[str, object]:
    needed, wins = c.seeds_needed, c.paired_improvement
    difference = comparison_fields(c)
    verdict = {name: difference.pop(name) for name in ("verdict", "_mark")}
    return {
        "n": c.n,
        "dropped": c.dropped,
        "_n": f"{c.n}" + (f" ({c.dropped})" if c.dropped else ""),
        **difference,
        "p": c.p,
        "p_holm": c.p_holm,
        "tost_p": c.tost_p,
        "tost_p_holm": c.tost_p_holm,
        **verdict,
        **estimate_fields("paired_improvement", wins),
        "_won": f"{wins.value * c.n:.3g} of {c.n}" if c.n else formatting.DASH,
        "seed_correlation": c.seed_correlation,
        "detectable": c.detectable,
        "seeds_needed_low": needed.low if needed else None,
        "seeds_needed_high": needed.high if needed else None,
        "_needed": formatting.seeds_needed(needed),
        "_needed_order": math.inf if needed is None or needed.low is None else needed.low,
    }


def _columns(metric: Metric) -> tuple[Column, ...]:
    points = metric.difference_unit
    minimum = formats.like_interval("detectable", metric, "diff")
    note = {name: text("differences", name) for name in ("n_note", "won_note", "correlation_note")}
    return (
        Column("n", formats.text("_n"), sort="n", note=note["n_note"]),
        difference_column(metric, "difference"),
        p_column("p (adjusted)", "p_holm"),
        p_column("equivalence p (adjusted)", "tost_p_holm"),
        verdict_column(),
        Column("seeds won", formats.text("_won"), sort="paired_improvement", note=note["won_note"]),
        Column(f"{formatting.CONFIDENCE} CI", formats.bounds("diff", metric), sort="diff_low", detail=True),
        Column(
            "seed correlation",
            formats.number("seed_correlation"),
            sort="seed_correlation",
            note=note["correlation_note"],
            detail=True,
        ),
        Column(f"minimum detectable difference{points}", minimum, sort="detectable", detail=True),
        Column("seeds needed (80 % power)", formats.text("_needed"), sort="_needed_order", detail=True),
    )


def differences_plot(variants: Variants, comparisons: Comparisons, policy: Policy, styles: Styles) -> Plot | None:
    """Return the figure of the differences from the baseline; None where there is nothing to compare."""
    if not variants.others:
        return None
    grey = styles.some_grey
    caption = text("differences", "figure_caption", baseline=variants.baseline, policy=policy, some_grey=grey)
    return Plot("differences", figures.differences(variants, comparisons, styles), caption)
