"""The parts that tables share: cells for a variant, an estimate, a difference and a verdict, and common notes."""

from __future__ import annotations

import math
from functools import partial

import pandas as pd

from analysis import formatting
from analysis.figures.labels import brief_names
from analysis.report.render import Cell, Column
from analysis.results.study_results import StudyResults
from analysis.stats import Comparison, Estimate
from experiments.metric import Metric

LONG_NAME = 24  # characters of the baseline's name from which a column head says "the baseline"
MOST_RUNS = 6  # excluded runs that a note names; the others are counted

_EXCLUDED = {
    "diverged": "diverged (infinite or undefined loss; excluded from means)",
    "pruned": "pruned (stopped early; excluded from means)",
    "incomplete": "incomplete (not started or not finished; the sweep's command resumes them)",
    "unreadable": "unreadable (changed or damaged records; skipped on request)",
    "unplanned": "in the folder but not in the plan (not used)",
}


def anchor(results: StudyResults, variant: str) -> str:
    """Return the link to a variant's runs. It holds the variant's number, since the name is the user's text."""
    return results.variants.anchor(variant)


def counts_note(results: StudyResults) -> str:
    """Say how many runs finished, and name the runs that are excluded."""
    study = results.study
    planned = study.runs[study.runs["status"] != "unplanned"]
    lines = [f"{len(study.of('finished'))} of {len(planned)} planned runs finished."]
    for status, words in _EXCLUDED.items():
        runs = study.of(status)
        if len(runs):
            lines.append(f"{len(runs)} {words}: {_named(runs)}.")
    return " ".join(lines)


def baseline_name(results: StudyResults) -> str:
    """Return what the head of a column calls the baseline: its name, unless that is long or has commas."""
    name = brief_names(results)[results.study.baseline]
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
        return (Cell(brief_names(results)[variant], (variant,), place, anchor(results, variant)),)
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


def mark(results: StudyResults, variant: str) -> str:
    """Return "equal" for a variant shown to be equivalent to the best, "best" for one that a test does not show to be worse.

    Without a test it is "". A verdict that depends on diverged runs shows nothing.
    """
    if results.best is None or not results.mean(variant).n:
        return ""
    if results.mean(variant).value == results.mean(results.best).value:
        return "best"
    if variant in results.comparisons.equivalent_to(results.best):
        return "equal"
    pair = results.comparisons.with_variant(results.best).get(variant)
    return "best" if pair and (pair.verdict == "not enough evidence" or pair.depends_on_diverged) else ""


def mark_note(results: StudyResults) -> str:
    """Explain the marks of `mark`."""
    if results.best is None:
        return ""
    if not results.comparisons.with_variant(results.best):
        return "Bold: highest mean." if not results.study.metric.lower_is_better else "Bold: lowest mean."
    bold = "Bold: the best mean, and every mean that is not shown to be worse than the best."
    return bold + (
        f" †: equivalent to the best (within ±{margin_text(results)})."
        if results.comparisons.equivalent_to(results.best)
        else ""
    )


def verdict_note(results: StudyResults) -> str:
    """Explain the column of verdicts in one sentence; empty where there is nothing to compare."""
    if not results.others:
        return ""
    depends = any(compared.depends_on_diverged for compared in results.versus.values())
    half = " and multiplied by 2 (pairs and factors share the 5 %)" if results.factorial is not None else ""
    return (
        f"Verdict: paired t test and equivalence test (within ±{margin_text(results)}) against {formatting.quoted(results.study.baseline)}, "
        f"Holm-adjusted over all pairs {'of variants' if results.pairs else 'with the baseline'}{half}{' and for the planned looks' * bool(results.policy.plan)}, alpha = 5 %."
        + (
            " Depends on diverged runs: the verdict changes if diverged runs are counted at chance level."
            if depends
            else ""
        )
    )


def _named(runs: pd.DataFrame) -> str:
    names = [
        f"{variant}, seed {seed}" if variant else run
        for run, variant, seed in zip(runs["run"], runs["variant"], runs["seed"])
    ]
    return "; ".join(names[:MOST_RUNS]) + (f"; and {len(names) - MOST_RUNS} more" if len(names) > MOST_RUNS else "")
