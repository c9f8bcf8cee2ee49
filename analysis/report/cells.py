"""The parts that tables share: a variant, an estimate, a difference, a verdict as cells; the foot. Results in, cells
out.
"""

from __future__ import annotations

import pandas as pd

from analysis import formatting
from analysis.report.render import Cell, Column
from analysis.results import Results
from analysis.stats import Comparison, Estimate

LONG_NAME = 24  # characters


NAMED = 6  # runs that a foot names before it only counts


def anchor(results: Results, variant: str) -> str:
    """Where in the page a variant's runs are listed. Made of its place, for its name is the user's."""
    return f"#runs-v{results.variants.index(variant)}"


def foot(results: Results) -> tuple[str, ...]:
    """How many runs are behind the numbers, and which are not."""
    study = results.study
    planned = study.runs[study.runs["status"] != "unplanned"]
    finished = len(study.of("finished"))
    lines = [f"{finished} of {len(planned)} planned runs finished."]
    for status, words in _NOT_IN_MEANS.items():
        runs = study.of(status)
        if len(runs):
            lines.append(f"{len(runs)} {words}: {_named(runs)}.")
    return (" ".join(lines),)


_NOT_IN_MEANS = {
    "diverged": "diverged (their loss became infinite or not a number; kept below, in no mean)",
    "pruned": "pruned (stopped early; kept below, in no mean)",
    "incomplete": "incomplete (not started or not ended; the sweep's command goes on)",
    "unreadable": "unreadable (their records were altered or damaged, and skipped as asked)",
    "unplanned": "in the folder but not in the plan (in no number)",
}


def baseline_name(results: Results) -> str:
    """What the head of a column calls the baseline: its name, unless that is long."""
    return results.study.baseline if len(results.study.baseline) <= LONG_NAME else "the baseline"


def margin_text(results: Results) -> str:
    """The study's margin as a reader counts it: "1 point"."""
    metric = results.study.metric
    value = f"{results.study.margin * metric.scale:g}"
    return f"{value} point{'s' * (value != '1')}" if metric.is_share else value


def variant_cell(results: Results, variant: str) -> Cell:
    """The variant's name, a link to its runs."""
    return Cell(variant, (variant,), results.variants.index(variant), anchor(results, variant))


def estimate_cell(estimate: Estimate, metric: str, href: str = "", mark: str = "") -> Cell:
    """A mean with its interval."""
    text = formatting.with_interval(estimate, metric.scale, fallback=2 if metric.is_share else 4)
    return Cell(text, (estimate.value, estimate.low, estimate.high), estimate.value, href, mark)


def number_cell(value: float, scale: float, places: int) -> Cell:
    return Cell(formatting.number(value * scale, places), (value,), value)


def verdict_cell(compared: Comparison) -> Cell:
    """The verdict's word."""
    return Cell(compared.verdict, (compared.verdict,), mark=compared.verdict.replace(" ", "-"))


def difference_cell(compared: Comparison, metric: str, href: str = "") -> Cell:
    """A paired difference with its interval; nothing for the baseline itself."""
    if compared.verdict == "baseline":
        return Cell("", (0.0, 0.0, 0.0), 0.0)
    diff = compared.diff
    text = formatting.with_interval(diff, metric.scale, signed=True, fallback=2 if metric.is_share else 4)
    return Cell(text, (diff.value, diff.low, diff.high), diff.value, href)


def estimate_column(metric: str, name: str) -> Column:
    return Column(f"{metric.label}{metric.unit}", (name, f"{name}_low", f"{name}_high"))


def points(metric: str) -> str:
    return ", points" if metric.is_share else ""


def mark(results: Results, variant: str) -> str:
    """Whether a variant is the best, or shown to be equivalent to it."""
    best = results.best is not None and results.mean(variant).value == results.mean(results.best).value
    return "best" if best else "equal" if variant in results.equal_to_best else ""


def _named(runs: pd.DataFrame) -> str:
    names = [
        f"{variant}, seed {seed}" if variant else run
        for run, variant, seed in zip(runs["run"], runs["variant"], runs["seed"])
    ]
    return "; ".join(names[:NAMED]) + (f"; and {len(names) - NAMED} more" if len(names) > NAMED else "")
