"""How tables name variants and show comparisons: the fields of their frames, and the columns that show them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pandas as pd

from analysis import formatting
from analysis.report.table import Column, Table
from analysis.results.variants import Variants
from analysis.stats import UNKNOWN, Comparison, Estimate
from experiments.metric import Metric

NAME = Column("variant", "variant", key=True)
"""The column of variants in a report on several studies, which has no table of runs."""
LONG_NAME = 24  # characters of the baseline's name from which a column head says "the baseline"


def variant_fields(variants: Variants, variant: str) -> dict[str, object]:
    """The variant and its levels in a grid; `_name`, `_place` and `_runs` are what it is called, its order and its runs."""
    levels = {} if variants.levels is None else variants.levels.loc[variant].to_dict()
    place = {"_place": variants.names.index(variant), "_runs": variants.anchor(variant)}
    return {"variant": variant, **levels, "_name": variants.brief[variant], **place}


def variant_columns(variants: Variants) -> tuple[Column, ...]:
    """The columns that identify a variant: one for each factor of a grid, else one with its name."""
    columns = {"_name": "variant"} if variants.levels is None else variants.factors
    shown = [Column(label, field, key=True, sort="_place") for field, label in columns.items()]
    return (replace(shown[0], link="_runs"), *shown[1:])


def variant_table(
    name: str,
    caption: str,
    variants: Variants,
    rows: Mapping[str, Mapping[str, object]],
    columns: Iterable[Column],
    notes: tuple[str, ...] = (),
) -> Table:
    """A table with a row for each variant; `rows`: variant -> its data."""
    frame = pd.DataFrame([{**variant_fields(variants, variant), **row} for variant, row in rows.items()], dtype=object)
    return Table(name, caption, frame, (*variant_columns(variants), *columns), notes)


def baseline_name(variants: Variants) -> str:
    """What the head of a column calls the baseline: its name, unless that is long or has commas."""
    name = variants.brief[variants.baseline]
    return name if len(name) <= LONG_NAME and "," not in name else "the baseline"


def mean_column(metric: Metric, field: str, prefix: str = "", detail: bool = False) -> Column:
    """The column of a metric's mean."""
    label = f"{prefix}{metric.label}{metric.unit}"
    return Column(label, field, formatting.intervals(metric), link="_runs", detail=detail)


def signed_column(metric: Metric, label: str, field: str) -> Column:
    """The column of a difference with its interval."""
    return Column(f"{label}{metric.difference_unit}", field, formatting.intervals(metric, signed=True))


def verdict_fields(compared: Comparison, field: str = "verdict", word: str = "") -> dict[str, object]:
    """The verdict, or a `word` for it, with whether it depends on diverged runs; and its colour."""
    word = word or compared.verdict
    shown = word + " (depends on diverged runs)" * compared.depends_on_diverged
    return {field: shown, f"_{field}_mark": word.replace(" ", "-")}


def verdict_column(label: str = "verdict", field: str = "verdict") -> Column:
    """The column of verdicts, as `verdict_fields` makes them."""
    return Column(label, field, mark=f"_{field}_mark")


def shown_difference(compared: Comparison) -> Estimate:
    """The difference; none for the baseline itself."""
    return UNKNOWN if compared.verdict == "baseline" else compared.diff


def share_text(share: Estimate) -> str:
    """`20 % (0.5 to 72)`: a share with its interval."""
    if not math.isfinite(share.value):
        return formatting.DASH
    low, high = (formatting.number(100 * bound, 1) for bound in (share.low, share.high))
    return f"{formatting.number(100 * share.value, 0)} % ({low} to {high})"
