"""Make the report over several datasets, of several studies or of one with the dataset among its factors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from analysis.report.document import Code, Document, Facts, Section
from analysis.report.headline_looks import looks_paragraph, not_tested_yet
from analysis.report.methods import looks_fact, scope
from analysis.report.provenance import study_provenance
from analysis.report.sections.averages import datasets_section, differences_section, scores_section
from analysis.report.study_report import study_document, summary, title
from analysis.report.tables.cells import counts_note
from analysis.report.text import facts, text
from analysis.report.warnings import warnings
from analysis.results.across import FEWEST, AcrossDatasets, aggregate, baseline_runs, studies_by_dataset
from analysis.results.conduct import study_looks
from analysis.results.policy import study_policy
from analysis.results.study_results import StudyResults, analyze
from analysis.sources.by_dataset import DATASET, split_by_dataset
from analysis.sources.matching import check_alike
from analysis.sources.runs_table import RunsTable
from analysis.sources.source_run import ENDED
from experiments.runs.looks import Look


def across_document(studies: Sequence[StudyResults], command: str) -> Document:
    """Make the report over the datasets of several studies; `command` is the command that makes it.

    Raises `UserError` for studies that cannot be aggregated.
    """
    named = studies_by_dataset(studies)
    return _document(named, aggregate(named), command)


def stratified_document(study: RunsTable, out: Path | None = None) -> Document:
    """Make the report of a study that has the dataset among its factors: each dataset is a study of the other factors.

    A dataset with too few runs of the baseline is left out with a warning. Where fewer than two datasets remain, it is the
    report of one dataset. Raises `UserError` where the datasets have different variants.
    """
    parts = {str(part.base[DATASET]): part for part in split_by_dataset(study)}
    started = {name: part for name, part in parts.items() if not part.of(*ENDED).empty} or parts
    check_alike(list(started.values()))
    results = {name: analyze(part) for name, part in started.items()}
    shown = {name: part for name, part in results.items() if baseline_runs(part) >= FEWEST}
    if len(shown) > 1:
        across = aggregate(shown, study_policy(study))  # a seed counts once its runs on all datasets have ended
        document = _document(shown, across, "", study_looks(study))
        document = replace(
            document, title=title(study), description=study.plan.description, sections=document.sections[:-1]
        )
    else:
        shown = dict([next(iter((shown or results).items()))])
        (only,) = shown.values()
        document = study_document(only, out=out)
    runs = {name: baseline_runs(results[name]) if name in results else 0 for name in parts if name not in shown}
    left_out = [text("averages", "waiting", dataset=d, baseline=parts[d].baseline, runs=n) for d, n in runs.items()]
    listed = {run for name in shown for run in parts[name].troubles}
    others = [(run, why) for run, why in sorted(study.troubles.items()) if run not in listed]
    return replace(document, warnings=[*left_out, *document.warnings], excluded=[*document.excluded, *others])


def _document(
    studies: Mapping[str, StudyResults], across: AcrossDatasets, command: str, looks: tuple[Look, ...] | None = None
) -> Document:
    """The report over the datasets; `looks`: those at the one study that the studies are parts of."""
    first = next(iter(studies.values()))
    whole = None if looks is None else replace(first, policy=across.policy, conduct=replace(first.conduct, looks=looks))
    names = list(dict.fromkeys(results.study.name for results in studies.values()))
    planned = any(results.policy.plan for results in studies.values())
    methods = facts("averages", "methods", across=across, studies=studies, planned=planned)
    scopes = dict.fromkeys(scope(results) for results in studies.values())
    means = {name: results.means for name, results in studies.items()}
    versus = {name: results.comparisons.versus for name, results in studies.items()}
    return Document(
        title=text("averages", "title", names=names, metric=across.policy.metric, datasets=across.datasets),
        description="",
        summary=" ".join(f"{name}: {summary(results)}" for name, results in studies.items()),
        headline=_headline(studies, across, whole),
        warnings=[f"{name}: {warning}" for name, results in studies.items() for warning in warnings(results)],
        sections=[
            scores_section(across, [f"{name}: {counts_note(results)}" for name, results in studies.items()]),
            *([differences_section(across)] if across.differences else []),
            datasets_section(means, versus, across.baseline, planned),
            Section("methods", "Methods", [Facts((*methods, *scopes, *([looks_fact(whole)] if whole else [])))]),
            *(study_provenance(f"provenance-{i}", name, r.study) for i, (name, r) in enumerate(studies.items())),
            Section("reproduce", "Reproduce", [Code(command)]),
        ],
        excluded=[
            (f"{name}: {run}", why) for name, r in studies.items() for run, why in sorted(r.study.troubles.items())
        ],
        frames={
            "runs": pd.concat([results.study.runs for results in studies.values()], ignore_index=True),
            "curves": pd.concat([results.study.curves for results in studies.values()], ignore_index=True),
        },
    )


def _headline(
    studies: Mapping[str, StudyResults], across: AcrossDatasets, whole: StudyResults | None
) -> tuple[str, ...]:
    """The answer: the averages, the datasets on which they do not hold, diverged runs, looks, and the limit."""
    others = len(across.scores) + len(across.left_out) > 1
    lost = {name: len(results.study.of("diverged")) for name, results in studies.items()}
    depending = [variant for variant, compared in across.differences.items() if compared.depends_on_diverged]
    if others and whole and across.policy.waiting:
        answer = [not_tested_yet(whole)[0]]
    elif across.differences:
        answer = [_compared(across), _signs(across), *(looks_paragraph(whole) if whole else ())]
    elif others:
        answer = [text("averages", "uncompared", across=across)]
    else:
        means = {name: results.means.of(across.baseline) for name, results in studies.items()}
        answer = [text("averages", "single", across=across, means=means)]
    if any(lost.values()):
        lost = {name: n for name, n in lost.items() if n}
        answer.append(text("averages", "diverged", lost=lost, depending=depending))
    return *filter(None, answer), text("averages", "limit", across=across)


def _compared(across: AcrossDatasets) -> str:
    """The averages that are better, worse, equivalent or open."""
    groups = {
        verdict: {v: compared.diff for v, compared in across.differences.items() if compared.verdict == verdict}
        for verdict in ("better", "worse", "equivalent", "not enough evidence")
    }
    seeds = [len(runs) for by_dataset in across.by_dataset.values() for runs in by_dataset.values()]
    return text("averages", "compared", across=across, groups=groups, seeds=seeds)


def _signs(across: AcrossDatasets) -> str:
    """The datasets on which a mean difference that a verdict rests on has another sign than the average."""
    shown = {
        v: compared.diff.value for v, compared in across.differences.items() if compared.verdict in ("better", "worse")
    }
    opposite = [
        (variant, name, float(runs.mean()))
        for variant, average in shown.items()
        for name, runs in across.by_dataset[variant].items()
        if runs.mean() * average <= 0
    ]
    return text("averages", "signs", opposite=opposite, metric=across.policy.metric) if shown else ""
