"""Which variants differ? The differences from the baseline and of all pairs, and what they say."""

import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

import pandas as pd

from analysis import words
from analysis.figures import means as figures
from analysis.figures.style import Plot
from analysis.figures.styles import Styles
from analysis.findings import Findings, columns
from analysis.findings.variants import Variants
from analysis.runs.source_run import ENDED
from analysis.verdicts import Comparison
from analysis.verdicts.comparisons import CEILING, EQUAL, NEAR_CHANCE, NO_ROOM, NOT_TESTED
from analysis.verdicts.policy import Policy
from analysis.write.document import Section, present
from analysis.write.table import Column, Table
from experiments.metric import Metric

HEADING = "Differences from the baseline"
MOST_NAMED = 6  # variants with one verdict that a sentence names
MOST_IN_TABLE = 7  # variants of which the page has a table of all pairs; of more, it is only written as a file
MOST_RANKED = 3  # pairs that differ which the answer names
EARLY = (
    "Differences that an early look decides are too large on average (in simulations 1.1 to 2.4 times true differences "
    "of 1 to 2 standard deviations)."
)


def question(findings: Findings) -> Section | None:
    """The differences from the baseline and, unless there are too many, those of all pairs."""
    variants = findings.variants
    if not variants.others:
        return None
    whole, said = without_comparison(findings), against_baseline(findings)
    factorial = findings.factors.model is not None  # its effects are the answer
    pairs, many = pairs_table(findings), len(variants.names) > MOST_IN_TABLE
    items = present(_plot(findings), baseline_table(findings), None if many else pairs)
    frames = {"pairs": pairs.data} if pairs and many else {}
    if whole:
        return Section("differences", HEADING, items, answer=whole, frames=frames)
    answer = [" ".join(said) * (not factorial), " ".join(among_pairs(findings, factorial))]
    return Section("differences", HEADING, items, said * factorial, answer, frames=frames)


def _plot(findings: Findings) -> Plot:
    drawn = [variant for variant in findings.styles.drawn if variant != findings.variants.baseline]
    versus = {variant: findings.comparisons.versus[variant] for variant in drawn}
    return differences_plot({"": versus}, findings, findings.styles)


def differences_plot(panels: Mapping[str, Mapping[str, Comparison]], findings: Findings, styles: Styles) -> Plot:
    """The differences from the baseline, a panel for each title. What they share is read from `findings`."""
    variants, margin = findings.variants, findings.policy.margin
    axis = "the baseline" if "," in styles.names[variants.baseline] else styles.names[variants.baseline]
    band = "" if margin is None else f" Shaded band: equivalence margin, ±{words.margin(margin, variants.metric)}."
    caption = (
        f"Differences from {variants.name(variants.baseline)} with {words.CONFIDENCE} intervals that hold for "
        f"{columns.held_for(findings)}.{band} The shape of the marker shows the verdict.{styles.grey_note}"
    )
    return Plot("differences", lambda: figures.differences(panels, margin, axis, variants.metric, styles), caption)


def outcomes(compared: Mapping[str, Comparison], than: str, policy: Policy) -> list[str]:
    """A sentence for each verdict. `compared`: brief name of a variant -> its comparison with `than`."""
    metric, margin = policy.metric, words.margin(policy.margin, policy.metric)
    up, down = ("Lower", "Higher") if metric.lower_is_better else ("Higher", "Lower")
    heads = {
        "better": up,
        "worse": down,
        "equivalent": f"Equivalent, within ±{margin}",
        EQUAL: "Equal on all seeds, which does not exclude that other seeds fail",
        CEILING: "Both at the ceiling, at most one wrong image a run, so not called equivalent",
        NEAR_CHANCE: "Both near chance, so not called equivalent",
        "not shown": f"No difference is shown{', and no equivalence' * (policy.margin is not None)}",
    }
    first = {"better": f"{up} {metric.label} than {than}", "worse": f"{down} {metric.label} than {than}"}
    said = list[str]()
    for verdict, head in heads.items():
        if chosen := {name: one for name, one in compared.items() if one.verdict == verdict}:
            begin = head if said else first.get(verdict, f"Compared with {than}: {head[0].lower()}{head[1:]}")
            said.append(_outcome(begin, chosen, compared, metric))
    return said


def _outcome(head: str, chosen: Mapping[str, Comparison], compared: Mapping[str, Comparison], metric: Metric) -> str:
    """`Higher test accuracy than none: a by 2.1 points (95 % CI 1.0 to 3.2), b by ...`"""
    verdict, diffs = next(iter(chosen.values())).verdict, [one.diff for one in chosen.values()]
    differs, sizes = verdict in ("better", "worse"), words.points_range(diffs, metric)
    if len(chosen) > MOST_NAMED:
        largest = max(abs(diff.value) for diff in diffs)
        most = [name for name, one in chosen.items() if abs(one.diff.value) == largest]
        named = f" (most: {words.names(most)})" * (differs and len(most) <= MOST_RANKED)
        by = f", by {sizes}" * (differs or verdict == "not shown")
        return f"{head}: {len(chosen)} of {len(compared)} variants{by}{named}."
    if not differs:
        return f"{head}: {words.names(chosen)}{f' ({sizes})' * (verdict == 'not shown')}."
    places = words.shared_places([one.adjusted for one in compared.values()], metric)
    each = [
        f"{words.quoted(name)} by {words.points(one.diff, metric, places=places)} "
        f"({words.interval(one.adjusted, metric, places=places)}{', at an early look' * one.decided_early})"
        for name, one in chosen.items()
    ]
    return f"{head}: {', '.join(each)}."


def against_baseline(findings: Findings) -> list[str]:
    """How the variants compare with the baseline, and which were not tested and why."""
    variants, means = findings.variants, findings.means
    versus = {variants.brief[variant]: findings.comparisons.versus[variant] for variant in variants.others}
    tested = {name: c for name, c in versus.items() if c.verdict != NOT_TESTED}
    if not tested:
        return not_testable(findings)
    baseline = variants.name(variants.baseline)
    past = [f"{words.quoted(name)} (at {c.shown_at} seeds)" for name, c in tested.items() if c.shown_at]
    notes = {
        "Shown at an earlier look, but not at this one": ", ".join(past),
        "Shown by the finished runs alone": words.names(name for name, c in tested.items() if c.depends_on_failed),
    }
    said = outcomes(tested, f"{baseline} ({means.text(variants.baseline)})", findings.policy)
    return [*said, *(f"{head}: {names}." for head, names in notes.items() if names), *_not_tested(versus)]


def _not_tested(versus: Mapping[str, Comparison], than: str = "") -> list[str]:
    """A sentence for each reason. `versus`: brief name of a variant -> its comparison with the baseline."""
    reasons = {one.reason: [n for n, c in versus.items() if c.reason == one.reason] for one in versus.values()}
    return [f"Not tested{than} ({reason}): {words.names(names)}." for reason, names in reasons.items() if reason]


def among_pairs(findings: Findings, factorial: bool) -> list[str]:
    """What is shown of the pairs without the baseline (or of all, if `factorial`), and what these seeds can show."""
    variants, comparisons, metric = findings.variants, findings.comparisons, findings.means.metric
    if len(variants.others) > 1 and not comparisons.pairs:
        many = "With so many variants, pairs without the baseline are not compared."
        return [*[many] * (findings.study.plan.family == "all"), *limits(findings)]
    pairs = comparisons.pairs if factorial else comparisons.other_pairs
    tested = [compared for compared in pairs.values() if compared.verdict != NOT_TESTED]
    if not pairs:
        return limits(findings)
    shown = [(a, b) for a, b in comparisons.ranked if (a, b) in pairs or (b, a) in pairs]
    ranked = [f"{variants.name(a)} better than {variants.name(b)}" for a, b in shown]
    counts, untested = Counter(compared.verdict for compared in tested), len(pairs) - len(tested)
    reasons = dict.fromkeys(str(compared.reason) for compared in pairs.values() if compared.reason)
    unclear = [compared.diff for compared in tested if compared.verdict == "not shown"]
    listed = f" ({'; '.join(ranked)})" * (len(ranked) <= MOST_RANKED)
    none = "no difference is shown" if len(unclear) == len(tested) else f"{len(unclear)} not shown to differ"
    within = words.margin(variants.margin, metric)
    parts = [
        f"{len(ranked)} differ{'s' * (len(ranked) == 1)}{listed}" * bool(ranked),
        f"{counts['equivalent']} equivalent (within ±{within})" * bool(counts["equivalent"]),
        *(f"{counts[word]} {word}" for word in (EQUAL, *NO_ROOM) if counts[word]),
        f"{none} ({words.points_range(unclear, metric)})" if unclear else "",
        f"{untested} not tested ({'; '.join(reasons)})" * bool(untested),
    ]
    other = f"The other {len(pairs)} pairs" if len(pairs) > 1 else "The other pair"
    head = f"All {len(pairs)} pairs of combinations" if factorial else other
    return [f"{head}: {', '.join(filter(None, parts))}.", *limits(findings)]


def limits(findings: Findings) -> list[str]:
    """How large a difference must be for the seeds of the study to show it, of pairs of which nothing is shown."""
    metric, margin, comparisons = findings.means.metric, findings.policy.margin, findings.comparisons
    unclear = [c for c in comparisons.family.values() if c.verdict == c.verdict_of_finished == "not shown"]
    known = [c for c in unclear if math.isfinite(c.detectable)]
    if not known:
        return []
    seeds, size = words.seeds(c.n for c in known), words.margin(margin, metric)
    sizes = sorted(c.detectable * metric.scale for c in known if c.detectable < 1 or not metric.is_share)
    if not sizes:
        return [f"{seeds} are too few to see any difference there."]
    places = words.decimals(sizes[0])
    ends = " to ".join(dict.fromkeys(words.number(end, places) for end in (sizes[0], sizes[-1]))) + metric.points
    enough = 0 if margin is None else sum(c.detectable <= margin for c in known)
    if enough:
        return [f"With 80 % power, {seeds} see {size} in {enough} of {len(known)} pairs that are not shown to differ."]
    few = f"{seeds} are too few to see {size} there; they" if margin is not None else seeds
    missed = f"In {len(known) - len(sizes)} of {len(known)} such pairs they miss every difference."
    return [f"{few} see {ends}, with 80 % power.", *([missed] if len(sizes) < len(known) else [])]


def without_comparison(findings: Findings) -> list[str]:
    """The whole answer of a study in which nothing can be compared yet; else empty."""
    variants, means, looks = findings.variants, findings.means, findings.policy.looks
    if looks.waiting:
        ended, best = words.plural(len(looks.complete), "seed"), means.best
        name = f"{variants.name(best)} ({means.text(best)})" if best is not None else ""
        return [
            f"Nothing is tested yet: the first planned look is at {looks.next} seeds, and all runs of {ended} have "
            "ended. So no variant can be called better, worse or equivalent.",
            f"Best mean {means.metric.label} so far: {name}." * bool(name),
        ]
    return [] if findings.comparisons.verdicts - {"baseline", NOT_TESTED} else not_testable(findings)


def not_testable(findings: Findings) -> list[str]:
    """Why nothing is tested against the baseline, and what to do."""
    variants, means, baseline = findings.variants, findings.means, findings.variants.baseline
    name, metric = words.quoted(baseline), means.metric
    if not means.of(baseline).n:
        said = f"Nothing can be compared with the baseline {name}: no run of it has {words.article(metric.label)}."
        return [said, *_without_baseline(findings)]
    compared = {variants.brief[variant]: findings.comparisons.versus[variant] for variant in variants.others}
    reasons = {one.reason for one in compared.values()}
    said = " ".join(_not_tested(compared, f" against {name}"))
    if reasons <= {"one common seed", "no common seed"} and (known := [v for v in variants.others if means.of(v).n]):
        best = means.best if means.best in known else known[0]
        each = ", ".join(f"{words.quoted(variant)} {means.text(variant)}" for variant in (best, baseline))
        single = means.of(baseline).n == 1 or all(means.of(variant).n == 1 for variant in known)
        untested = f"With a single seed no statistical test against {name} is possible." if single else said
        said = f"{words.capital(metric.label)}: {each}. {untested}"
    if any(str(reason).startswith("failed runs") for reason in reasons):
        return [said, "Find out why runs failed before you train more seeds."]
    more = "For more runs, train more seeds: a test needs at least two, better five."
    return [said, *([more] if reasons != {"no spread over the seeds"} else [])]


def _without_baseline(findings: Findings) -> list[str]:
    """What to do where no run of the baseline has a result."""
    means, counts = findings.means, findings.conduct.counts.loc[findings.variants.baseline]
    if counts["finished"]:
        others = words.listing([name for name in means.by_metric if name != means.metric]) or "none"
        tested = " Runs that were trained with --test false have no test metrics." * means.metric.startswith("test/")
        return [f"More seeds will not help; choose another metric with --metric. The runs have {others}.{tested}"]
    if counts[list(ENDED)].sum() < counts.sum():
        return []
    known = sum(mean.n > 0 for mean in means.of_variants.values())
    advice = "choose another baseline" if known > 1 else f"find out why {'all ' * (not known)}runs failed"
    return [f"All runs of the baseline ({counts.sum()}) ended without a result. More seeds will not help; {advice}."]


def baseline_table(findings: Findings) -> Table:
    """The difference of each variant from the baseline."""
    variants, comparisons = findings.variants, findings.comparisons
    compared = {variant: comparisons.versus[variant] for variant in variants.others}
    rows = {variant: _fields(comparison) for variant, comparison in compared.items()}
    family = sum(c.tested for c in comparisons.family.values())
    note = f"Intervals hold for {columns.held_for(findings)} (pairs: {family}), and verdicts are read from them."
    early = any(comparison.decided_early for comparison in compared.values())
    caption = f"Differences from the baseline (variant − {variants.name(variants.baseline)}), over the seeds of both."
    notes, shown = (note, EARLY) if early else (note,), _columns(variants.metric, compared.values())
    return columns.variant_table("differences", caption, variants, rows, shown, notes)


def pairs_table(findings: Findings) -> Table | None:
    """The difference of each pair without the baseline; None where there is none. `baseline_table` has the others."""
    variants, others = findings.variants, findings.comparisons.other_pairs
    if not others:
        return None
    rows = [
        {"variant": a, "reference": b, **_end(variants, a), **_end(variants, b, "_other"), **_fields(comparison)}
        for (a, b), comparison in others.items()
    ]
    names = [
        Column("variant", "_name", key=True, sort="_place", link="_runs"),
        Column("reference", "_other_name", key=True, sort="_other_place", link="_other_runs"),
    ]
    caption = "Pairs of variants without the baseline (variant − reference), over the seeds that both have."
    shown = (*names, *_columns(variants.metric, others.values()))
    return Table("pairs", caption, pd.DataFrame(rows, dtype=object), shown)


def _end(variants: Variants, variant: str, side: str = "") -> dict[str, object]:
    fields = columns.variant_fields(variants, variant)
    return {side + name: fields[name] for name in ("_name", "_place", "_runs")}


def _fields(c: Comparison) -> dict[str, object]:
    return {
        "n": c.n,
        "dropped": c.dropped,
        "_n": f"{c.n}" + (f" ({c.dropped})" if c.dropped else ""),
        **columns.difference_fields(c),
        "p": c.p,
        "p_adjusted": c.p_adjusted,
        **columns.verdict_fields(c),
        "verdict_of_finished": c.verdict_of_finished,
        "standard_error": c.method,
        "detectable": c.detectable,
    }


def _columns(metric: Metric, comparisons: Collection[Comparison]) -> tuple[Column, ...]:
    places = words.shared_places([c.adjusted for c in comparisons], metric)
    most = 1.0 if metric.is_share else math.inf
    detectable = f"minimum detectable difference{metric.difference_unit}"
    show = words.each(lambda s: "more than the scale" if s > most else words.number(s * metric.scale, places))
    method = "shared: from the spread of all variants; Welch: of both variants; paired: of the differences seed by seed"
    n_note = "seeds with a result for both variants; in brackets: seeds without"
    return (
        Column("n", "_n", words.digits, sort="n", note=n_note),
        replace(columns.difference_column(metric), link="_runs"),
        columns.VERDICT,
        Column("p (adjusted)", "p_adjusted", words.p_values, detail=True),
        Column("standard error", "standard_error", note=method, detail=True),
        Column(detectable, "detectable", show, detail=True),
    )
