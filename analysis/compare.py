"""Two studies side by side: the same variants at two commits, two scales, two datasets. Findings in, a document out; no
file.
"""

from __future__ import annotations

from dataclasses import dataclass

from analysis import cells, drawing, numbers, sections, stats
from analysis.answer import names
from analysis.comparisons import paired, verdicts
from analysis.drawing import Plot
from analysis.findings import ALPHA, Findings
from analysis.render import Cell, Column, Table
from analysis.sections import Document, Item, Section
from experiments.errors import UserError

WORDS = {1.0: "higher", -1.0: "lower", 0.0: "equivalent"}


@dataclass(frozen=True)
class Change:
    """A variant in both studies: B less A, paired by seed, and the word for it."""

    variant: str
    diff: stats.Estimate
    dropped: int
    p_holm: float
    word: str


def compare_document(a: Findings, b: Findings, command: str) -> Document:
    """The report on studies A and B, which `command` makes.

    Raises `UserError` where they share no variant or do not measure the same.
    """
    if a.study.metric != b.study.metric:
        raise UserError(
            f"compare: {a.study.name} measures {a.study.metric}, {b.study.name} measures {b.study.metric}; they "
            "cannot be compared"
        )
    shared = [variant for variant in a.variants if variant in b.variants]
    if not shared:
        raise UserError(f"compare: {a.study.name} and {b.study.name} share no variant")
    found = changes(a, b, shared)
    drawn = _plot(a, b, shared)
    said = [
        Section("result", "Result", [Item("table", table=_result(a, b, found)), Item("plot", plot=drawn)]),
        Section("verdicts", "Verdicts against the baseline", [Item("table", table=_verdicts(a, b, shared))]),
        Section("settings", "What differs between the studies", [Item("facts", facts=tuple(_settings(a, b)))]),
        Section("methods", "Methods", paragraphs=_methods(a, b)),
        *_of("A", a),
        *_of("B", b),
        Section("reproduce", "Reproduce", [Item("code", text=command)]),
    ]
    return Document(
        title=f"{a.study.name} (A) and {b.study.name} (B), side by side: {numbers.label(a.study.metric)}",
        description="",
        summary=f"A: {sections.summary(a)} B: {sections.summary(b)}",
        answer=_answer(a, b, found, shared),
        warnings=[f"{name}: {warning}" for name, each in (("A", a), ("B", b)) for warning in sections.warnings(each)],
        sections=said,
        plots=[drawn],
    )


def changes(a: Findings, b: Findings, shared: list[str]) -> list[Change]:
    """B less A for each shared variant, over the seeds that both have; the variants are the family of Holm's
    adjustment.
    """
    values = {("A", v): a.values[v] for v in shared} | {("B", v): b.values[v] for v in shared}
    later, earlier, dropped = paired(values, [(("B", v), ("A", v)) for v in shared])
    diffs = later - earlier
    p_holm, _, signs = verdicts(diffs, a.study.margin, ALPHA)
    return [
        Change(variant, stats.mean(row), int(lost), float(p), WORDS.get(float(sign), "not enough evidence"))
        for variant, row, lost, p, sign in zip(shared, diffs, dropped, p_holm, signs)
    ]


def _result(a: Findings, b: Findings, found: list[Change]) -> Table:
    metric, scale = a.study.metric, numbers.scale(a.study.metric)
    unit = f"{numbers.label(metric)}{numbers.unit(metric)}"
    columns = (
        Column("variant", ("variant",), numeric=False),
        Column(f"A: {unit}", ("a", "a_low", "a_high")),
        Column("n", ("a_n",)),
        Column(f"B: {unit}", ("b", "b_low", "b_high")),
        Column("n", ("b_n",)),
        Column(f"B less A{', points' if numbers.is_share(metric) else ''}", ("diff", "diff_low", "diff_high")),
        Column("pairs", ("pairs", "dropped")),
        Column("p", ("p_holm",)),
        Column("B is", ("word",), numeric=False),
    )
    rows = []
    for change in found:
        mean_a, mean_b, diff = a.mean(change.variant), b.mean(change.variant), change.diff
        rows.append(
            (
                Cell(change.variant, (change.variant,)),
                cells.estimate_cell(mean_a, metric),
                Cell(str(mean_a.n), (mean_a.n,), mean_a.n),
                cells.estimate_cell(mean_b, metric),
                Cell(str(mean_b.n), (mean_b.n,), mean_b.n),
                Cell(numbers.with_interval(diff, scale, signed=True), (diff.value, diff.low, diff.high), diff.value),
                Cell(
                    f"{diff.n}" + (f" ({change.dropped})" if change.dropped else ""), (diff.n, change.dropped), diff.n
                ),
                Cell(numbers.p_value(change.p_holm), (change.p_holm,), change.p_holm),
                Cell(change.word, (change.word,), mark=change.word.replace(" ", "-")),
            )
        )
    only = [
        f"Only in {name}: {numbers.listing(sorted(set(each.variants) - {c.variant for c in found}))}."
        for name, each in (("A", a), ("B", b))
        if set(each.variants) - {c.variant for c in found}
    ]
    notes = (*only, *(f"{name}: {cells.foot(each)[0]}" for name, each in (("A", a), ("B", b))))
    return Table(
        "compared",
        "Variants that both studies have: mean ± half of the 95 % interval, and B less A.",
        columns,
        tuple(rows),
        notes,
    )


def _verdicts(a: Findings, b: Findings, shared: list[str]) -> Table:
    columns = (
        Column("variant", ("variant",), numeric=False),
        Column("A: difference", ("a_diff", "a_low", "a_high")),
        Column("A: verdict", ("a_verdict",), numeric=False),
        Column("B: difference", ("b_diff", "b_low", "b_high")),
        Column("B: verdict", ("b_verdict",), numeric=False),
        Column("same verdict", ("same",), numeric=False),
    )
    rows = []
    for variant in shared:
        one, two = a.versus[variant], b.versus[variant]
        row = [Cell(variant, (variant,))]
        for compared in (one, two):
            row += [cells.difference_cell(compared, a.study.metric), cells.verdict_cell(compared)]
        same = "yes" if one.verdict == two.verdict else "no"
        rows.append((*row, Cell(same, (same,))))
    caption = f"Each variant against its own study's baseline (A: {a.study.baseline}; B: {b.study.baseline})."
    return Table("verdicts", caption, columns, tuple(rows))


def _answer(a: Findings, b: Findings, found: list[Change], shared: list[str]) -> tuple[str, str]:
    metric = a.study.metric
    groups = {
        word: [change for change in found if change.word == word] for word in (*WORDS.values(), "not enough evidence")
    }
    phrases = {
        "higher": "{} higher in B",
        "lower": "{} lower in B",
        "equivalent": f"{{}} equivalent (within ±{cells.margin_text(a)})",
        "not enough evidence": "for {} there is not enough evidence",
    }
    said = []
    for word, members in groups.items():
        if members:
            named = names([change.variant for change in members], len(found))
            said.append(
                phrases[word].format(
                    named if word.startswith("not") else f"{named} {'are' if len(members) > 1 else 'is'}"
                )
            )
    others = [variant for variant in shared if "baseline" not in (a.versus[variant].verdict, b.versus[variant].verdict)]
    differ = [variant for variant in others if a.versus[variant].verdict != b.versus[variant].verdict]
    first = f"Of the {len(found)} variants in both studies, by {numbers.label(metric)}: {'; '.join(said)}."
    if not others:
        return first, "No variant is set against a baseline in both studies."
    if not differ:
        return first, f"Against the baseline the verdicts are the same in A and B for all {len(others)}."
    parts = [
        f"{variant} is “{a.versus[variant].verdict}” in A and “{b.versus[variant].verdict}” in B"
        for variant in differ[:3]
    ]
    more = f"; and {len(differ) - 3} more" if len(differ) > 3 else ""
    return (
        first,
        f"Against the baseline the verdicts differ for {len(differ)} of {len(others)}: {'; '.join(parts)}{more}.",
    )


def _settings(a: Findings, b: Findings) -> list[tuple[str, str]]:
    """Base settings, margin and code that are not the same."""
    facts = []
    for path in dict.fromkeys([*a.study.base, *b.study.base]):
        one, two = a.study.base.get(path), b.study.base.get(path)
        if one != two:
            facts.append((path, f"A: {one}; B: {two}"))
    for name, one, two in (
        ("margin", a.study.margin, b.study.margin),
        ("baseline", a.study.baseline, b.study.baseline),
    ):
        if one != two:
            facts.append((name, f"A: {one}; B: {two}"))
    commits = ["; ".join(sorted(each.study.runs["commit"].dropna().unique())) or "not in a checkout" for each in (a, b)]
    facts.append(("code", "the same commit" if commits[0] == commits[1] else f"A: {commits[0]}; B: {commits[1]}"))
    return facts


def _methods(a: Findings, b: Findings) -> list[str]:
    return [
        (
            "B less A is the mean over the seeds that both studies have of the difference between the two runs with that "
            "seed, with Student's t interval at 95 %. "
            "p is of the paired t test, Holm-adjusted over the variants. B is called higher or lower where that is shown "
            "at 5 %, equivalent where two one-sided t tests, "
            f"adjusted likewise, show the difference to be within A's margin of ±{cells.margin_text(a)}. All other "
            "methods are those of each study's own report."
        ),
        "Where more than one thing differs between the studies, a difference may come from any of them.",
    ]


def _of(name: str, findings: Findings) -> list[Section]:
    """A study's own provenance and commands."""
    made, again = sections.provenance(findings.study), sections.reproduce(findings.study)
    return [Section(f"provenance-{name.lower()}", f"{name}: provenance", [made.items[0], *again.items])]


def _plot(a: Findings, b: Findings, shared: list[str]) -> Plot:
    with drawing.style():
        metric, scale = a.study.metric, numbers.scale(a.study.metric)
        figure, (axes,) = drawing.rows([drawing.short(variant) for variant in shared])
        handles = []
        for offset, findings, colour, marker in (
            (-0.14, a, drawing.PALETTE[1], "o"),
            (0.14, b, drawing.PALETTE[0], "D"),
        ):
            for row, variant in enumerate(shared):
                drawing.interval(axes, findings.mean(variant), row + offset, scale, colour, marker)
            handles.append(axes.plot([], [], marker, color=colour)[0])
        axes.set_xlabel(f"{numbers.label(metric)}{numbers.unit(metric)}")
        figure.legend(handles, ["A", "B"], loc="outside lower center", ncols=2)
        caption = (
            f"{numbers.label(metric).capitalize()} of the shared variants in both studies: means with 95 % intervals."
        )
        return Plot(
            "compared",
            figure,
            caption,
            f"Means and intervals of {len(shared)} variants in studies A and B; the numbers are in the table.",
        )
