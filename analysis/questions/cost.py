"""What does each variant cost? Parameters, FLOPs, time and memory."""

from analysis.findings import Findings
from analysis.findings.columns import COST, cost_columns, variant_table
from analysis.write.document import Section, Warn
from analysis.write.table import Table

SLOW = 2.0  # a run is reported as slow from this multiple of the median of its variant on its hardware


def question(findings: Findings) -> Section | None:
    """The costs of all variants; nothing where no cost is known."""
    if findings.cost.isna().all(axis=None):
        return None
    return Section("cost", "Cost", [cost_table(findings)], warnings=_slow(findings))


def _slow(findings: Findings) -> list[Warn]:
    slowest = findings.cost["slowest"].dropna()
    if not slowest.max() > SLOW:
        return []
    times = f"{slowest.max():.1f} times the median of its variant"
    line = f"Times are uneven: one run of {findings.variants.name(str(slowest.idxmax()))} took {times}."
    return [Warn(line, "Tables have medians; accuracies are not affected.", "times")]


def cost_table(findings: Findings) -> Table:
    """The table of costs, one row for each variant."""
    caption = "Cost of each variant. Times are medians over the variant's runs."
    mixed = "The runs used several kinds of hardware: compare variants by the time relative to the baseline only."
    notes = (mixed,) if len(findings.conduct.hardware) > 1 else ()
    return variant_table("cost", caption, findings, cost_columns(COST), notes)
