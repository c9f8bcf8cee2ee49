"""Paired differences between variants, with every statistic that belongs to them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import pandas as pd

from analysis import formatting
from analysis.figures import means as figures
from analysis.figures.labels import Styles
from analysis.figures.style import Plot
from analysis.report.document import Section, present
from analysis.report.table import Column, Table
from analysis.report.text import text
from analysis.report.variant_columns import (
    NAME,
    signed_column,
    variant_columns,
    variant_fields,
    verdict_column,
    verdict_fields,
)
from analysis.results.policy import Comparisons, Policy
from analysis.results.variants import Variants
from analysis.stats import Estimate, PairedComparison
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
    family = len(comparisons.pairs) or len(compared)
    note = text("differences", "notes", policy=policy, family=family, all_pairs=bool(comparisons.pairs))
    return Table(
        "differences",
        text("differences", "baseline_caption", baseline=variants.baseline),
        pd.DataFrame(rows, dtype=object),
        (*variant_columns(variants), *_columns(variants.metric, compared.values())),
        (note,),
    )


def pairs_table(variants: Variants, comparisons: Comparisons) -> Table | None:
    """The difference of each pair of variants; None where every pair contains the baseline."""
    if len(variants.names) < 3 or not comparisons.pairs:
        return None
    rows = [
        {"variant": a, "reference": b, **_end(variants, a), **_end(variants, b, "_other"), **_fields(comparison)}
        for (a, b), comparison in comparisons.pairs.items()
    ]
    names = [
        Column("variant", "_name", key=True, sort="_place", link="_runs"),
        Column("reference", "_other_name", key=True, sort="_other_place", link="_other_runs"),
    ]
    columns = (*names, *_columns(variants.metric, comparisons.pairs.values()))
    return Table("pairs", text("differences", "pairs_caption"), pd.DataFrame(rows, dtype=object), columns)


def compared_table(
    name: str, caption: str, compared: Mapping[str, PairedComparison], metric: Metric, notes: Sequence[str]
) -> Table:
    """One comparison for each variant."""
    rows = [{"variant": variant, "_runs": "", **_fields(comparison)} for variant, comparison in compared.items()]
    columns = (NAME, *_columns(metric, compared.values()))
    return Table(name, caption, pd.DataFrame(rows, dtype=object), columns, tuple(notes))


def _end(variants: Variants, variant: str, side: str = "") -> dict[str, object]:
    fields = variant_fields(variants, variant)
    return {side + name: fields[name] for name in ("_name", "_place", "_runs")}


def _fields(c: PairedComparison) -> dict[str, object]:
    needed = c.seeds_needed
    return {
        "n": c.n,
        "dropped": c.dropped,
        "_n": f"{c.n}" + (f" ({c.dropped})" if c.dropped else ""),
        "diff": c.diff,
        "p": c.p,
        "p_holm": c.p_holm,
        "tost_p": c.tost_p,
        "tost_p_holm": c.tost_p_holm,
        **verdict_fields(c),
        "paired_improvement": c.paired_improvement,
        "seed_correlation": c.seed_correlation,
        "detectable": c.detectable,
        "seeds_needed_low": needed and needed.low,
        "seeds_needed_high": needed and needed.high,
        "_needed": needed,
    }


def _won(share: Estimate) -> str:
    return f"{share.value * share.n:.3g} of {share.n}" if share.n else formatting.DASH


def _columns(metric: Metric, comparisons: Collection[PairedComparison]) -> tuple[Column, ...]:
    places = formatting.shared_places([c.diff for c in comparisons], metric)
    detectable = f"minimum detectable difference{metric.difference_unit}"
    note = {name: text("differences", name) for name in ("n_note", "won_note", "correlation_note")}
    details = (
        Column(f"{formatting.CONFIDENCE} CI", "diff", formatting.intervals_alone(metric)),
        Column("seed correlation", "seed_correlation", formatting.numbers(), note=note["correlation_note"]),
        Column(detectable, "detectable", formatting.numbers(places, metric.scale)),
        Column("seeds needed (80 % power)", "_needed", formatting.each(formatting.seeds_needed), "seeds_needed_low"),
    )
    return (
        Column("n", "_n", formatting.digits, sort="n", note=note["n_note"]),
        replace(signed_column(metric, "difference", "diff"), link="_runs"),
        Column("p (adjusted)", "p_holm", formatting.p_values),
        *[Column("equivalence p (adjusted)", "tost_p_holm", formatting.p_values)]
        * any(math.isfinite(c.tost_p) for c in comparisons),
        verdict_column(),
        Column("seeds won", "paired_improvement", formatting.each(_won), note=note["won_note"]),
        *(replace(column, detail=True) for column in details),
    )


def differences_plot(variants: Variants, comparisons: Comparisons, policy: Policy, styles: Styles) -> Plot | None:
    """Return the figure of the differences from the baseline; None where there is nothing to compare."""
    if not variants.others:
        return None
    grey = styles.some_grey
    caption = text("differences", "figure_caption", baseline=variants.baseline, policy=policy, some_grey=grey)
    return Plot("differences", figures.differences(variants, comparisons, styles), caption)
