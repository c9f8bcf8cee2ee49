"""How tables show the fields of rows: names, means, comparisons, costs. What the fields hold is in `rows`."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

import pandas as pd

from analysis import words
from analysis.findings import Findings
from analysis.findings.policy import Policy
from analysis.findings.rows import VariantRow
from analysis.findings.variants import Variants
from analysis.runs.runs import in_order
from analysis.verdicts import UNKNOWN, Comparison, Estimate
from analysis.write.table import Bars, Column, Key, Table, Value
from experiments.metric import Metric

LONG_NAME = 24  # characters of the baseline's name from which a column head says "the baseline"


def key_columns(variants: Variants, row: str = "", link: bool = True) -> tuple[Column, ...]:
    """The columns that identify a variant: one for each factor of a grid, else one with its name.

    `row`: where a row has that of its variant, such as "a.". `link`: whether the first leads to the variant's runs.
    """
    columns = [Column("variant", f"{row}name", key=True, sort=f"{row}place", math=variants.labelled)]
    if variants.levels is not None and not variants.labelled:
        columns = [_level_column(factor, name, variants.levels, row) for factor, name in variants.factors.items()]
    return replace(columns[0], link=f"{row}anchor" if link else None), *columns[1:]


def _level_column(factor: str, name: str, levels: pd.DataFrame, row: str) -> Column:
    order, get = in_order(levels[factor]), _level(factor, row)
    return Column(name, get, key=True, sort=lambda row: order.index(get(row)))


def _level(factor: str, row: str = "") -> Callable[[Any], str]:
    levels = attrgetter(f"{row}levels")
    return lambda row: levels(row)[factor]


def variant_fields(variants: Variants) -> dict[Key, Value]:
    """The variant and, in a grid, its levels, for CSV."""
    factors = [] if variants.levels is None else list(variants.levels)
    return {"variant": "variant", **{("factor", factor): _level(factor) for factor in factors}}


def variant_table(
    name: str,
    caption: str,
    findings: Findings,
    columns: Iterable[Column],
    notes: tuple[str, ...] = (),
    rows: Sequence[VariantRow] | None = None,
    fields: Mapping[Key, Value] | None = None,
) -> Table:
    """A table with a row for each variant, or only `rows`. `fields`: of its CSV, by default those of the columns."""
    shown, variants = tuple(columns), findings.variants
    fields = {column.field: column.value for column in shown if column.field} if fields is None else fields
    fields, rows = {**variant_fields(variants), **fields}, findings.rows if rows is None else rows
    return Table(name, caption, rows, (*key_columns(variants), *shown), fields, notes)


def baseline_name(variants: Variants) -> str:
    """What the head of a column calls the baseline: its name, unless that is long."""
    name = variants.brief[variants.baseline]
    return "the baseline" if len(name) > LONG_NAME else variants.name(variants.baseline) if "," in name else name


def mean_column(metric: Metric, findings: Findings, detail: bool = False) -> Column:
    """The column of the means of a metric that some run has measured."""
    means, label = findings.means.by_metric[metric], f"{metric.label}{metric.unit}"
    shown = Column(label, lambda row: means[row.variant], words.intervals(metric), ("metric", metric), link="anchor")
    return replace(shown, detail=detail)


def signed_column(metric: Metric, label: str, value: Value, field: Key = "") -> Column:
    """The column of a difference with its interval."""
    return Column(f"{label}{metric.difference_unit}", value, words.intervals(metric, signed=True), field)


def verdict_text(compared: Comparison) -> str:
    """The verdict, with the reason of one that is not tested, or whether it depends on diverged runs."""
    shown = f"{compared.verdict} (shown at {compared.shown_at} seeds)" if compared.shown_at else compared.verdict
    alone = f"finished runs alone: {compared.verdict_of_finished}" if compared.depends_on_failed else ""
    return f"{shown} ({compared.reason or alone})" if compared.reason or alone else shown


def verdict_mark(verdict: str) -> str:
    """The mark of a verdict: its class in the style sheet."""
    return verdict.replace(" ", "-")


VERDICT = Column("verdict", lambda row: verdict_text(row.comparison), words.verdicts, "verdict")
VERDICT = replace(VERDICT, mark=lambda row: verdict_mark(row.comparison.verdict))
"""The column of verdicts, for rows with a `comparison`."""
DIFFERENCE: dict[Key, Value] = {
    "diff": "comparison.diff",
    "adjusted_low": "comparison.adjusted.low",
    "adjusted_high": "comparison.adjusted.high",
}
"""The difference with the interval of the pair alone, and the adjusted one, which tables show."""


def difference(row: Any) -> Estimate:
    """The difference as tables show it: none of the baseline from itself."""
    compared: Comparison = row.comparison
    return UNKNOWN if compared.verdict == "baseline" else compared.adjusted


def bars(policy: Policy, variants: Variants, runs: Value = lambda row: {}) -> Bars:
    """The bars of differences, of rows with a `comparison`; see `Bars`."""
    ends = ("better", "worse") if policy.metric.lower_is_better else ("worse", "better")
    zero, margin = variants.brief[variants.baseline], policy.margin
    return Bars(policy.metric, "comparison.adjusted", "comparison.verdict", runs, zero, ends, margin)


def difference_column(policy: Policy, label: str = "difference") -> Column:
    """The column of differences with the interval of which the verdict is read."""
    note = "mean over the seeds that both variants have" if policy.unit == "seed" else ""
    shown = signed_column(policy.metric, f"{label} [interval]", difference, "difference")
    return replace(shown, sort="comparison.diff", note=note)


def n_of(c: Comparison, policy: Policy) -> dict[str, int]:
    """How many seeds a comparison uses, or runs of each side."""
    return {"n": c.n} if policy.unit == "seed" else dict(zip(("n", "reference_n"), c.runs))


def pair_fields(policy: Policy) -> dict[Key, Value]:
    """All that is known of a comparison, for CSV."""
    sides: dict[Key, Value] = {"n": "comparison.n"}
    if policy.unit == "run":
        sides = {"n": lambda row: row.comparison.runs[0], "reference_n": lambda row: row.comparison.runs[1]}
    own = ("p", "p_adjusted", "verdict", "verdict_of_finished", "at_most", "detectable")
    rest: dict[Key, Value] = {name: f"comparison.{name}" for name in own}
    return {**sides, "dropped": "comparison.dropped", **DIFFERENCE, **rest, "verdict": VERDICT.value}


def pair_columns(policy: Policy, comparisons: Sequence[Comparison]) -> tuple[Column, ...]:
    """The columns beside the difference and its verdict: n, and the folded ones."""
    metric = policy.metric
    places = words.shared_places([c.adjusted for c in comparisons], metric)
    most = 1.0 if metric.is_share else math.inf

    def detectable(sizes: Sequence[float]) -> list[str]:
        shown = (words.number(size * metric.scale, places) for size in sizes)
        return ["more than the scale" if size > most else text for size, text in zip(sizes, shown)]

    def used(row: Any) -> str:
        c: Comparison = row.comparison
        return " and ".join(map(str, n_of(c, policy).values())) + (f" ({c.dropped})" if c.dropped else "")

    smallest, note = f"minimum detectable difference{metric.difference_unit}", "finished runs of each side"
    if policy.unit == "seed":
        note = "seeds with a result for both variants; in brackets: seeds without"
    return (
        Column("n", used, words.digits, sort=lambda row: n_of(row.comparison, policy)["n"], note=note),
        Column("p (adjusted)", "comparison.p_adjusted", words.p_values, "p", detail=True),
        Column(smallest, "comparison.detectable", detectable, "detectable", detail=True),
    )


def held_for(findings: Findings) -> str:
    """For what the intervals of differences hold, as the end of a sentence."""
    pairs = "of variants" if findings.comparisons.pairs else "with the baseline"
    if findings.policy.datasets > 1:
        pairs += f" on all {findings.policy.datasets} datasets"
    factors = ", and for the factors with them" if findings.policy.has_grid else ""
    look = ", at the level of the planned look" if len(findings.policy.looks.plan) > 1 else ""
    return f"all pairs {pairs} together{factors}{look}"


def share_text(share: Estimate) -> str:
    """`20 % (0.5 to 72)`: a share with its interval."""
    if not math.isfinite(share.value):
        return words.DASH
    low, high = (words.number(100 * bound, 1) for bound in (share.low, share.high))
    return f"{words.number(100 * share.value, 0)} % ({low} to {high})"


def mark_note(findings: Findings) -> str:
    """What the marks of the best means mean, see `rows.Mark`."""
    marks, best = {row.mark for row in findings.rows}, {*findings.all_best[:1]}
    tested = ", of the variants that are tested" if findings.comparisons.untested else ""
    has_equal = any(c.verdict == "equivalent" for pair, c in findings.comparisons.family.items() if best & {*pair})
    margin = words.margin(findings.policy.margin, findings.means.metric)
    equal = f"equivalent to it (within ±{margin}), or " * has_equal
    parts = {
        "best": f"Bold: the best mean{tested}.",
        "tied": f"†: {equal}not shown to be worse than it.",
        "untested": "‡: not compared with it.",
    }
    return " ".join(text for name, text in parts.items() if name in marks)


COST = {
    "params": ("parameters", words.count, "trainable values"),
    "params_fixed": ("fixed values", words.count, "position values that are not trained"),
    "flops_per_image": ("FLOPs/image", words.magnitude, "one forward pass; a multiply-add counts as two"),
    "device_seconds": ("device time (s/run)", lambda s: words.number(s, 2), "median over the variant's runs"),
    "images_per_second": ("images/s", words.magnitude, "training images over the time of an epoch with validation"),
    "peak_memory_bytes": (
        "peak memory",
        lambda size: f"{words.magnitude(size)}B" if math.isfinite(size) else words.DASH,
        "of the GPU; not measured on a CPU",
    ),
    "device_seconds_ratio": (
        "time relative to baseline",
        lambda ratio: f"× {ratio:.2f}" if math.isfinite(ratio) else words.DASH,
        "median of the ratios by seed, not the ratio of the medians; of seeds that both variants trained on the same "
        "hardware",
    ),
}
"""A cost -> the head of its column, how it is shown, and what it is."""


def cost_columns(names: Iterable[str], detail: bool = False) -> tuple[Column, ...]:
    """The columns of costs with these names."""

    def cost(name: str) -> Callable[[VariantRow], Any]:
        return lambda row: row.cost[name]

    return tuple(
        Column(label, cost(name), words.each(show), name, note=note, detail=detail)
        for name, (label, show, note) in COST.items()
        if name in names
    )
