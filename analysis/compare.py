"""Two studies side by side: the same variants at two commits, two scales, two datasets. Findings in, a document out; no
file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
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
    moved, drawn = shifts(a, b, shared), _plot(a, b, shared)
    said = [
        Section("result", "Result", [Item("table", table=_result(a, b, found)), Item("plot", plot=drawn)]),
        Section("verdicts", "Verdicts against the baseline", [Item("table", table=_verdicts(a, b, shared, moved))]),
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
        answer=_answer(a, found, moved),
        warnings=[f"{name}: {warning}" for name, each in (("A", a), ("B", b)) for warning in sections.warnings(each)],
        sections=said,
        plots=[drawn],
    )


def changes(a: Findings, b: Findings, shared: list[str]) -> list[Change]:
    """B less A for each shared variant, over the seeds that both have; the variants are the family of Holm's
    adjustment.
    """
    return _changes({v: a.values[v] for v in shared}, {v: b.values[v] for v in shared}, a.study.margin)


def shifts(a: Findings, b: Findings, shared: list[str]) -> list[Change]:
    """How each difference to the baseline changes, B's less A's, over the seeds of all four runs; baselines left out.

    That two verdicts differ is no test: Gelman and Stern, The American Statistician 60 (2006), 328-331.
    """
    others = [variant for variant in shared if variant not in (a.study.baseline, b.study.baseline)]
    return _changes(_to_baseline(a, others), _to_baseline(b, others), a.study.margin) if others else []


def _to_baseline(findings: Findings, variants: list[str]) -> dict[str, dict[int, float]]:
    base = findings.values[findings.study.baseline]
    return {
        variant: {seed: value - base[seed] for seed, value in findings.values[variant].items() if seed in base}
        for variant in variants
    }


def _changes(a: Mapping[str, Mapping[int, float]], b: Mapping[str, Mapping[int, float]], margin: float) -> list[Change]:
    """B less A, variant by variant, paired by seed."""
    values = {("A", variant): runs for variant, runs in a.items()} | {("B", variant): runs for variant, runs in b.items()}
    later, earlier, dropped = paired(values, [(("B", variant), ("A", variant)) for variant in a])
    diffs = later - earlier
    p_holm, _, signs = verdicts(diffs, margin, ALPHA)
    return [
        Change(variant, stats.mean(row), int(lost), float(p), WORDS.get(float(sign), "not enough evidence"))
        for variant, row, lost, p, sign in zip(a, diffs, dropped, p_holm, signs)
    ]


def _result(a: Findings, b: Findings, found: list[Change]) -> Table:
    metric = a.study.metric
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
        difference, p, word = _change_cells(change, metric)
        rows.append(
            (
                Cell(change.variant, (change.variant,)),
                cells.estimate_cell(mean_a, metric),
                Cell(str(mean_a.n), (mean_a.n,), mean_a.n),
                cells.estimate_cell(mean_b, metric),
                Cell(str(mean_b.n), (mean_b.n,), mean_b.n),
                difference,
                Cell(
                    f"{diff.n}" + (f" ({change.dropped})" if change.dropped else ""), (diff.n, change.dropped), diff.n
                ),
                p,
                word,
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


def _verdicts(a: Findings, b: Findings, shared: list[str], moved: list[Change]) -> Table:
    columns = (
        Column("variant", ("variant",), numeric=False),
        Column("A: difference", ("a_diff", "a_low", "a_high")),
        Column("A: verdict", ("a_verdict",), numeric=False),
        Column("B: difference", ("b_diff", "b_low", "b_high")),
        Column("B: verdict", ("b_verdict",), numeric=False),
        Column("B's difference less A's", ("shift", "shift_low", "shift_high"), help="over the seeds of all four runs"),
        Column("p", ("shift_p_holm",)),
        Column("B's difference is", ("shift_word",), numeric=False),
    )
    rows, by_name = [], {change.variant: change for change in moved}
    for variant in shared:
        one, two = a.versus[variant], b.versus[variant]
        row = [Cell(variant, (variant,))]
        for compared in (one, two):
            row += [cells.difference_cell(compared, a.study.metric), cells.verdict_cell(compared)]
        rows.append((*row, *_change_cells(by_name.get(variant), a.study.metric)))
    caption = f"Each variant against its own study's baseline (A: {a.study.baseline}; B: {b.study.baseline})."
    note = "Two verdicts that differ do not show that the differences do; the last columns test that."
    return Table("verdicts", caption, columns, tuple(rows), (note,))


def _change_cells(change: Change | None, metric: str) -> tuple[Cell, Cell, Cell]:
    """B less A, its p and the word; dashes where nothing was compared."""
    if change is None:
        nothing = Cell(numbers.DASH, sort=math.nan)
        return nothing, nothing, nothing
    diff = change.diff
    return (
        Cell(numbers.with_interval(diff, numbers.scale(metric), signed=True), (diff.value, diff.low, diff.high), diff.value),
        Cell(numbers.p_value(change.p_holm), (change.p_holm,), change.p_holm),
        Cell(change.word, (change.word,), mark=change.word.replace(" ", "-")),
    )


def _answer(a: Findings, found: list[Change], moved: list[Change]) -> tuple[str, str]:
    first = f"Of the {len(found)} variants in both studies, by {numbers.label(a.study.metric)}: {_said(a, found)}."
    if not moved:
        return first, "No variant is set against a baseline in both studies."
    return first, f"As to the difference to the baseline: {_said(a, moved, ('that of ', 'those of '))}."


def _said(a: Findings, found: list[Change], of: tuple[str, str] = ("", "")) -> str:
    """`learned-1d is lower in B; for none there is not enough evidence`."""
    phrases = {
        "higher": "{} higher in B",
        "lower": "{} lower in B",
        "equivalent": f"{{}} equivalent (within ±{cells.margin_text(a)})",
        "not enough evidence": "for {} there is not enough evidence",
    }
    said = []
    for word, phrase in phrases.items():
        if members := [change.variant for change in found if change.word == word]:
            many = len(members) > 1
            named = of[many] + names(members, len(found))
            said.append(phrase.format(named if word.startswith("not") else f"{named} {'are' if many else 'is'}"))
    return "; ".join(said)


def _settings(a: Findings, b: Findings) -> list[tuple[str, str]]:
    """Base settings and margin that are not the same; whether code, hardware and versions are."""
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
    for name, column, same, unknown in (
        ("code", "commit", "the same commit", "not in a checkout"),
        ("hardware", "hardware", "the same", "not known"),
        ("versions", "versions", "the same", "not known"),
    ):
        one, two = ("; ".join(sorted(each.study.runs[column].dropna().unique())) or unknown for each in (a, b))
        facts.append((name, same if one == two else f"A: {one}; B: {two}"))
    return facts


def _methods(a: Findings, b: Findings) -> list[str]:
    return [
        (
            "B less A is the mean over the seeds that both studies have of the difference between the two runs with that "
            "seed, with Student's t interval at 95 %. "
            "p is of the paired t test, Holm-adjusted over the variants. B is called higher or lower where that is shown "
            "at 5 %, equivalent where two one-sided t tests, "
            f"adjusted likewise, show the difference to be within A's margin of ±{cells.margin_text(a)}. How a difference to "
            "the baseline changes is tested the same way, seed by seed over the four runs. All other "
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
