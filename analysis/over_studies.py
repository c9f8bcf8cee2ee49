"""One table over several studies: the same variants on several datasets, each with its verdict against the baseline."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import words
from analysis.columns import NAME, difference_fields, verdict_fields
from analysis.findings import NO_PAGE, Findings, Page, analyze
from analysis.questions.provenance import origin, reproduce
from analysis.report import headline, study_document, study_sections, summary, title, warnings
from analysis.runs.by_dataset import DATASET, check_alike, datasets_of, split_by_dataset
from analysis.runs.runs import Runs
from analysis.runs.source_run import ENDED
from analysis.verdicts.estimates import moments
from analysis.write.document import Code, Document, Section, Warn
from analysis.write.table import Column, Spread, Table
from experiments.data.catalogue import DATASETS
from experiments.errors import UserError

NOTE = "The intervals behind the marks hold for all pairs of one study together, not over the studies."


def studies_by_dataset(studies: Sequence[Findings]) -> dict[str, Findings]:
    """Dataset -> its study.

    Raises `UserError` for fewer than two studies, for two studies of one dataset, and for studies that differ in their
    metric, variants or baseline, or use a name for different variants.
    """
    if len(studies) < 2:
        raise UserError("across: one study is not enough; give two or more, of different datasets")
    named: dict[str, Findings] = {}
    for findings in studies:
        name = _dataset(findings.study)
        if name in named:
            raise UserError(f"across: {named[name].study.name} and {findings.study.name} use the same dataset, {name}")
        named[name] = findings
    check_alike([findings.study for findings in studies])
    return named


def _dataset(study: Runs) -> str:
    """The one dataset of a study; an image folder has the folder's name as well."""
    names = datasets_of(study)
    if len(names) != 1:
        known = f"its runs use {len(names)} datasets" if names else f"its records do not state {DATASET}"
        raise UserError(f"across: {study.name}: {known}; each study needs one dataset")
    name = names[0]
    if name in DATASETS and DATASETS[name].source == "folder":
        return f"{name} {Path(str(study.runs['data.root'].dropna().iloc[0])).name}"
    return name


def across_document(studies: Mapping[str, Findings], command: str = "", spread: Spread | None = None) -> Document:
    """Make the report over studies; `studies`: dataset -> its study. `command`: the command that makes it, if any."""
    sections = {name: study_sections(findings) for name, findings in studies.items()}
    metric = next(iter(studies.values())).means.metric
    counts = [f"{name}: {findings.conduct.counted}" for name, findings in studies.items()]
    table = replace(studies_table(studies, spread), notes=(NOTE, *counts))
    runs, curves = (pd.concat([getattr(f.study, name) for f in studies.values()]) for name in ("runs", "curves"))
    return Document(
        title=f"{words.capital(metric.label)} over {words.listing(list(studies))}",
        description="",
        summary=" ".join(f"{name}: {summary(findings)}" for name, findings in studies.items()),
        headline=tuple(f"{name}: {said}" for name in studies for said in headline(sections[name])[:1]),
        warnings=all_warnings(sections),
        sections=[
            Section("result", "Results", [table], frames={"runs": runs, "curves": curves}),
            *all_origins(studies, command),
        ],
        excluded=all_excluded(studies),
    )


def all_warnings(sections: Mapping[str, list[Section]]) -> list[Warn]:
    """The warnings on each study; `sections`: what the report calls a study -> its sections."""
    return [replace(one, line=f"{name}: {one.line}") for name, said in sections.items() for one in warnings(said)]


def all_origins(studies: Mapping[str, Findings], command: str) -> list[Section]:
    """Where the runs of each study come from, and the command that makes the report, if any."""
    sections = [
        Section(f"provenance-{i}", f"{name}: provenance", [origin(findings.study), *reproduce(findings).items])
        for i, (name, findings) in enumerate(studies.items())
    ]
    return [*sections, *([Section("reproduce", "Reproduce", [Code(command)])] if command else [])]


def all_excluded(studies: Mapping[str, Findings]) -> list[tuple[str, str]]:
    """The records of each study that are not used."""
    return [(f"{name}: {run}", why) for name, f in studies.items() for run, why in sorted(f.study.troubles.items())]


def studies_table(studies: Mapping[str, Findings], spread: Spread | None = None) -> Table:
    """A row for each variant, a column for each dataset: its mean, marked with its verdict against the baseline."""
    first = next(iter(studies.values()))
    metric, variants, columns = first.means.metric, first.variants, [NAME]
    rows: list[dict[str, Any]] = [{"variant": variant} for variant in variants.names]
    sd = spread == "sd"
    show = words.deviations(metric) if sd else words.intervals(metric)
    for dataset, findings in studies.items():
        for row in rows:
            row |= _cell(dataset, row["variant"], findings)
        field = f"_{dataset}_runs" if sd else dataset
        columns.append(Column(f"{dataset}{metric.unit}", field, show, sort=dataset, mark=f"_{dataset}_mark"))
    after = "standard deviation of the runs" if sd else f"{words.CONFIDENCE} interval"
    counts = [mean.n for findings in studies.values() for mean in findings.means.of_variants.values() if mean.n] or [0]
    equal = ", = equivalent" * (variants.margin is not None)
    caption = (
        f"{words.capital(metric.label)}: mean and {after}, {words.seeds(counts)}. Marks against "
        f"{variants.name(variants.baseline)}: + better, − worse{equal}, × not tested; no mark: none of these."
    )
    return Table("across", caption, pd.DataFrame(rows, dtype=object), tuple(columns), (NOTE,))


def _cell(dataset: str, variant: str, findings: Findings) -> dict[str, object]:
    """What a study has of a variant: fields that start with the name of its dataset."""
    mean, compared = findings.means.of(variant), findings.comparisons.versus[variant]
    deviation = float(moments([*findings.means.values[variant].values()])[1])
    verdict = verdict_fields(compared)
    return {
        dataset: mean,
        f"{dataset}_n": mean.n,
        f"{dataset}_sd": deviation,
        f"{dataset}_diff": difference_fields(compared)["_diff"],
        f"{dataset}_verdict": verdict["verdict"],
        f"_{dataset}_runs": (mean.value, deviation),
        f"_{dataset}_mark": "" if compared.verdict == "baseline" else verdict["_verdict_mark"],
    }


def by_dataset_document(study: Runs, page: Page = NO_PAGE) -> Document:
    """Make the report of a study that has the dataset among its factors: each dataset is a study of the other factors.

    Where runs of one dataset only have ended, it is the report of that dataset. Raises `UserError` where the datasets
    have different variants.
    """
    parts = {str(part.base[DATASET]): part for part in split_by_dataset(study)}
    started = {name: part for name, part in parts.items() if not part.of(*ENDED).empty} or parts
    check_alike(list(started.values()))
    findings = {name: analyze(part, page) for name, part in started.items()}
    missing = [Warn(f"{name} is left out: none of its runs has ended.") for name in parts if name not in started]
    if len(findings) == 1:
        document = study_document(next(iter(findings.values())))
    else:
        document = replace(across_document(findings), title=title(study), description=study.plan.description)
    listed = {run for part in started.values() for run in part.troubles}
    others = [(run, why) for run, why in sorted(study.troubles.items()) if run not in listed]
    return replace(document, warnings=[*missing, *document.warnings], excluded=[*document.excluded, *others])
