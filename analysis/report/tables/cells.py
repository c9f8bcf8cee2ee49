"""The parts that tables share: cells for a variant, an estimate, a difference and a verdict, and common notes."""

from __future__ import annotations

import math
from functools import partial

from analysis import formatting
from analysis.report.render import Cell, Column
from analysis.report.text import text
from analysis.results.study_results import StudyResults
from analysis.stats import Comparison, Estimate
from experiments.metric import Metric

LONG_NAME = 24  # characters of the baseline's name from which a column head says "the baseline"


def anchor(results: StudyResults, variant: str) -> str:
    """Return the link to a variant's runs. It holds the variant's number, since the name is the user's text."""
    return results.variants.anchor(variant)


def counts_note(results: StudyResults) -> str:
    """Say how many runs finished, and name the runs that are excluded."""
    return text("conduct", "counts", conduct=results.conduct)


def baseline_name(results: StudyResults) -> str:
    """Return what the head of a column calls the baseline: its name, unless that is long or has commas."""
    name = results.variants.brief[results.study.baseline]
    return name if len(name) <= LONG_NAME and "," not in name else "the baseline"


def margin_text(results: StudyResults) -> str:
    """Return the study's equivalence margin with its unit: "1 point"."""
    return formatting.margin(results.study.metric, results.study.margin)


def points(metric: Metric) -> str:
    """Return what the head of a column of differences adds: ", points" or nothing."""
    return ", points" if metric.is_share else ""


def variant_columns(results: StudyResults) -> tuple[Column, ...]:
    """Return the columns that identify a variant: one for each factor of a grid, else one with its name."""
    if results.variants.levels is None:
        return (Column("variant", ("variant",), numeric=False, key=True),)
    first, *others = results.study.factors
    fields = [("variant", first), *((factor,) for factor in others)]
    names = [formatting.factor_name(factor, results.study.names) for factor in results.study.factors]
    return tuple(Column(name, each, numeric=False, key=True) for name, each in zip(names, fields))


def variant_cells(results: StudyResults, variant: str) -> tuple[Cell, ...]:
    """Return the cells under `variant_columns`; the first one links to the variant's runs."""
    grid, place = results.variants.levels, results.variants.names.index(variant)
    if grid is None:
        return (Cell(results.variants.brief[variant], (variant,), place, anchor(results, variant)),)
    first, *others = grid.loc[variant]
    return (
        Cell(first, (variant, first), place, anchor(results, variant)),
        *(Cell(level, (level,), place) for level in others),
    )


def count_cell(n: int) -> Cell:
    """Return a count of runs or seeds."""
    return Cell(str(n), (n,), n)


def estimate_column(metric: Metric, name: str, prefix: str = "") -> Column:
    """Return the column of a metric's mean."""
    return Column(f"{prefix}{metric.label}{metric.unit}", (name, f"{name}_low", f"{name}_high"))


def estimate_cell(estimate: Estimate, metric: Metric, href: str = "", mark: str = "") -> Cell:
    """Return a mean with its interval, cut at what the metric can be."""
    return interval_cell(estimate, metric, href, mark, limits=formatting.limits(metric))


def interval_cell(
    estimate: Estimate,
    metric: Metric,
    href: str = "",
    mark: str = "",
    signed: bool = False,
    limits: tuple[float, float] = formatting.UNBOUNDED,
) -> Cell:
    """Return an estimate with its interval; the cells of a column share their number of decimals."""
    fallback = 2 if metric.is_share else 4
    text = partial(formatting.with_interval, estimate, metric.scale, signed, fallback, limits)
    half = formatting.half_width(estimate) * metric.scale
    data = (estimate.value, estimate.low, estimate.high)
    return Cell(text(), data, estimate.value, href, mark, half, text)


def number_cell(value: float, scale: float, places: int, half: float = math.nan) -> Cell:
    """Return a number with fixed decimals; with `half` (as shown), the column shares its decimals as for intervals."""
    rounded = partial(formatting.number, value * scale)
    return Cell(rounded(places), (value,), value, half=half, rounded=rounded)


def p_cell(p: float, adjusted: float) -> Cell:
    """Return an adjusted p-value; the CSV has the unadjusted one as well."""
    return Cell(formatting.p_value(adjusted), (p, adjusted), adjusted)


def verdict_cell(compared: Comparison) -> Cell:
    """Return the verdict of a comparison, and whether it depends on diverged runs."""
    text = f"{compared.verdict} (depends on diverged runs)" if compared.depends_on_diverged else compared.verdict
    return Cell(text, (text,), mark=compared.verdict.replace(" ", "-"))


def difference_cell(compared: Comparison, metric: Metric, href: str = "") -> Cell:
    """Return a paired difference with its interval; empty for the baseline itself."""
    if compared.verdict == "baseline":
        return Cell("", (0.0, 0.0, 0.0), 0.0)
    return interval_cell(compared.diff, metric, href, signed=True)
