"""How does each variant do? Its mean, its difference from the baseline, the verdict, and its cost."""

from collections.abc import Mapping
from dataclasses import replace

from analysis import words
from analysis.figures.forest import Forest, draw_forest
from analysis.figures.style import Plot
from analysis.findings import Findings, columns
from analysis.findings.rows import VariantRow
from analysis.write.document import Item, Section
from analysis.write.table import Bars, Column, Table
from experiments.errors import UserError

EARLY = (
    "Differences that an early look decides are too large on average (in simulations 1.1 to 2.4 times true differences "
    "of 1 to 2 standard deviations)."
)
ONLY_BY_MEAN = " The order is by mean only: the variants are not compared with each other."
MOST_DOTS = 1500  # runs up to which each has a dot
SHOWN_COST = ("params", "flops_per_image", "device_seconds")


def question(findings: Findings) -> Section:
    """The main table, which is the forest plot; the answer of a study of one variant."""
    table, several = variants_table(findings), bool(findings.variants.others)
    heading = "Results" if findings.factors.model is None else "Combinations"
    items: list[Item] = [table, *([forest_plot({"": findings})] if several else [])]
    return Section("result", heading, items, answer=[] if several else [_alone(findings)])


def forests(studies: Mapping[str, Findings]) -> dict[str, Forest]:
    """The differences of variants from the baseline, the best mean first: a forest plot for each study, by its title.

    Raises `UserError` where each study has only one variant.
    """
    several = {title: findings.as_typed for title, findings in studies.items() if findings.variants.others}
    if not several:
        raise UserError("figure: one variant has no differences to draw")
    return {title: next(iter(variants_table(findings).forests.values())) for title, findings in several.items()}


def forest_plot(studies: Mapping[str, Findings]) -> Plot:
    """The figure of `forests`, below each other. What its caption says is read from the first."""
    findings = next(findings for findings in studies.values() if findings.variants.others)
    variants, margin = findings.variants, findings.policy.margin
    within = words.margin(margin, findings.means.metric)
    band = "" if margin is None else f" Shaded band: equivalence margin, ±{within}."
    caption = (
        f"Differences from {variants.name(variants.baseline)} with {words.CONFIDENCE} intervals that hold for "
        f"{columns.held_for(findings)}.{band} Colour and shape of a marker: the verdict. Grey dots: runs, minus the "
        f"mean of {variants.name(variants.baseline)}."
    )
    return Plot("forest", lambda: draw_forest(forests(studies)), caption, beside=True)


def _alone(findings: Findings) -> str:
    """The answer of a study of one variant."""
    name, metric, unit = findings.variants.baseline, findings.means.metric, findings.policy.unit
    mean, label = findings.means.of(name), words.article(metric.label)
    if mean.n:
        percent, level = (" %" if metric.is_share else ""), (f", {words.CONFIDENCE} interval" if mean.n > 1 else "")
        shown = f"{words.with_interval(mean, metric)}{percent} ({words.plural(mean.n, unit)}{level})"
        more = " For more runs, train more seeds." if mean.n < 2 and unit == "seed" else ""
        return f"{words.quoted(name)} has {label} of {shown}. There is no other variant to compare it with.{more}"
    counts = findings.conduct.counts.loc[name]
    listed = ", ".join(f"{n} {status}" for status, n in counts.items() if n)
    return f"No run of {words.quoted(name)} has {label}. Its runs: {listed}."


def variants_table(findings: Findings) -> Table:
    """The main table, by mean, with a bar for each difference. It shows how many runs diverged where any did."""
    variants, policy, comparisons = findings.variants, findings.policy, findings.comparisons
    metric, divergence, rows = findings.means.metric, findings.conduct.divergence, findings.by_mean
    versus = [row.comparison for row in rows if row.variant != variants.baseline]
    rate_note = f"share of the ended runs, with the exact {words.CONFIDENCE} interval"
    right = f"right for all variants in at least {words.CONFIDENCE} of such studies"
    rank_note = f"the places that a variant can have, of {len(rows)}; {right}"
    n_note = f"finished runs, one for each {findings.counted}" if policy.unit == "seed" else "finished runs"
    counts = {row.mean.n for row in rows}
    n = Column("n", "mean.n", words.counts, "n", note=n_note, detail=len(counts) == 1)
    rate = Column("diverged", lambda row: divergence[row.variant], words.each(columns.share_text), "diverged")
    mean = replace(columns.mean_column(metric, findings), mark="mark")
    difference = columns.difference_column(policy, f"difference from {columns.baseline_name(variants)}")
    difference = replace(difference, link="anchor", bars=_bars(findings) if variants.others else None)
    rank = Column("rank", lambda row: words.places_range(row.rank), field="rank", note=rank_note)
    common, *details = columns.pair_columns(policy, versus)
    cost = columns.cost_columns(SHOWN_COST, detail=True)
    has_ranks = len(rows) > 2 and bool(comparisons.pairs)
    diverged = [replace(rate, note=rate_note)] if any(rate.value > 0 for rate in divergence.values()) else []
    ranks = [replace(rank, sort=lambda row: row.rank[0])] if has_ranks else []
    differs = policy.unit == "seed" and any(comparison.dropped for comparison in versus)
    shown = (
        *(n, *diverged, mean, difference, columns.VERDICT, *ranks),
        *([replace(common, label="n of both", detail=True)] if differs else []),
        *(*details, *cost),
    )
    fields = {column.field: column.value for column in (n, *diverged, mean)} | columns.DIFFERENCE
    fields |= {column.field: column.value for column in (columns.VERDICT, *ranks, *cost)}
    held = f"{columns.held_for(findings)} (pairs: {len(findings.pairs)})"
    order = f" Rank: {rank_note}." if has_ranks else ONLY_BY_MEAN if len(rows) > 2 else ""
    tested = f"Intervals of differences hold for {held}, and verdicts are read from them." if versus else ""
    early = EARLY if any(comparison.decided_early for comparison in versus) else ""
    lost = findings.conduct.counted if findings.conduct.excluded else ""
    notes = tuple(filter(None, (tested, early, lost)))
    same_n, several_n = f"n = {words.plural(max(counts), findings.counted)}", f"n: number of {findings.counted}s"
    seeds = same_n if len(counts) == 1 else several_n
    caption = f"{words.titled(metric)}: mean and {words.CONFIDENCE} interval; {seeds}. {columns.mark_note(findings)}"
    caption += (_how_to_read(findings) if versus else "") + order
    return columns.variant_table("variants", caption, findings, shown, notes, rows, fields)


def _how_to_read(findings: Findings) -> str:
    """What the bars, their colours and the band are."""
    variants, margin = findings.variants, findings.policy.margin
    verdicts = {comparison.verdict for comparison in findings.comparisons.versus.values()}
    decided = "“Better”, “worse”: the interval is on one side of zero, so chance is unlikely."
    parts = [
        f"Grey dots: runs, minus the mean of {variants.name(variants.baseline)}.",
        "" if margin is None else f"Shaded band: differences within ±{words.margin(margin, findings.means.metric)}.",
        decided * bool({"better", "worse"} & verdicts),
        "“Undecided”: these runs cannot tell." * ("not shown" in findings.comparisons.verdicts),
    ]
    return " " + " ".join(filter(None, parts))


def _bars(findings: Findings) -> Bars:
    """The bars of the differences from the baseline. Of very many runs there are no dots."""
    means, values = findings.means, findings.means.values
    few, base = values.count().sum() <= MOST_DOTS, means.of(findings.variants.baseline).value

    def runs(row: VariantRow) -> dict[str, float]:
        own = values[row.variant].dropna() if few else {}
        unit, metric = findings.policy.unit, means.metric
        return {f"{unit} {seed}: {words.value(value, metric)}": value - base for seed, value in own.items()}

    return columns.bars(findings.policy, findings.variants, runs)
