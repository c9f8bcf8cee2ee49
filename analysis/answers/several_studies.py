"""Make the reports on several studies: two that are compared, and several datasets. Results in, a document out."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from analysis.answers.across.compute import FEWEST, AcrossDatasets, aggregate, baseline_runs
from analysis.answers.across.show import datasets_section, differences_section, scores_section
from analysis.answers.conduct.compute import study_conduct, study_looks
from analysis.answers.conduct.provenance import origin, reproduce
from analysis.answers.conduct.show import looks_paragraphs
from analysis.answers.pairs.show import compared_table
from analysis.answers.published.ledger import ledger_rows, ledger_section, mark_strict
from analysis.answers.published.repeats import independent_groups
from analysis.answers.study_report import study_document, study_headline, study_warnings, summary, title
from analysis.answers.study_results import StudyResults, analyze
from analysis.results.policy import study_policy
from analysis.sources.by_dataset import DATASET, datasets_of, split_by_dataset
from analysis.sources.joined import VARIANT, joined
from analysis.sources.matching import check_alike, differing_settings
from analysis.sources.runs_table import RunsTable
from analysis.sources.source_run import ENDED
from analysis.write.document import Code, Document, Facts, Section
from analysis.write.table import Column, Table
from analysis.write.text import facts, paragraphs, text
from experiments.errors import UserError
from experiments.runs.history import Look


def compare_document(a: StudyResults, b: StudyResults, command: str, labels: Sequence[str] = "AB") -> Document:
    """Make the report on studies A and B; `command` is the command that makes it. Raises the errors of `joined`.

    It is the report of one study that has the study among its factors, with the difference of each variant between A
    and B first. `labels`: what it calls the two.
    """
    studies = dict(zip(labels, (a, b), strict=True))
    both = analyze(joined({name: results.study for name, results in studies.items()}, command))
    document, variants, seeds = study_document(both), both.study.factors[VARIANT], both.study.plan.seeds
    pairs = [(f"{labels[1]}: {variant}", f"{labels[0]}: {variant}") for variant in variants]
    changes = dict(zip(variants, both.policy.compare(both.means.values, pairs).values(), strict=True))
    slots = {"labels": labels, "differing": differing_settings(a.study, b.study, variants), "policy": both.policy}
    notes = []
    for name, results in studies.items():
        only = [variant for variant in results.variants.names if variant not in variants]
        more = [seed for seed in results.study.plan.seeds if seed not in seeds]
        if only or more:
            notes.append(text("two_studies", "left_out", study=name, variants=only, seeds=more))
    left_out = notes if len(variants) == 1 else []
    table = compared_table("compared", text("two_studies", "caption", **slots), changes, both.policy.metric, notes)
    settings = facts("two_studies", "settings", a=a, b=b, **slots)
    further = [section for section in document.sections if section.id not in ("provenance", "reproduce")]
    return replace(
        document,
        headline=(*left_out, text("two_studies", "headline", changes=changes, **slots), *document.headline),
        warnings=_warnings(studies),
        sections=[
            Section("compared", "Each variant", [table]),
            Section("settings", "Settings that differ", [Facts(settings)]),
            *further,
            *_origins(studies, command),
        ],
        excluded=_excluded(studies),
    )


def index_document(folder: Path, studies: Mapping[Path, RunsTable | UserError], out: Path) -> Document:
    """Make the index of the studies in a folder, and what they say about published claims.

    `studies`: their folders -> their runs, or why these cannot be read.
    """
    rows, analyzed = [], list[tuple[dict[str, str], StudyResults]]()
    for at, study in studies.items():
        page = at / "report" / "report.html"
        link = quote(os.path.relpath(page, out)) if page.is_file() else ""
        place = {"study": str(at.relative_to(folder)), "_link": link}
        row, results = _index_row(study)
        rows.append(place | row)
        analyzed += [(place, results)] if results else []
    columns = (
        Column("study", "study", key=True, link="_link"),
        Column("state", "state"),
        Column("answer", "answer"),
        Column("setting", "setting", detail=True),
        Column("command", "command", detail=True),
    )
    table = Table("studies", text("study", "index_caption"), pd.DataFrame(rows), columns)
    read = {str(at.relative_to(folder)): study for at, study in studies.items() if isinstance(study, RunsTable)}
    groups = independent_groups(read)
    claims = [place | row for place, results in analyzed for row in ledger_rows(results)]
    families = len({(row["study"], row["metric"]) for row in claims})
    strict = [place | row for place, results in analyzed for row in ledger_rows(results, families)] if claims else []
    name = text("study", "index_title", folder=folder.resolve().name)
    left = [f"{row['study']}: {row['state']}" for row in rows if row["_left"]]
    headline = text("study", "index_headline", studies=len(rows), complete=len(rows) - len(left))
    sections = [Section("studies", "Studies", [table]), *ledger_section(mark_strict(claims, strict), groups)]
    return Document(name, "", "", (headline, *left), [], sections)


def _index_row(study: RunsTable | UserError) -> tuple[dict[str, Any], StudyResults | None]:
    """A study's state, the first paragraph of its answer, its setting; its results where it has one dataset."""
    row: dict[str, Any] = {"state": "", "_left": True, "answer": "", "setting": "", "command": ""}
    try:
        if isinstance(study, UserError):
            raise study
        conduct = study_conduct(study)
        row |= {"state": text("study", "state", conduct=conduct), "_left": "incomplete" in conduct.excluded}
        if study.plan.base:
            row |= {"setting": text("study", "setting", study=study), "command": study.plan.command or ""}
        if study.of(*ENDED).empty:
            return row, None
        if len(datasets_of(study)) > 1:
            return row | {"answer": stratified_document(study).headline[0]}, None
        results = analyze(study)
        return row | {"answer": study_headline(results)[0]}, results
    except UserError as error:
        return row | {"state": text("study", "unreadable", error=error), "_left": True}, None


def stratified_document(study: RunsTable, out: Path | None = None) -> Document:
    """Make the report of a study that has the dataset among its factors: each dataset is a study of the other factors.

    A dataset with too few runs of the baseline is left out with a warning. Where fewer than two datasets remain, it is
    the report of one dataset. Raises `UserError` where the datasets have different variants.
    """
    parts = {str(part.base[DATASET]): part for part in split_by_dataset(study)}
    started = {name: part for name, part in parts.items() if not part.of(*ENDED).empty} or parts
    check_alike(list(started.values()))
    results = {name: analyze(part) for name, part in started.items()}
    shown = {name: part for name, part in results.items() if baseline_runs(part) >= FEWEST}
    if len(shown) > 1:
        across = aggregate(shown, study_policy(study))  # a seed counts once its runs on all datasets have ended
        document = across_document(across, "", study_looks(study))
        sections = document.sections[:-1]  # each dataset has its commands
        document = replace(document, title=title(study), description=study.plan.description, sections=sections)
    else:
        shown = dict([next(iter((shown or results).items()))])
        (only,) = shown.values()
        document = study_document(only, out=out)
    runs = {name: baseline_runs(results[name]) if name in results else 0 for name in parts if name not in shown}
    left_out = [text("averages", "waiting", dataset=d, baseline=parts[d].baseline, runs=n) for d, n in runs.items()]
    listed = {run for name in shown for run in parts[name].troubles}
    others = [(run, why) for run, why in sorted(study.troubles.items()) if run not in listed]
    return replace(document, warnings=[*left_out, *document.warnings], excluded=[*document.excluded, *others])


def across_document(across: AcrossDatasets, command: str, looks: Sequence[Look] = ()) -> Document:
    """Make the report over datasets by a command; `looks`: those at the one study that the studies are parts of."""
    studies = across.studies
    tables = [results.study for results in studies.values()]
    lost = {name: len(results.study.of("diverged")) for name, results in studies.items()}
    planned = any(results.policy.looks for results in studies.values())
    recorded = tables[0].recorded
    methods = [
        *facts("averages", "methods", planned=planned, across=across),
        *(facts("looks", "methods", policy=across.policy, looks=looks, recorded=recorded) if looks else ()),
        *(fact for results in studies.values() for fact in facts("methods", "scope", conduct=results.conduct)),
    ]
    return Document(
        title=text("averages", "title", across=across),
        description="",
        summary=" ".join(f"{name}: {summary(results)}" for name, results in studies.items()),
        headline=(
            *paragraphs("averages", "headline", lost=lost, across=across),
            *(looks_paragraphs(across.policy, looks) if across.differences else ()),
        ),
        warnings=_warnings(studies),
        sections=[
            scores_section(across, [f"{n}: {text('study', 'counts', conduct=r.conduct)}" for n, r in studies.items()]),
            *([differences_section(across)] if across.differences else []),
            datasets_section(across),
            Section("methods", "Methods", [Facts(tuple(dict.fromkeys(methods)))]),
            *_origins(studies, command),
        ],
        excluded=_excluded(studies),
        frames={name: pd.concat([getattr(table, name) for table in tables]) for name in ("runs", "curves")},
    )


def _warnings(studies: Mapping[str, StudyResults]) -> list[str]:
    """The warnings on each study; `studies`: what the report calls a study -> the study."""
    stopping = [name for name, results in studies.items() if results.study.stated_plan.until_decided]
    own = [f"{name}: {warning}" for name, results in studies.items() for warning in study_warnings(results)]
    return [*paragraphs("looks", "stopping", studies=stopping), *own]


def _origins(studies: Mapping[str, StudyResults], command: str) -> list[Section]:
    """Where the runs of each study come from, and the command that makes the report."""
    sections = [
        Section(f"provenance-{i}", f"{name}: provenance", [origin(results.study), *reproduce(results.study).items])
        for i, (name, results) in enumerate(studies.items())
    ]
    return [*sections, Section("reproduce", "Reproduce", [Code(command)])]


def _excluded(studies: Mapping[str, StudyResults]) -> list[tuple[str, str]]:
    """The records of each study that are not used."""
    return [(f"{name}: {run}", why) for name, r in studies.items() for run, why in sorted(r.study.troubles.items())]
