"""How tables show the fields of rows: names, means, comparisons, costs. What the fields hold is in `rows`."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from analysis import words
from analysis.findings import Findings
from analysis.findings.rows import VariantRow
from analysis.findings.variants import Variants
from analysis.runs.settings import in_order
from analysis.verdicts import UNKNOWN, Comparison, Estimate
from analysis.verdicts.study import Policy
from analysis.write.table import Column, Key, Table, Value
from experiments.metric import Metric

LONG_NAME = 24  # characters of the baseline's name from which a column head says "the baseline"


def key_columns(variants: Variants, variant: Callable[[Any], str] = lambda row: row.variant) -> tuple[Column, ...]:
    """The columns that identify a variant: one for each factor of a grid, else one with its name; no links."""

    def place(row: Any) -> int:
        return variants.places[variant(row)]

    if variants.levels is None or variants.labelled:
        name = Column("variant", lambda row: variants.brief[variant(row)], key=True, sort=place)
        return (replace(name, math=variants.labelled),)
    return tuple(
        Column(name, _level(factor), key=True, sort=_place(in_order(variants.levels[factor]), factor))
        for factor, name in variants.factors.items()
    )


def _level(factor: str) -> Callable[[Any], str]:
    return lambda row: row.levels[factor]


def _place(order: Sequence[str], factor: str) -> Callable[[Any], int]:
    return lambda row: order.index(row.levels[factor])


def key_fields(variants: Variants) -> dict[Key, Value]:
    """The variant and, in a grid, its levels."""
    factors = [] if variants.levels is None else list(variants.levels)
    return {"variant": lambda row: row.variant, **{("factor", factor): _level(factor) for factor in factors}}


def linked(columns: Sequence[Column], variants: Variants) -> tuple[Column, ...]:
    """The columns, of which the first has a link to the variant's runs."""
    first, *others = columns
    return replace(first, link=runs_of(variants)), *others


def runs_of(variants: Variants) -> Callable[[Any], str]:
    """The link of a row to the runs of its variant."""
    return lambda row: variants.anchor(row.variant)


def variant_table(
    name: str,
    caption: str,
    findings: Findings,
    columns: Sequence[Column],
    notes: tuple[str, ...] = (),
    rows: Sequence[VariantRow] | None = None,
    fields: Mapping[Key, Value] | None = None,
) -> Table:
    """A table with a row for each variant, or only `rows`. `fields`: of its CSV, by default those of the columns."""
    if fields is None:
        fields = {column.field: column.value for column in columns if column.field}
    variants, rows = findings.variants, findings.rows if rows is None else rows
    shown = (*linked(key_columns(variants), variants), *columns)
    return Table(name, caption, rows, shown, {**key_fields(variants), **fields}, notes)


def baseline_name(variants: Variants) -> str:
    """What the head of a column calls the baseline: its name, unless that is long or has commas."""
    name = variants.brief[variants.baseline]
    return name if len(name) <= LONG_NAME and "," not in name else "the baseline"


def mean_column(metric: Metric, findings: Findings, detail: bool = False) -> Column:
    """The column of the means of a metric that some run has measured."""
    means, label = findings.means.by_metric[metric], f"{metric.label}{metric.unit}"
    shown = Column(label, lambda row: means[row.variant], words.intervals(metric), ("metric", metric), detail=detail)
    return replace(shown, link=runs_of(findings.variants))


def signed_column(metric: Metric, label: str, value: Value, field: Key = "") -> Column:
    """The column of a difference with its interval."""
    return Column(f"{label}{metric.difference_unit}", value, words.intervals(metric, signed=True), field)


def verdict_text(compared: Comparison) -> str:
    """The verdict, with the reason of one that is not tested, or whether it depends on diverged runs."""
    shown = f"{compared.verdict} (shown at {compared.shown_at} seeds)" if compared.shown_at else compared.verdict
    alone = f"finished runs alone: {compared.verdict_of_finished}" if compared.depends_on_failed else ""
    return f"{shown} ({compared.reason or alone})" if compared.reason or alone else shown


def verdict_mark(verdict: str) -> str:
    """The mark of a verdict, or of the outcome of a claim."""
    return verdict.replace(" ", "-")


VERDICT = Column("verdict", lambda row: verdict_text(row.comparison), field="verdict")
VERDICT = replace(VERDICT, mark=lambda row: verdict_mark(row.comparison.verdict))
"""The column of verdicts, for rows with a `comparison`."""
DIFFERENCE: dict[Key, Value] = {
    "diff": lambda row: row.comparison.diff,
    "adjusted_low": lambda row: row.comparison.adjusted.low,
    "adjusted_high": lambda row: row.comparison.adjusted.high,
}
"""The difference with the interval of the pair alone, and the adjusted one, which tables show."""


def difference(row: Any) -> Estimate:
    """The difference as tables show it: none of the baseline from itself."""
    compared: Comparison = row.comparison
    return UNKNOWN if compared.verdict == "baseline" else compared.adjusted


def difference_column(policy: Policy, label: str = "difference") -> Column:
    """The column of differences with the interval of which the verdict is read."""
    note = "mean over the seeds that both variants have" if policy.unit == "seed" else ""
    shown = signed_column(policy.metric, f"{label} [interval]", difference, "difference")
    return replace(shown, sort=DIFFERENCE["diff"], note=note)


def n_of(c: Comparison, policy: Policy) -> dict[str, int]:
    """How many seeds a comparison uses, or runs of each side."""
    return {"n": c.n} if policy.unit == "seed" else dict(zip(("n", "reference_n"), c.runs))


def pair_fields(policy: Policy) -> dict[Key, Value]:
    """All that is known of a comparison, for CSV."""

    def used(name: str) -> Callable[[Any], int]:
        return lambda row: n_of(row.comparison, policy)[name]

    return {
        **{name: used(name) for name in ("n", "reference_n")[: 1 if policy.unit == "seed" else 2]},
        "dropped": lambda row: row.comparison.dropped,
        **DIFFERENCE,
        "p": lambda row: row.comparison.p,
        "p_adjusted": lambda row: row.comparison.p_adjusted,
        "verdict": VERDICT.value,
        "verdict_of_finished": lambda row: row.comparison.verdict_of_finished,
        "detectable": lambda row: row.comparison.detectable,
    }


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

    fields = pair_fields(policy)
    n_note = "finished runs of each side"
    if policy.unit == "seed":
        n_note = "seeds with a result for both variants; in brackets: seeds without"
    smallest = f"minimum detectable difference{metric.difference_unit}"
    return (
        Column("n", used, words.digits, sort=fields["n"], note=n_note),
        Column("p (adjusted)", fields["p_adjusted"], words.p_values, "p", detail=True),
        Column(smallest, fields["detectable"], detectable, "detectable", detail=True),
    )


def held_for(findings: Findings) -> str:
    """For what the intervals of differences hold, as the end of a sentence."""
    pairs = "of variants" if findings.comparisons.pairs else "with the baseline"
    if findings.policy.strictness > 1:
        pairs += f" on all {findings.policy.strictness} datasets"
    factors = ", and for the factors with them" if findings.policy.has_grid else ""
    look = ", at the level of the planned look" if findings.policy.looks.several else ""
    return f"all pairs {pairs} together{factors}{look}"


def share_text(share: Estimate) -> str:
    """`20 % (0.5 to 72)`: a share with its interval."""
    if not math.isfinite(share.value):
        return words.DASH
    low, high = (words.number(100 * bound, 1) for bound in (share.low, share.high))
    return f"{words.number(100 * share.value, 0)} % ({low} to {high})"


def mark_note(findings: Findings) -> str:
    """What the marks of the best means mean, see `rows.Mark`."""
    marks, best = {row.mark for row in findings.rows}, findings.all_best
    tested = ", of the variants that are tested" if findings.comparisons.untested else ""
    equal = ""
    if best and findings.comparisons.with_verdict(best[0], "equivalent"):
        equal = f"equivalent to it (within ±{words.margin(findings.policy.margin, findings.means.metric)}), or "
    parts = {
        "best": f"Bold: the best mean{tested}.",
        "tied": f"†: {equal}not shown to be worse.",
        "untested": "‡: not tested against it.",
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

    shown = ((name, *COST[name]) for name in COST if name in names)
    return tuple(
        Column(label, cost(name), words.each(show), name, note=note, detail=detail) for name, label, show, note in shown
    )
