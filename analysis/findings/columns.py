"""How tables name variants and show comparisons and costs: fields of their frames, and the columns that show them."""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import pandas as pd

from analysis import words
from analysis.findings import Findings
from analysis.findings.variants import Variants
from analysis.verdicts import UNKNOWN, Comparison, Estimate
from analysis.verdicts.comparisons import NOT_TESTED
from analysis.verdicts.policy import Policy
from analysis.write.table import Column, Table
from experiments.metric import Metric

NAME = Column("variant", "variant", key=True)
"""The column of variants in a report on several studies, which has no table of runs."""
VERDICT = Column("verdict", "verdict", mark="_verdict_mark")
"""The column of verdicts, as `verdict_fields` makes them."""
LONG_NAME = 24  # characters of the baseline's name from which a column head says "the baseline"


def variant_fields(variants: Variants, variant: str) -> dict[str, object]:
    """The variant and its levels in a grid; `_name`, `_place` and `_runs`: its brief name, its order, its runs."""
    levels = {} if variants.levels is None else variants.levels.loc[variant].to_dict()
    place = {"_place": variants.names.index(variant), "_runs": variants.anchor(variant)}
    return {"variant": variant, **levels, "_name": variants.brief[variant], **place}


def variant_columns(variants: Variants) -> tuple[Column, ...]:
    """The columns that identify a variant: one for each factor of a grid, else one with its name."""
    columns = {"_name": "variant"} if variants.levels is None or variants.labelled else variants.factors
    shown = [Column(label, field, key=True, sort="_place", math=variants.labelled) for field, label in columns.items()]
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
    return Column(label, field, words.intervals(metric), link="_runs", detail=detail)


def signed_column(metric: Metric, label: str, field: str) -> Column:
    """The column of a difference with its interval."""
    return Column(f"{label}{metric.difference_unit}", field, words.intervals(metric, signed=True))


def verdict_fields(compared: Comparison) -> dict[str, object]:
    """The verdict, with the reason of one that is not tested, or whether it depends on diverged runs; its colour."""
    shown = compared.verdict + (f" (shown at {compared.shown_at} seeds)" if compared.shown_at else "")
    alone = f"finished runs alone: {compared.verdict_of_finished}" if compared.depends_on_failed else ""
    shown += f" ({compared.reason or alone})" if compared.reason or alone else ""
    return {"verdict": shown, "_verdict_mark": compared.verdict.replace(" ", "-")}


def difference_fields(compared: Comparison) -> dict[str, object]:
    """The difference with the interval of the pair alone, and the adjusted one, which tables show."""
    adjusted = compared.adjusted
    shown = UNKNOWN if compared.verdict == "baseline" else adjusted
    return {"diff": compared.diff, "adjusted_low": adjusted.low, "adjusted_high": adjusted.high, "_diff": shown}


def difference_column(policy: Policy, label: str = "difference") -> Column:
    """The column of differences with the interval of which the verdict is read."""
    shown = signed_column(policy.metric, f"{label} [interval]", "_diff")
    return replace(shown, sort="diff", note="mean over the seeds that both variants have" * (policy.unit == "seed"))


def n_fields(c: Comparison, policy: Policy) -> dict[str, int]:
    """How many seeds a comparison uses, or runs of each side."""
    return {"n": c.n} if policy.unit == "seed" else dict(zip(("n", "reference_n"), c.runs))


def pair_fields(c: Comparison, policy: Policy) -> dict[str, object]:
    """All that is known of a comparison; `_n`: how many seeds it uses, or runs of each side, and leaves out."""
    both = n_fields(c, policy)
    return {
        **both,
        "dropped": c.dropped,
        "_n": " and ".join(map(str, both.values())) + (f" ({c.dropped})" if c.dropped else ""),
        **difference_fields(c),
        "p": c.p,
        "p_adjusted": c.p_adjusted,
        **verdict_fields(c),
        "verdict_of_finished": c.verdict_of_finished,
        "standard_error": c.method,
        "detectable": c.detectable,
    }


def pair_columns(policy: Policy, comparisons: Collection[Comparison]) -> tuple[Column, ...]:
    """The columns beside the difference and its verdict: n, and the folded ones."""
    metric = policy.metric
    places = words.shared_places([c.adjusted for c in comparisons], metric)
    most = 1.0 if metric.is_share else math.inf
    detectable = f"minimum detectable difference{metric.difference_unit}"
    show = words.each(lambda s: "more than the scale" if s > most else words.number(s * metric.scale, places))
    method, n_note = "shared: from the spread of all variants; Welch: of both variants", "finished runs of each side"
    if policy.unit == "seed":
        method += "; paired: of the differences seed by seed"
        n_note = "seeds with a result for both variants; in brackets: seeds without"
    return (
        Column("n", "_n", words.digits, sort="n", note=n_note),
        Column("p (adjusted)", "p_adjusted", words.p_values, detail=True),
        Column("standard error", "standard_error", note=method, detail=True),
        Column(detectable, "detectable", show, detail=True),
    )


def held_for(findings: Findings) -> str:
    """For what the intervals of differences hold, as the end of a sentence."""
    pairs = "of variants" if findings.comparisons.pairs else "with the baseline"
    if findings.policy.strictness > 1:
        pairs += f" on all {findings.policy.strictness} datasets"
    factors = ", and for the factors with them" * findings.policy.has_grid
    return f"all pairs {pairs} together{factors}{', at the level of the planned look' * findings.policy.several_looks}"


def share_text(share: Estimate) -> str:
    """`20 % (0.5 to 72)`: a share with its interval."""
    if not math.isfinite(share.value):
        return words.DASH
    low, high = (words.number(100 * bound, 1) for bound in (share.low, share.high))
    return f"{words.number(100 * share.value, 0)} % ({low} to {high})"


def mark(variant: str, findings: Findings) -> str:
    """ "best" for the best mean of those that are tested, "tied" for one that a test does not show to be worse than it.

    "untested" for one that is not tested against the best.
    """
    best = findings.all_best
    if not best or not findings.variants.others or not findings.means.of(variant).n:
        return ""
    if variant in best:
        return "best"
    for pair, lost in (((variant, best[0]), "worse"), ((best[0], variant), "better")):
        compared = findings.comparisons.family.get(pair)
        if compared and compared.verdict != NOT_TESTED:
            return "tied" * (compared.verdict != lost)
    return "untested"


def mark_note(findings: Findings) -> str:
    """What the marks of `mark` mean."""
    marks = {mark(variant, findings) for variant in findings.variants.names}
    tested = ", of the variants that are tested" * bool(findings.comparisons.untested)
    within = words.margin(findings.policy.margin, findings.means.metric)
    equal = findings.all_best and findings.comparisons.with_verdict(findings.all_best[0], "equivalent")
    parts = {
        "best": f"Bold: the best mean{tested}.",
        "tied": f"†: {f'equivalent to it (within ±{within}), or ' if equal else ''}not shown to be worse.",
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
_WHOLE = ("params", "params_fixed", "peak_memory_bytes")


def cost_fields(cost: pd.DataFrame, variant: str, names: Iterable[str]) -> dict[str, object]:
    """A variant's costs with these names; whole numbers as such."""
    values = {name: float(cost.at[variant, name]) for name in names}
    return {n: int(v) if n in _WHOLE and math.isfinite(v) else v for n, v in values.items()}


def cost_columns(names: Iterable[str]) -> tuple[Column, ...]:
    """The columns of costs with these names."""
    shown = ((name, *COST[name]) for name in COST if name in names)
    return tuple(Column(label, name, words.each(show), note=note) for name, label, show, note in shown)
