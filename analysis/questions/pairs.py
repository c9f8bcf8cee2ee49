"""Which variants differ? The differences from the baseline and of all pairs, and what they say."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from analysis import words
from analysis.findings import Findings, columns
from analysis.findings.rows import VariantRow
from analysis.verdicts import Comparison
from analysis.verdicts.comparisons import CEILING, NOT_TESTED
from analysis.write.document import Section, present
from analysis.write.table import Column, Key, Table, Value
from experiments.errors import first_few
from experiments.metric import Metric

HEADING, WITHOUT_PAIRS = "Other pairs, smallest difference", "Smallest difference"
MOST_IN_TABLE = 7  # variants of which the page has a table of all pairs; of more, it is only written as a file
MOST_LISTED = 3  # variants with a verdict that the answer names; of more, it says how many
MOST_INTERVALS = 2  # variants up to which the answer has the interval of each


def question(findings: Findings) -> Section | None:
    """The differences from the baseline and, unless there are too many, those of all pairs."""
    variants = findings.variants
    if not variants.others:
        return None
    whole = without_comparison(findings)
    factorial = findings.factors.model is not None  # its effects are the answer
    pairs, many = pairs_table(findings), len(variants.names) > MOST_IN_TABLE
    items = present(baseline_table(findings), triangle(findings) if pairs and many else pairs)
    frames = {"pairs": pairs.data} if pairs and many else {}
    if whole:
        return Section("differences", HEADING, items, answer=whole, frames=frames)
    against, best, more = against_baseline(findings), best_and_pairs(findings), limits(findings)
    decided = {"better", "worse"} & {comparison.verdict for comparison in findings.comparisons.versus.values()}
    answer = [against] * bool(decided or not factorial)
    answer += [best] * bool(findings.comparisons.ranked or not factorial)
    heading, texts = HEADING if pairs else WITHOUT_PAIRS, [more] * bool(more)
    return Section("differences", heading, items, texts, answer, frames=frames, title=title(findings))


def title(findings: Findings) -> str:
    """The finding in one line: how many variants are better than the baseline, else worse, by how much, and whether one
    is shown to be the best; else what is shown, if anything.
    """
    variants, metric, versus = findings.variants, findings.means.metric, findings.comparisons.versus
    places, base = _places(versus, metric), variants.name(variants.baseline)
    places = min(places, 1) if metric.is_share else places
    better, worse, equal = (
        [variant for variant in variants.others if versus[variant].verdict == verdict]
        for verdict in ("better", "worse", "equivalent")
    )
    if decided := better or worse:
        word, diffs = "better" if better else "worse", [versus[variant].diff for variant in decided]
        who = f"{len(decided)} of {len(variants.others)} variants {'is' if len(decided) == 1 else 'are'}"
        who = who if variants.others[1:] else f"{variants.name(decided[0])} is"
        said = f"{who} {word} than {base}, by {words.points_range(diffs, metric, places=places)}"
        said += f"; {len(worse)} {'is' if len(worse) == 1 else 'are'} worse" if better and worse else ""
        first = [row for row in findings.by_mean if row.rank and row.rank[0] == 1]
        best = [variants.name(row.variant) for row in first if row.mark in ("best", "tied")]
        if not variants.others[1:] or not best:
            return said
        return f"{said}; {f'{best[0]} is the best' if len(best) == 1 else 'no variant is shown to be the best'}"
    if equal:
        some = words.names(variants.brief[v] for v in equal) if len(equal) <= MOST_LISTED else f"{len(equal)} variants"
        verb, margin = "is" if len(equal) == 1 else "are", words.margin(findings.policy.margin, metric)
        return f"{words.capital(some)} {verb} equivalent to {base}, within ±{margin}"
    return f"No difference from {base} is shown" if "not shown" in findings.comparisons.verdicts else ""


def against_baseline(findings: Findings) -> str:
    """How the variants compare with the baseline, verdict by verdict, and which were not tested and why."""
    variants, metric = findings.variants, findings.means.metric
    by_mean = [row.variant for row in findings.by_mean if row.variant != variants.baseline]
    versus = {variants.brief[variant]: findings.comparisons.versus[variant] for variant in by_mean}
    if all(comparison.verdict == NOT_TESTED for comparison in versus.values()):
        return " ".join(not_testable(findings))
    up, down = ("lower", "higher") if metric.lower_is_better else ("higher", "lower")
    heads = {
        "better": up,
        "worse": down,
        "equivalent": f"equivalent within ±{words.margin(findings.policy.margin, metric)}",
        CEILING: "both at the ceiling, at most one wrong image a run",
        "not shown": "undecided",
    }
    parts = list[str]()
    for verdict, head in heads.items():
        if same := {name: comparison for name, comparison in versus.items() if comparison.verdict == verdict}:
            parts.append(f"{head}: {_sizes(verdict, same, versus, metric)}")
    baseline = f"{variants.name(variants.baseline)} ({findings.means.text(variants.baseline)})"
    if parts[0].startswith((f"{up}: ", f"{down}: ")):
        parts[0] = words.capital(parts[0].replace(":", f" {metric.label} than {baseline}:", 1))
    else:
        parts[0] = f"Compared with {baseline}, {parts[0]}"
    past = ", ".join(f"{words.quoted(name)} (at {c.shown_at} seeds)" for name, c in versus.items() if c.shown_at)
    alone = words.names(name for name, c in versus.items() if c.depends_on_failed and c.verdict != NOT_TESTED)
    parts += [f"shown at an earlier look, but not at this one: {past}"] if past else []
    parts += [f"shown by the finished runs alone: {alone}"] if alone else []
    return "; ".join([*parts, *_not_tested(versus)]) + "."


def _sizes(verdict: str, same: Mapping[str, Comparison], versus: Mapping[str, Comparison], metric: Metric) -> str:
    """The variants with one verdict: each with its difference, or how many."""
    places, diffs = _places(versus, metric), [*same.values()]
    differs, undecided = verdict in ("better", "worse"), verdict == "not shown"
    if len(same) > MOST_LISTED:
        counted = f"{len(same)} of {sum(comparison.verdict != NOT_TESTED for comparison in versus.values())} variants"
        spread = words.points_range([comparison.diff for comparison in diffs], metric, not differs, places)
        largest = max(abs(comparison.diff.value) for comparison in diffs)
        most = [name for name, comparison in same.items() if abs(comparison.diff.value) == largest]
        if differs:
            return f"{counted}, by {spread}{f' (most: {words.names(most)})' if len(most) <= MOST_LISTED else ''}"
        ends = min(c.adjusted.low for c in diffs), max(c.adjusted.high for c in diffs)
        low, high = (words.number(end * metric.scale, places, True) for end in ends)
        return f"{counted} (means {spread}, intervals from {low} to {high})" if undecided else counted
    if not (differs or undecided):
        return words.names(same)
    few = len(versus) <= MOST_INTERVALS
    sizes = [(words.quoted(name), _size(comparison, metric, places, few)) for name, comparison in same.items()]
    if undecided:
        return words.listing([f"{name} ({size})" for name, size in sizes])
    return ", ".join(f"{name} by {size}" for name, size in sizes)


def _places(comparisons: Mapping[Any, Comparison], metric: Metric) -> int:
    """The decimals that the differences share."""
    return words.shared_places([comparison.adjusted for comparison in comparisons.values()], metric)


def _size(comparison: Comparison, metric: Metric, places: int, interval: bool) -> str:
    """`1.41 points (95 % CI 0.46 to 2.36)`; of one that is not shown `+0.63 points, 95 % CI −0.04 to 1.29`."""
    signed = comparison.verdict == "not shown"
    size = words.points(comparison.diff, metric, signed, places)
    about = [words.interval(comparison.adjusted, metric, signed, places)] * interval
    about += ["at an early look"] * bool(comparison.decided_early)
    return ", ".join([size, *about]) if signed else size + f" ({', '.join(about)})" * bool(about)


def _not_tested(versus: Mapping[str, Comparison], than: str = "") -> list[str]:
    """A clause for each reason. `versus`: brief name of a variant -> its comparison with the baseline."""
    reasons = dict.fromkeys(comparison.reason for comparison in versus.values() if comparison.reason)
    names = {reason: words.names(name for name, c in versus.items() if c.reason == reason) for reason in reasons}
    return [f"not tested{than} ({reason}): {names[reason]}" for reason in reasons]


def best_and_pairs(findings: Findings) -> str:
    """Which variants can be the best, and what is shown of the pairs without the baseline; empty of two variants."""
    variants, comparisons = findings.variants, findings.comparisons
    if not comparisons.other_pairs:
        many = len(variants.others) > 1 and findings.study.plan.family == "all"
        return "With so many variants, pairs without the baseline are not compared." if many else ""
    untested = comparisons.untested
    first = [row for row in findings.by_mean if row.rank and row.rank[0] == 1]
    names = [variants.brief[row.variant] for row in first if row.mark in ("best", "tied")]
    best = [variants.brief[variant] for variant in findings.all_best]
    counted = f"{len(names)} of {len(variants.names) - len(untested)} variants"
    counted += f" (best mean: {words.names(best)})" * (len(best) <= MOST_LISTED)
    among = ", of the variants that are tested" if untested else ""
    head = f"Best{', or not shown to be worse than the best' if len(names) > 1 else ''}{among}: "
    named = [head + (words.names(names) if len(names) <= MOST_LISTED else counted)] * bool(names)
    return words.capital("; ".join([*named, *_all_pairs(findings), *_at_most(findings)])) + "."


def _at_most(findings: Findings) -> list[str]:
    """By how much two variants differ at most, where no pair is shown to differ; rounded up."""
    metric, pairs = findings.means.metric, findings.comparisons.family.values()
    if any(comparison.verdict not in ("not shown", "equivalent") for comparison in pairs):
        return []
    size = metric.scale * max(comparison.at_most for comparison in pairs)
    places = words.decimals(size)
    up = words.number(math.ceil(size * 10**places) / 10**places, places)
    return [f"any two of the {len(findings.variants.names)} differ by at most {up}{metric.points}"]


def _all_pairs(findings: Findings) -> list[str]:
    """How many of all pairs differ, are equivalent, undecided or not tested."""
    pairs = findings.comparisons.family.values()
    counts = Counter("differ" if c.verdict in ("better", "worse") else c.verdict for c in pairs)
    reasons = "; ".join(dict.fromkeys(str(comparison.reason) for comparison in pairs if comparison.reason))
    names = {"differ": "differs" if counts["differ"] == 1 else "differ", "equivalent": "equivalent", CEILING: CEILING}
    names |= {"not shown": "undecided", NOT_TESTED: f"{NOT_TESTED} ({reasons})"}
    parts = ", ".join(f"{counts[word]} {name}" for word, name in names.items() if counts[word])
    return [f"of all {words.plural(len(pairs), 'pair')}: {parts}"]


def limits(findings: Findings) -> str:
    """How large a difference such a study finds, and how many seeds the margin takes; empty if nothing is undecided.

    Both are those of the median of the undecided pairs, by the spread of its runs, which is itself uncertain.
    """
    metric, margin, unit = findings.means.metric, findings.policy.margin, findings.counted
    family = findings.comparisons.family.values()
    undecided = [c for c in family if math.isfinite(c.detectable) and c.verdict == c.verdict_of_finished == "not shown"]
    if not undecided:
        return ""
    median, often = sorted(undecided, key=lambda c: c.detectable)[(len(undecided) - 1) // 2], "in four of five studies"
    smallest = median.detectable
    if metric.is_share and smallest >= 1:
        seeds = words.seeds((n for c in undecided for n in c.runs), unit)
        return f"By the spread of these runs, {seeds} are too few to notice any difference {often}."
    size = words.number(smallest * metric.scale, words.decimals(smallest * metric.scale))
    said = f"By the spread of these runs, a difference of about {size}{metric.points} would be noticed {often}"
    if margin is None or smallest <= margin:
        return f"{said}."
    needed = float(f"{median.needed(margin):.2g}")
    return f"{said}; for {words.margin(margin, metric)}, it takes about {needed:,.0f} {unit}s of each variant."


def without_comparison(findings: Findings) -> list[str]:
    """The whole answer of a study in which nothing can be compared yet; else empty."""
    variants, means, looks = findings.variants, findings.means, findings.policy.looks
    if looks.waiting:
        ended, best = words.plural(len(looks.complete), "seed"), means.best
        name = f"{variants.name(best)} ({means.text(best)})" if best is not None else ""
        left = first_few(findings.conduct.excluded.get("incomplete", []), "; ")
        return [
            f"Nothing is tested yet: the first planned look is at {looks.next} seeds, and all runs of {ended} have "
            f"ended{f' (not ended: {left})' if left else ''}. So no variant can be called better, worse or equivalent.",
            (f"Best mean {means.metric.label} so far: {name}." if name else ""),
        ]
    return [] if findings.comparisons.verdicts - {"baseline", NOT_TESTED} else not_testable(findings)


def not_testable(findings: Findings) -> list[str]:
    """Why nothing is tested against the baseline."""
    variants, means, baseline = findings.variants, findings.means, findings.variants.baseline
    name, metric, counted = words.quoted(baseline), means.metric, findings.counted
    if not means.of(baseline).n:
        return [f"Nothing can be compared with the baseline {name}: no run of it has {words.article(metric.label)}."]
    compared = {variants.brief[variant]: findings.comparisons.versus[variant] for variant in variants.others}
    reasons = {comparison.reason for comparison in compared.values()}
    said = words.capital("; ".join(_not_tested(compared, f" against {name}"))) + "."
    few = {"one common seed", "no common seed", "one run", "no run"}
    if reasons <= few and (measured := [v for v in variants.others if means.of(v).n]):
        best = means.best if means.best in measured else measured[0]
        each = ", ".join(f"{words.quoted(variant)} {means.text(variant)}" for variant in (best, baseline))
        single = means.of(baseline).n == 1 or all(means.of(variant).n == 1 for variant in measured)
        untested = f"With a single {counted} no statistical test against {name} is possible." if single else said
        said = f"{words.titled(metric)}: {each}. {untested}"
    more = "For more runs, train more seeds" if counted == "seed" else "Train more runs of each variant"
    more += ": a test needs at least two, better five."
    return [said, *([more] if reasons <= few else [])]


def baseline_table(findings: Findings) -> Table:
    """The difference of each variant from the baseline: only a file, since the page has them with the means."""
    rows = [row for row in findings.rows if row.variant != findings.variants.baseline]
    fields = {**columns.variant_fields(findings.variants), **columns.pair_fields(findings.policy)}
    return Table("differences", "", rows, (), fields)


def triangle(findings: Findings) -> Table:
    """Every tested pair of many variants, by sign and colour: row minus column, the best mean first."""
    rows, names = [row for row in findings.by_mean if row.mean.n], findings.variants
    compared = {(pair.a.variant, pair.b.variant): pair.comparison for pair in findings.pairs}
    compared |= {(b, a): comparison.reversed for (a, b), comparison in compared.items()}
    metric, places = findings.means.metric, min(1, _places(compared, findings.means.metric))
    place = {row.variant: number for number, row in enumerate(rows)}

    def cell(other: VariantRow) -> Column:
        texts, marks, tips = dict[str, str](), dict[str, str](), dict[str, str]()
        for row in rows[: place[other.variant]]:
            if comparison := compared.get((row.variant, other.variant)):
                size = f"{words.with_interval(comparison.adjusted, metric, signed=True)}{metric.points}"
                texts[row.variant] = words.number(comparison.diff.value * metric.scale, places, True)
                marks[row.variant] = columns.verdict_mark(comparison.verdict)
                tips[row.variant] = f"{row.name} − {other.name}: {size}, {words.verdict(comparison.verdict)}"
        text, mark, tip = (lambda row, of=of: of.get(row.variant, "") for of in (texts, marks, tips))
        return Column(str(place[other.variant] + 1), text, note=other.name, mark=mark, tip=tip)

    equal = [p for p in findings.pairs if p.comparison.verdict == "equivalent"]
    texts = [f"{words.quoted(p.a.name)} and {words.quoted(p.b.name)}" for p in equal]
    caption = (
        f"All {len(findings.pairs)} pairs that are compared, row − column: ▲ better, ▼ worse, ■ equivalent, ● undecided"
    )
    caption += f". Equivalent: {first_few(texts, '; ')}." if texts else "; no two are shown to be equivalent."
    name = Column(
        "variant", lambda row: f"{place[row.variant] + 1} {names.brief[row.variant]}", key=True, link="anchor"
    )
    return Table("pairs", caption, rows, (name, *map(cell, rows[1:])), folded=True, listing=True)


def pairs_table(findings: Findings) -> Table | None:
    """The difference of each pair without the baseline; None where there is none."""
    rows = [row for row in findings.pairs if findings.variants.baseline not in (row.a.variant, row.b.variant)]
    if not rows:
        return None
    over = f", over the {findings.counted}s that both have" if findings.policy.unit == "seed" else ""
    caption = f"Pairs of variants without the baseline (variant − reference){over}."
    n, *details = columns.pair_columns(findings.policy, [row.comparison for row in rows])
    bars = replace(columns.bars(findings.policy, findings.variants), zero="reference")
    shown = (
        Column("variant", "a.name", key=True, sort="a.place", link="a.anchor"),
        Column("reference", "b.name", key=True, sort="b.place", link="b.anchor"),
        n,
        replace(columns.difference_column(findings.policy), link="a.anchor", bars=bars),
        columns.VERDICT,
        *details,
    )
    fields: dict[Key, Value] = {"variant": "a.variant", "reference": "b.variant"}
    return Table("pairs", caption, rows, shown, fields | columns.pair_fields(findings.policy))
