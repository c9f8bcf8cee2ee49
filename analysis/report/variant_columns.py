"""How tables name variants and show comparisons: the fields of their frames, and the columns that show them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from analysis import formatting
from analysis.report import formats
from analysis.report.table import Column, Table, estimate_fields
from analysis.results.variants import Variants
from analysis.stats import Comparison
from experiments.metric import Metric

NAME = Column("variant", formats.text("variant"), numeric=False, key=True)
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
    shown = [
        Column(label, formats.text(field), numeric=False, key=True, sort="_place") for field, label in columns.items()
    ]
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
    return Column(label, formats.interval(field, metric), sort=field, link="_runs", detail=detail)


def count_column(field: str = "n", note: str = "", label: str = "") -> Column:
    """A column of counts."""
    return Column(label or field, formats.count(field), sort=field, note=note)


def comparison_fields(compared: Comparison) -> dict[str, object]:
    """Difference and verdict, with whether it depends on diverged runs; `_mark` is the colour."""
    return {
        **estimate_fields("diff", compared.diff),
        "verdict": compared.verdict + " (depends on diverged runs)" * compared.depends_on_diverged,
        "_mark": compared.verdict.replace(" ", "-"),
        "_no_difference": compared.verdict == "baseline",
    }


def difference_column(metric: Metric, label: str, note: str = "") -> Column:
    """The column of a difference with its interval; empty for the baseline itself."""
    return replace(signed_column(metric, label, "diff", blank="_no_difference"), link="_runs", note=note)


def signed_column(metric: Metric, label: str, field: str, **fields: Any) -> Column:
    """The column of a difference; `fields`: those of its bounds, and of where it is blank, as in `formats.interval`."""
    show = formats.interval(field, metric, signed=True, **fields)
    return Column(f"{label}{metric.difference_unit}", show, sort=field)


def verdict_column() -> Column:
    """The column of verdicts."""
    return Column("verdict", formats.text("verdict"), numeric=False, mark="_mark")


def p_column(label: str, field: str) -> Column:
    """The column of an adjusted p-value."""
    return Column(label, formats.p(field), sort=field)


def share_text(value: float, low: float, high: float) -> str:
    """`20 % (0.5 to 72)`: a share with its interval."""
    if not math.isfinite(value):
        return formatting.DASH
    low_text, high_text = (formatting.number(100 * bound, 1) for bound in (low, high))
    return f"{formatting.number(100 * value, 0)} % ({low_text} to {high_text})"
