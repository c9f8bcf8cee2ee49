"""How does each variant do? Its mean, its difference from the baseline, the verdict, and its cost."""

from dataclasses import replace

from analysis import words
from analysis.figures import means as figures
from analysis.figures.style import Plot
from analysis.findings import Findings, columns
from analysis.write.document import Item, Section
from analysis.write.table import Column, Table
from experiments.errors import MOST_NAMED

EARLY = (
    "Differences that an early look decides are too large on average (in simulations 1.1 to 2.4 times true differences "
    "of 1 to 2 standard deviations)."
)
SHOWN_COST = ("params", "flops_per_image", "device_seconds")


def question(findings: Findings) -> Section:
    """The main table and figure; the answer of a study of one variant."""
    means, metric, styles = findings.means, findings.means.metric, findings.styles
    diverged = findings.conduct.counts["diverged"].to_dict()
    each = f", one for each {findings.counted}" if findings.policy.unit == "seed" else ""
    caption = (
        f"{words.titled(metric)} of each variant. Dots: runs{each}. Diamond and bar: mean and "
        f"{words.CONFIDENCE} interval."
    )
    shown = {variant: means.values[variant] for variant in styles.drawn}, means.of_variants, metric
    if figures.enlarged(*shown):
        caption += " The second panel shows most variants on a shorter axis."
    plot = Plot(
        "accuracy", lambda: figures.accuracy(*shown, styles, diverged, findings.policy.unit), caption + styles.grey_note
    )
    heading = "Results" if findings.factors.model is None else "Combinations"
    items: list[Item] = [variants_table(findings), plot]
    if findings.variants.others:
        return Section("result", heading, items, paragraphs=best_mean(findings), answer=_targets(findings))
    return Section("result", heading, items, answer=[_alone(findings), *_targets(findings)])


def best_mean(findings: Findings) -> list[str]:
    """Which variant has the best mean, and of how many others it is shown to be better."""
    variants, means, comparisons = findings.variants, findings.means, findings.comparisons
    if not (best := findings.all_best):
        return []
    brief = [variants.brief[variant] for variant in best]
    named = words.names(brief) if len(brief) <= MOST_NAMED else f"{len(brief)} variants"
    count = sum(better == best[0] for better, _ in comparisons.ranked)
    others = len(variants.names) - len(comparisons.untested) - 1
    beaten = (
        f", {f'shown to be better than {count}' if count else 'not shown to be better than any'} of the {others} others"
        if others > 1
        else ""
    )
    above = [variants.brief[better] for better, worse in comparisons.ranked if worse == best[0]]
    on = f" on the {findings.counted}s that both have" if findings.policy.unit == "seed" else ""
    lost = [f"Shown to be better{on}: {words.names(above)}."] if above else []
    alone = len(best) == 1 and bool(comparisons.pairs)
    label = means.metric.label + (" of the variants that are tested" if comparisons.untested else "")
    return [" ".join([f"Best mean {label}: {named} ({means.text(best[0])}){beaten * alone}.", *lost])]


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


def _targets(findings: Findings) -> list[str]:
    """Which variants reach the target, which are not shown to, and which were not tested and why."""
    if not findings.targets:
        return []
    said = f"{words.titled(findings.means.metric)} {words.target(findings.asked.target or 0.0, findings.means.metric)}"
    parts: dict[str, list[str]] = {said: []}
    for variant, one in findings.targets.items():
        p = words.p_value(one.p)
        part = f"not tested ({one.reason})" if one.reason else said if one.shown else "not shown"
        shown = "" if one.reason else f" (p {p if p.startswith('<') else f'= {p}'})"
        parts.setdefault(part, []).append(f"{words.quoted(findings.variants.brief[variant])}{shown}")
    few = {part: words.listing(of or ["shown for no variant"]) for part, of in parts.items() if len(of) <= MOST_NAMED}
    return ["; ".join(f"{part}: {few.get(part, f'{len(of)} variants')}" for part, of in parts.items()) + "."]


def variants_table(findings: Findings) -> Table:
    """The main table. It shows how many runs diverged where any did."""
    variants, policy, comparisons = findings.variants, findings.policy, findings.comparisons
    metric, divergence, rows = variants.metric, findings.conduct.divergence, findings.rows
    versus = [row.comparison for row in rows if row.variant != variants.baseline]
    rate_note = f"share of the ended runs, with the exact {words.CONFIDENCE} interval"
    right = f"in at least {words.CONFIDENCE} of such studies, all are right"
    rank_note = f"the places that the variant can have, of {len(rows)}; {right}"
    n_note = f"finished runs, one for each {findings.counted}" if policy.unit == "seed" else "finished runs"
    n = Column("n", "mean.n", words.counts, "n", note=n_note)
    rate = Column("diverged", lambda row: divergence[row.variant], words.each(columns.share_text), "diverged")
    mean = replace(columns.mean_column(metric, findings), mark="mark")
    difference = columns.difference_column(policy, f"difference from {columns.baseline_name(variants)}")
    rank = Column("rank", lambda row: words.places_range(row.rank), field="rank", note=rank_note)
    common, *details = columns.pair_columns(policy, versus)
    cost = columns.cost_columns(SHOWN_COST, detail=True)
    has_ranks = len(rows) > 2 and bool(comparisons.pairs)
    diverged = [replace(rate, note=rate_note)] if any(rate.value > 0 for rate in divergence.values()) else []
    ranks = [replace(rank, sort=lambda row: row.rank[0])] if has_ranks else []
    differs = policy.unit == "seed" and any(one.dropped for one in versus)
    targets = [columns.target_column(findings)] if findings.targets else []
    shown = (
        *(n, *diverged, mean, *targets, replace(difference, link="anchor"), columns.VERDICT, *ranks),
        *([replace(common, label="n of both", detail=True)] if differs else []),
        *(*details, *cost),
    )
    fields = {column.field: column.value for column in (n, *diverged, mean, *targets)} | columns.DIFFERENCE
    fields |= {column.field: column.value for column in (columns.VERDICT, *columns.by_columns(policy), *ranks, *cost)}
    held = f"{columns.held_for(findings)} (pairs: {len(findings.pairs)})"
    notes = (
        f"Rank: {rank_note}." if has_ranks else "",
        *(f"{column.label}: {column.note}." for column in targets),
        columns.mark_note(findings),
        f"Intervals of differences hold for {held}, and verdicts are read from them." if versus else "",
        EARLY if any(one.decided_early for one in versus) else "",
        findings.conduct.counted,
    )
    caption = f"{words.titled(metric)} of each variant: mean and {words.CONFIDENCE} confidence interval."
    caption += f" n: number of {findings.counted}s. Differences are computed before rounding."
    return columns.variant_table("variants", caption, findings, shown, tuple(filter(None, notes)), fields=fields)
