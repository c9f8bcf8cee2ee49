"""What does each variant cost? Parameters, FLOPs, time and memory."""

from analysis import words
from analysis.figures.style import Plot
from analysis.figures.values import draw_costs
from analysis.findings import Findings
from analysis.findings.columns import COST, cost_columns, variant_table
from analysis.write.document import Section, Warn, present
from analysis.write.table import Table

SLOW = 2.0  # a run is reported as slow from this multiple of the median of its variant on its hardware
DRAWN = ("params", "flops_per_image", "device_seconds")


def question(findings: Findings) -> Section | None:
    """The costs of all variants, and the metric against each cost that varies; nothing where no cost is known."""
    cost, means, styles = findings.cost, findings.means, findings.styles
    if cost.isna().all(axis=None):
        return None
    measured = cost.loc[[variant for variant in findings.variants.names if means.of(variant).n]]
    mixed = len(findings.conduct.hardware) > 1  # then times say more about the machine than about the variant
    sizes = measured[["params", "flops_per_image"]]
    equal = (sizes.max() <= 1.01 * sizes.min()).all()
    kinds = {n: COST[n][0] for n in DRAWN if measured[n].nunique() > 1 and not (mixed and n == "device_seconds")}
    caption = (
        f"{words.titled(means.metric)} against cost: mean and {words.CONFIDENCE} interval of each variant. "
        f"Marks at nearly the same cost are drawn side by side.{styles.note}"
    )
    plot = Plot("cost", lambda: draw_costs(measured, kinds, means.of_variants, means.metric, styles), caption)
    items = present(plot if kinds and not equal else None, cost_table(findings))
    return Section("cost", "Cost", items, warnings=_slow(findings))


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
