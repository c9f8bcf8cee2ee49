"""One table over datasets: the same variants on each, and on how many datasets each differs from the baseline.

The pairs within a dataset are one family over all datasets. So a number of datasets on which a variant is shown to be
better is at most 2.5 % of the time larger than the true one, for all variants together (Dror, Baumer, Bogomolov and
Reichart, Transactions of the Association for Computational Linguistics 5 (2017), 471-486).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from analysis import words
from analysis.figures.style import use_math
from analysis.findings import Findings
from analysis.findings.columns import difference, held_for, verdict_mark, verdict_text
from analysis.findings.rows import VariantRow
from analysis.options import Spread
from analysis.questions.provenance import commands, origin
from analysis.questions.results import forest_plot
from analysis.report import headline, study_document, study_sections, summary, warnings
from analysis.runs.runs import Runs
from analysis.verdicts import UNKNOWN, Comparison, Estimate
from analysis.verdicts.comparisons import NOT_TESTED
from analysis.write.document import Code, Document, Item, Section, Warn, present
from analysis.write.table import SIGNS, Column, Key, Table, Value, chosen
from experiments.errors import MOST_NAMED, first_few
from experiments.metric import Metric

NO_RUN = Comparison(diff=UNKNOWN, verdict=NOT_TESTED, verdict_of_finished=NOT_TESTED, reason="no run", dropped=0)
COUNTED = {"better": "better than", "worse": "worse than", "equivalent": "equivalent to"}  # verdict -> how it is said


def document_of(
    studies: Mapping[str, Findings], sources: Sequence[Runs], command: str = "", spread: Spread | None = None
) -> Document:
    """The report of one study, or over datasets; `studies`: dataset -> its part of `sources`.

    `command`: the command that makes it, if any.
    """
    first = next(iter(studies.values()))
    if len(studies) == 1:
        return study_document(first)
    metric = first.means.metric
    use_math(name for f in studies.values() if f.variants.labelled for name in f.variants.typed.values())
    table = studies_table(studies, spread=spread)
    counts = [f"{name}: {findings.conduct.counted}" for name, findings in studies.items()]
    items: list[Item] = [replace(table, notes=(*table.notes, *counts))]
    if any(findings.variants.others for findings in studies.values()):
        items.append(replace(forest_plot(studies), beside=False))
    runs, curves = (pd.concat(frames) for frames in zip(*((f.runs, f.study.curves) for f in studies.values())))
    made = dict.fromkeys(filter(None, [*(commands(f.study) for f in studies.values()), command]))
    sections = [
        Section("result", "Results", items, frames={"runs": runs, "curves": curves}),
        *(
            Section(f"provenance-{number}", f"{name}: provenance", present(origin(findings.study)))
            for number, (name, findings) in enumerate(studies.items())
        ),
        Section("reproduce", "Reproduce", list(map(Code, made))),
    ]
    finding = "".join(_told(studies)[:1]).removesuffix(".")
    return Document(
        title=finding or f"{words.titled(metric)} over {words.listing(list(studies))}",
        description=sources[0].plan.description if len(sources) == 1 else "",
        summary=" ".join(f"{name}: {summary(findings)}" for name, findings in studies.items()),
        headline=tuple(answer(studies)),
        warnings=_warnings(studies),
        sections=sections,
        excluded=[(f"{study.name}: {run}", why) for study in sources for run, why in sorted(study.troubles.items())],
    )


def _warnings(studies: Mapping[str, Findings]) -> list[Warn]:
    """The warnings on each study, each with the datasets that it is about."""
    about: dict[Warn, list[str]] = {}
    for name, findings in studies.items():
        for warning in warnings(study_sections(findings)):
            about.setdefault(warning, []).append(name)
    return [
        replace(warning, line=(f"{', '.join(on)}: " if len(on) < len(studies) else "") + warning.line)
        for warning, on in about.items()
    ]


@dataclass(frozen=True)
class AcrossRow:
    """A variant on all datasets.

    `on`: dataset -> its row, without a comparison where it has no run. `shown`: verdict of `COUNTED` -> the datasets on
    which it is shown, so at least so many have it; empty for the baseline.
    """

    variant: str
    name: str  # its brief name on the first dataset that has it
    on: dict[str, VariantRow]
    shown: dict[str, list[str]]


def across_rows(studies: Mapping[str, Findings]) -> list[AcrossRow]:
    """A row for each variant of any dataset."""
    of = {name: {row.variant: row for row in findings.rows} for name, findings in studies.items()}
    baseline, rows = next(iter(studies.values())).variants.baseline, list[AcrossRow]()
    for variant in dict.fromkeys(variant for rows_of in of.values() for variant in rows_of):
        first = next(rows_of[variant] for rows_of in of.values() if variant in rows_of)
        lost = replace(first, levels={}, mean=UNKNOWN, comparison=NO_RUN, rank=None, mark="", cost={})
        on = {name: rows_of.get(variant) or replace(lost, dataset=name) for name, rows_of in of.items()}
        named = {word: [name for name, row in on.items() if row.comparison.verdict == word] for word in COUNTED}
        rows.append(AcrossRow(variant, first.name, on, named if variant != baseline else {}))
    return rows


def answer(studies: Mapping[str, Findings]) -> list[str]:
    """On how many datasets each variant is shown to differ from the baseline, and what is not tested."""
    rows = across_rows(studies)
    if len(rows) == 1:
        return [f"{name}: {headline(study_sections(findings))[0]}" for name, findings in studies.items()]
    on_each = [(row.name, name, outcome.comparison) for row in rows if row.shown for name, outcome in row.on.items()]
    lost = [(variant, name, compared.reason) for variant, name, compared in on_each if compared.verdict == NOT_TESTED]
    untested = [f"{words.quoted(variant)} on {name} ({reason})" for variant, name, reason in lost]
    left_out = f"Not tested: {first_few(untested)}." if untested else ""
    return [*filter(None, [" ".join(_told(studies)), left_out])]


def _told(studies: Mapping[str, Findings]) -> list[str]:
    """A sentence for each group of variants of which the same is said, those that are better on most datasets first."""
    first, groups = next(iter(studies.values())), dict[str, list[str]]()
    rows = [row for row in across_rows(studies) if row.shown]
    for row in sorted(rows, key=lambda row: -len(row.shown["better"])):
        if any(outcome.comparison.verdict != NOT_TESTED for outcome in row.on.values()):
            groups.setdefault(_said(row, first), []).append(row.name)
    said, rest = list[str](), sum(map(len, groups.values()))
    for text, names in [*groups.items()][: 1 if len(groups) > 2 else 2]:
        who = words.names(names) if len(names) <= MOST_NAMED else f"{len(names)} of {len(rows)} variants"
        said.append(f"{who} {'is' if len(names) == 1 else 'are'} {text}.")
        rest -= len(names)
    return said + [f"The {words.plural(rest, 'other variant')}: see the table."] * bool(rest)


def _said(row: AcrossRow, first: Findings) -> str:
    """`better than none on at least 2 of 3 datasets (a and b), worse on at least 1 (c)`"""
    baseline, parts = first.variants.name(first.variants.baseline), list[str]()
    for verdict, on in row.shown.items():
        if on:
            than, of = (verdict, "") if parts else (f"{COUNTED[verdict]} {baseline}", f" of {len(row.on)} datasets")
            some = f"at least {len(on)}{of}" if len(on) < len(row.on) else f"all {len(on)} datasets"
            parts.append(f"{than} on {some} ({words.listing(on)})")
    either = words.listing(list(COUNTED.values())[: 2 if first.policy.margin is None else 3], "or")
    return ", ".join(parts) or f"not shown to be {either} {baseline} on any dataset"


def studies_table(
    studies: Mapping[str, Findings], names: Sequence[str] | None = None, spread: Spread | None = None
) -> Table:
    """A row for each variant, a column for each dataset: its mean, marked with its verdict against the baseline.

    `names`: the columns, by default the variant, every dataset, `better` and `worse`. Raises `UserError` naming
    a column that there is none of, and those that there are.
    """
    first = next(iter(studies.values()))
    metric, variants, sd, rows = first.means.metric, first.variants, spread == "sd", across_rows(studies)
    labelled = any(findings.variants.labelled for findings in studies.values())
    columns: dict[Key, Column] = {"variant": Column("variant", "name", key=True, math=labelled)}

    def count(verdict: str) -> Value:
        return lambda row: len(row.shown[verdict]) if row.shown else None

    fields: dict[Key, Value] = {"variant": "variant", **{word: count(word) for word in COUNTED}}
    for dataset, findings in studies.items():
        columns["dataset", dataset], of_dataset = _of_dataset(dataset, findings, metric, sd)
        fields |= of_dataset
    columns |= {word: Column(f"{word} on", fields[word], words.counts) for word in COUNTED}
    keys = chosen(columns, names, [*columns][:-1])
    after = "standard deviation of the runs" if sd else f"{words.CONFIDENCE} interval"
    counted = [mean.n for findings in studies.values() for mean in findings.means.of_variants.values() if mean.n] or [0]
    drawn = {verdict_mark(row.on[name].comparison.verdict) for row in rows for name in studies}
    marks = ", ".join(f"{sign} {mark.replace('-', ' ')}" for mark, sign in SIGNS.items() if mark in drawn)
    against = f" Marks against {variants.name(variants.baseline)}: {marks}; no mark: none of these." if marks else ""
    least = "" if {*COUNTED}.isdisjoint(keys) else " Counts of datasets: at least so many."
    caption = (
        f"{words.titled(metric)}: mean and {after}, {words.seeds(counted, first.counted)}.{against} "
        f"Bold: the best mean on a dataset.{least}"
    )
    note = f"Marks are read from intervals that hold for {held_for(first)}."
    return Table("across", caption, rows, tuple(columns[key] for key in keys), fields, (note,))


def _of_dataset(dataset: str, findings: Findings, metric: Metric, sd: bool) -> tuple[Column, dict[Key, Value]]:
    """The column of a dataset, its mean marked with its verdict, and what the CSV holds of it."""
    deviations = findings.means.deviations[metric]

    def mean(row: AcrossRow) -> Estimate:
        return row.on[dataset].mean

    def both(row: AcrossRow) -> tuple[float, float]:
        return mean(row).value, deviations.get(row.variant, math.nan)

    def mark(row: AcrossRow) -> str:
        outcome = row.on[dataset]
        sign = "" if outcome.comparison.verdict == "baseline" else verdict_mark(outcome.comparison.verdict)
        return f"{sign} best" if outcome.mark == "best" else sign

    value, show = (both, words.deviations(metric)) if sd else (mean, words.intervals(metric))
    shown = Column(f"{dataset}{metric.unit}", value, show, sort=lambda row: mean(row).value, mark=mark)
    parts: dict[str, Value] = {
        "": mean,
        "_n": lambda row: mean(row).n,
        "_sd": lambda row: both(row)[1],
        "_diff": lambda row: difference(row.on[dataset]),
        "_verdict": lambda row: verdict_text(row.on[dataset].comparison),
    }
    return shown, {("dataset", dataset + end): part for end, part in parts.items()}
