"""The parts that tables share: a variant, an estimate, a difference, a verdict as cells; the foot. Findings in, cells
out.
"""

from __future__ import annotations

import pandas as pd

from analysis import numbers
from analysis.findings import Findings
from analysis.render import Cell, Column
from analysis.stats import Comparison, Estimate

LONG_NAME = 24  # characters


NAMED = 6  # runs that a foot names before it only counts


def anchor(findings: Findings, variant: str) -> str:
    """Where in the page a variant's runs are listed. Made of its place, for its name is the user's."""
    return f"#runs-v{findings.variants.index(variant)}"


def foot(findings: Findings) -> tuple[str, ...]:
    """How many runs are behind the numbers, and which are not."""
    study = findings.study
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


def baseline_name(findings: Findings) -> str:
    """What the head of a column calls the baseline: its name, unless that is long."""
    return findings.study.baseline if len(findings.study.baseline) <= LONG_NAME else "the baseline"


def margin_text(findings: Findings) -> str:
    """The study's margin as a reader counts it: "1 point"."""
    metric = findings.study.metric
    value = f"{findings.study.margin * numbers.scale(metric):g}"
    return f"{value} point{'s' * (value != '1')}" if numbers.is_share(metric) else value


def variant_cell(findings: Findings, variant: str) -> Cell:
    """The variant's name, a link to its runs."""
    return Cell(variant, (variant,), findings.variants.index(variant), anchor(findings, variant))


def estimate_cell(estimate: Estimate, metric: str, href: str = "", mark: str = "") -> Cell:
    """A mean with its interval."""
    text = numbers.with_interval(estimate, numbers.scale(metric), fallback=2 if numbers.is_share(metric) else 4)
    return Cell(text, (estimate.value, estimate.low, estimate.high), estimate.value, href, mark)


def number_cell(value: float, scale: float, places: int) -> Cell:
    return Cell(numbers.number(value * scale, places), (value,), value)


def verdict_cell(compared: Comparison) -> Cell:
    """The verdict's word."""
    return Cell(compared.verdict, (compared.verdict,), mark=compared.verdict.replace(" ", "-"))


def difference_cell(compared: Comparison, metric: str, href: str = "") -> Cell:
    """A paired difference with its interval; nothing for the baseline itself."""
    if compared.verdict == "baseline":
        return Cell("", (0.0, 0.0, 0.0), 0.0)
    diff = compared.diff
    text = numbers.with_interval(
        diff, numbers.scale(metric), signed=True, fallback=2 if numbers.is_share(metric) else 4
    )
    return Cell(text, (diff.value, diff.low, diff.high), diff.value, href)


def estimate_column(metric: str, name: str) -> Column:
    return Column(f"{numbers.label(metric)}{numbers.unit(metric)}", (name, f"{name}_low", f"{name}_high"))


def points(metric: str) -> str:
    return ", points" if numbers.is_share(metric) else ""


def mark(findings: Findings, variant: str) -> str:
    """Whether a variant is the best, or shown to be equivalent to it."""
    best = findings.best is not None and findings.mean(variant).value == findings.mean(findings.best).value
    return "best" if best else "equal" if variant in findings.equal_to_best else ""


def _named(runs: pd.DataFrame) -> str:
    names = [
        f"{variant}, seed {seed}" if variant else run
        for run, variant, seed in zip(runs["run"], runs["variant"], runs["seed"])
    ]
    return "; ".join(names[:NAMED]) + (f"; and {len(names) - NAMED} more" if len(names) > NAMED else "")
