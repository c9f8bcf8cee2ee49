"""Differences between variants, with every statistic that belongs to them."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import pandas as pd

from analysis import formatting
from analysis.answers.answer import Answer, Page
from analysis.answers.columns import (
    FEWEST_LETTERS,
    NAME,
    VERDICT,
    difference_column,
    difference_fields,
    variant_fields,
    variant_table,
    verdict_fields,
)
from analysis.answers.pairs.headline import against_baseline
from analysis.answers.study_results import StudyResults
from analysis.figures import means as figures
from analysis.figures.style import Plot
from analysis.results.policy import Comparisons, Policy
from analysis.results.variants import Variants
from analysis.stats import PairedComparison
from analysis.write.document import Section, present
from analysis.write.table import Column, Table
from analysis.write.text import text
from experiments.metric import Metric


def baseline_table(variants: Variants, comparisons: Comparisons, policy: Policy) -> Table:
    """The difference of each variant from the baseline."""
    compared = {variant: comparisons.versus[variant] for variant in variants.others}
    rows = {variant: _fields(comparison) for variant, comparison in compared.items()}
    family = sum(math.isfinite(c.p_adjusted) for c in (comparisons.pairs or compared).values())
    slots = {"policy": policy, "family": family, "all_pairs": bool(comparisons.pairs)}
    note = text("differences", "notes", compared=list(compared.values()), **slots)
    caption = text("differences", "baseline_caption", baseline=variants.baseline)
    return variant_table("differences", caption, variants, rows, _columns(variants.metric, compared.values()), (note,))


def pairs_table(variants: Variants, comparisons: Comparisons) -> Table | None:
    """The difference of each pair without the baseline; None where there is none. `baseline_table` has the others."""
    if not comparisons.other_pairs:
        return None
    rows = [
        {"variant": a, "reference": b, **_end(variants, a), **_end(variants, b, "_other"), **_fields(comparison)}
        for (a, b), comparison in comparisons.other_pairs.items()
    ]
    names = [
        Column("variant", "_name", key=True, sort="_place", link="_runs"),
        Column("reference", "_other_name", key=True, sort="_other_place", link="_other_runs"),
    ]
    columns = (*names, *_columns(variants.metric, comparisons.other_pairs.values()))
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
    return {
        "n": c.n,
        "dropped": c.dropped,
        "_n": f"{c.n}" + (f" ({c.dropped})" if c.dropped else ""),
        **difference_fields(c),
        "p": c.p,
        "p_adjusted": c.p_adjusted,
        **verdict_fields(c),
        "verdict_of_finished": c.verdict_of_finished,
        "standard_error": c.method,
        "detectable": c.detectable,
    }


def _columns(metric: Metric, comparisons: Collection[PairedComparison]) -> tuple[Column, ...]:
    places = formatting.shared_places([c.adjusted for c in comparisons], metric)
    difference = difference_column(metric)
    most = 1.0 if metric.is_share else math.inf
    detectable = f"minimum detectable difference{metric.difference_unit}"
    detectable_text = formatting.each(
        lambda size: "more than the scale" if size > most else formatting.number(size * metric.scale, places)
    )
    details = (
        Column("p (adjusted)", "p_adjusted", formatting.p_values),
        Column("standard error", "standard_error", note=text("differences", "method_note")),
        Column(detectable, "detectable", detectable_text),
    )
    return (
        Column("n", "_n", formatting.digits, sort="n", note=text("differences", "n_note")),
        replace(difference, link="_runs"),
        VERDICT,
        *(replace(column, detail=True) for column in details),
    )


def answer(results: StudyResults, page: Page) -> Answer:
    """The differences from the baseline and, unless there are too many, those of all pairs."""
    variants, comparisons, policy = results.variants, results.comparisons, results.policy
    in_letters = len(variants.names) >= FEWEST_LETTERS  # then the table of pairs is only written as a file

    def sections() -> list[Section]:
        if not variants.others:
            return []
        slots = {"baseline": variants.baseline, "policy": policy, "some_grey": page.styles.some_grey}
        figure = figures.differences(variants, comparisons, page.styles)
        plot = Plot("differences", figure, text("differences", "figure_caption", **slots))
        pairs = None if in_letters else pairs_table(variants, comparisons)
        items = present(plot, baseline_table(variants, comparisons, policy), pairs)
        return [Section("differences", "Differences from the baseline", items)]

    pairs = pairs_table(variants, comparisons) if in_letters else None
    return Answer(sections, against_baseline(results), frames={"pairs": pairs.data} if pairs else {})
