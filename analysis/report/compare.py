"""Two studies side by side: the same variants at two commits, two scales, two datasets. Results in, a document out; no
file.
"""

from __future__ import annotations

import math

from analysis import formatting
from analysis.comparison import Change, compare_studies
from analysis.figures import style
from analysis.figures.style import Plot
from analysis.report import cells, sections
from analysis.report.headline import names
from analysis.report.render import Cell, Column, Table
from analysis.report.sections import Document, Item, Section
from analysis.results import Results


def compare_document(a: Results, b: Results, command: str) -> Document:
    """The report on studies A and B, which `command` makes.

    Raises `UserError` where they share no variant or do not measure the same.
    """
    both = compare_studies(a, b)
    shared, found, moved = both.shared, both.changes, both.shifts
    drawn = _plot(a, b, shared)
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
        title=f"{a.study.name} (A) and {b.study.name} (B), side by side: {a.study.metric.label}",
        description="",
        summary=f"A: {sections.summary(a)} B: {sections.summary(b)}",
        answer=_answer(a, found, moved),
        warnings=[f"{name}: {warning}" for name, each in (("A", a), ("B", b)) for warning in sections.warnings(each)],
        sections=said,
        plots=[drawn],
    )


def _result(a: Results, b: Results, found: list[Change]) -> Table:
    metric = a.study.metric
    unit = f"{metric.label}{metric.unit}"
    columns = (
        Column("variant", ("variant",), numeric=False),
        Column(f"A: {unit}", ("a", "a_low", "a_high")),
        Column("n", ("a_n",)),
        Column(f"B: {unit}", ("b", "b_low", "b_high")),
        Column("n", ("b_n",)),
        Column(f"B less A{', points' if metric.is_share else ''}", ("diff", "diff_low", "diff_high")),
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
        f"Only in {name}: {formatting.listing(sorted(set(each.variants) - {c.variant for c in found}))}."
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


def _verdicts(a: Results, b: Results, shared: list[str], moved: list[Change]) -> Table:
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
        nothing = Cell(formatting.DASH, sort=math.nan)
        return nothing, nothing, nothing
    diff = change.diff
    return (
        Cell(formatting.with_interval(diff, metric.scale, signed=True), (diff.value, diff.low, diff.high), diff.value),
        Cell(formatting.p_value(change.p_holm), (change.p_holm,), change.p_holm),
        Cell(change.word, (change.word,), mark=change.word.replace(" ", "-")),
    )


def _answer(a: Results, found: list[Change], moved: list[Change]) -> tuple[str, str]:
    first = f"Of the {len(found)} variants in both studies, by {a.study.metric.label}: {_said(a, found)}."
    if not moved:
        return first, "No variant is set against a baseline in both studies."
    return first, f"As to the difference to the baseline: {_said(a, moved, ('that of ', 'those of '))}."


def _said(a: Results, found: list[Change], of: tuple[str, str] = ("", "")) -> str:
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


def _settings(a: Results, b: Results) -> list[tuple[str, str]]:
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


def _methods(a: Results, b: Results) -> list[str]:
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


def _of(name: str, results: Results) -> list[Section]:
    """A study's own provenance and commands."""
    made, again = sections.provenance(results.study), sections.reproduce(results.study)
    return [Section(f"provenance-{name.lower()}", f"{name}: provenance", [made.items[0], *again.items])]


def _plot(a: Results, b: Results, shared: list[str]) -> Plot:
    with style.style():
        metric, scale = a.study.metric, a.study.metric.scale
        figure, (axes,) = style.rows([style.short(variant) for variant in shared])
        handles = []
        for offset, results, colour, marker in ((-0.14, a, style.PALETTE[1], "o"), (0.14, b, style.PALETTE[0], "D")):
            for row, variant in enumerate(shared):
                style.interval(axes, results.mean(variant), row + offset, scale, colour, marker)
            handles.append(axes.plot([], [], marker, color=colour)[0])
        axes.set_xlabel(f"{metric.label}{metric.unit}")
        figure.legend(handles, ["A", "B"], loc="outside lower center", ncols=2)
        caption = f"{metric.label.capitalize()} of the shared variants in both studies: means with 95 % intervals."
        return Plot(
            "compared",
            figure,
            caption,
            f"Means and intervals of {len(shared)} variants in studies A and B; the numbers are in the table.",
        )
