"""What each variant costs: parameters, FLOPs, time and memory."""

import math
from collections.abc import Iterable

import pandas as pd

from analysis import formatting
from analysis.answers.answer import Answer, Page
from analysis.answers.columns import variant_table
from analysis.answers.study_results import StudyResults
from analysis.figures.labels import Styles
from analysis.figures.points import against_cost
from analysis.figures.style import Plot
from analysis.formatting import DASH
from analysis.results.means import Means
from analysis.results.variants import Variants
from analysis.write.document import Section, present
from analysis.write.table import Column, Table
from analysis.write.text import text

_COLUMNS = {
    "params": ("parameters", formatting.count),
    "params_fixed": ("fixed values", formatting.count),
    "flops_per_image": ("FLOPs/image", formatting.magnitude),
    "device_seconds": ("device time (s/run)", lambda value: formatting.number(value, 2)),
    "images_per_second": ("images/s", formatting.magnitude),
    "peak_memory_bytes": ("peak memory", lambda v: f"{formatting.magnitude(v)}B" if math.isfinite(v) else DASH),
    "device_seconds_ratio": ("time relative to baseline", lambda v: f"× {v:.2f}" if math.isfinite(v) else DASH),
}
_DRAWN = ("params", "flops_per_image", "device_seconds")
_WHOLE = ("params", "params_fixed", "peak_memory_bytes")


def answer(results: StudyResults, page: Page) -> Answer:
    """The costs of all variants; nothing where no cost is known."""
    if results.cost.isna().all(axis=None):
        return Answer()
    return Answer(lambda: [cost_section(results.variants, results.cost, results.means, page.styles)])


def cost_section(variants: Variants, cost: pd.DataFrame, means: Means, styles: Styles) -> Section:
    """The costs of all variants, and the metric against each cost that varies."""
    drawn = cost.loc[[variant for variant in variants.names if means.of(variant).n]]
    kinds = {name: _COLUMNS[name][0] for name in _DRAWN if drawn[name].nunique() > 1}
    caption = text("cost", "figure_caption", metric=means.metric, some_grey=styles.some_grey)
    plot = Plot("cost", against_cost(drawn, kinds, means, styles), caption) if kinds else None
    return Section("cost", "Cost", present(plot, cost_table(variants, cost)))


def cost_table(variants: Variants, cost: pd.DataFrame) -> Table:
    """The table of costs, one row for each variant."""
    rows = {variant: cost_fields(cost, variant, _COLUMNS) for variant in variants.names}
    return variant_table("cost", text("cost", "caption"), variants, rows, cost_columns(_COLUMNS))


def cost_fields(cost: pd.DataFrame, variant: str, names: Iterable[str]) -> dict[str, object]:
    """A variant's costs with these names; whole numbers as such."""
    values = {name: float(cost.at[variant, name]) for name in names}
    return {n: int(v) if n in _WHOLE and math.isfinite(v) else v for n, v in values.items()}


def cost_columns(names: Iterable[str]) -> tuple[Column, ...]:
    """The columns of costs with these names."""
    return tuple(
        Column(label, name, formatting.each(show), note=text("cost", "note", name=name))
        for name, (label, show) in _COLUMNS.items()
        if name in names
    )
