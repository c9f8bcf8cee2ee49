"""Make the report that compares two studies, and the index of the studies in a folder."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from analysis import words
from analysis.findings import Findings, analyze
from analysis.findings.conduct import Conduct, study_conduct
from analysis.ledger import ledger_rows, ledger_section, mark_strict
from analysis.over_studies import all_excluded, all_origins, all_warnings, by_dataset_document
from analysis.questions.pairs import compared_table, outcomes
from analysis.repeats import independent_groups
from analysis.report import headline, study_document, study_sections
from analysis.runs.by_dataset import datasets_of
from analysis.runs.joined import VARIANT, differing_settings, joined
from analysis.runs.runs import Runs
from analysis.runs.source_run import ENDED
from analysis.write.document import Document, Facts, Section, Warn
from analysis.write.table import Column, Table
from experiments.errors import UserError

COLUMNS = (
    Column("study", "study", key=True, link="_link"),
    *(Column(name, name) for name in ("state", "answer")),
    *(Column(name, name, detail=True) for name in ("setting", "command")),
)
CAPTION = (
    "A study links to its report, where there is one. State: its planned runs. Answer: the first paragraph of its "
    "answer."
)
MOST_DIFFERING = 3  # settings that the answer names
SETTING = {
    "data.name": "{}",
    "model.patch_size": "patches of {} px",
    "model.embed_dim": "width {}",
    "model.depth": "depth {}",
    "train.epochs": "{} epochs",
}  # a setting that the index shows of a study -> its text
STOPPING = "Variants of {} get no more seeds once they are decided. The tests of this report do not account for that."


def compare_document(a: Findings, b: Findings, command: str, labels: Sequence[str] = "AB") -> Document:
    """Make the report on studies A and B; `command` is the command that makes it. Raises the errors of `joined`.

    It is the report of one study that has the study among its factors, with the difference of each variant between A
    and B first. `labels`: what it calls the two.
    """
    studies = dict(zip(labels, (a, b), strict=True))
    both = analyze(joined({name: findings.study for name, findings in studies.items()}, command))
    document, variants, policy = study_document(both), both.study.factors[VARIANT], both.policy
    pairs = [(f"{labels[1]}: {variant}", f"{labels[0]}: {variant}") for variant in variants]
    changes = dict(zip(variants, policy.compare(both.means.values, pairs).values(), strict=True))
    differing = differing_settings(a.study, b.study, variants)
    notes = _left_out(studies, variants, both.study.plan.seeds)
    half = ", at half of the 5 %" * policy.has_grid
    caption = (
        f"{labels[1]} − {labels[0]} for each variant of both, over the seeds of both. Intervals hold for all these "
        f"variants together{half}; the pairs and factors below are another family. Looks that a study plans are for "
        "its own tests."
    )
    tested = {variant: one for variant, one in changes.items() if one.n > 1}
    untested = [variant for variant in changes if variant not in tested]
    said = [
        f"{labels[1]} compared with {labels[0]}, each variant by its runs with the same seeds.",
        *outcomes(tested, labels[0], policy),
        *([f"Not tested, for lack of two seeds that finished in both: {words.names(untested)}."] if untested else []),
        _difference_sentence(differing, labels),
    ]
    further = [section for section in document.sections if section.id not in ("provenance", "reproduce")]
    stopping = [name for name, findings in studies.items() if findings.study.stated_plan.until_decided]
    stopped = [Warn(STOPPING.format(words.listing(stopping)))] * bool(stopping)
    return replace(
        document,
        headline=(*(notes if len(variants) == 1 else []), " ".join(said), *document.headline),
        warnings=[*stopped, *all_warnings({name: study_sections(findings) for name, findings in studies.items()})],
        sections=[
            Section("compared", "Each variant", [compared_table("compared", caption, changes, policy.metric, notes)]),
            Section("settings", "Settings that differ", [_settings(studies, differing)]),
            *further,
            *all_origins(studies, command),
        ],
        excluded=all_excluded(studies),
    )


def _left_out(studies: Mapping[str, Findings], variants: Sequence[str], seeds: Sequence[int]) -> list[str]:
    """The variants and seeds that only one of the studies has."""
    notes = []
    for name, findings in studies.items():
        only = [variant for variant in findings.variants.names if variant not in variants]
        more = [seed for seed in findings.study.plan.seeds if seed not in seeds]
        if parts := [words.names(only)] * bool(only) + [f"seeds {words.listing(more)}"] * bool(more):
            notes.append(f"Not compared, because only {name} has them: {'; '.join(parts)}.")
    return notes


def _difference_sentence(differing: Sequence[tuple[str, str, str]], labels: Sequence[str]) -> str:
    (a, b), shown = labels, differing[:MOST_DIFFERING]
    cause = "Code, versions and hardware can cause a difference"
    if not differing:
        return f"The settings are the same. {cause}."
    listed = ", ".join(f"{path} ({a}: {before}; {b}: {now})" for path, before, now in shown)
    more = f" and {len(differing) - len(shown)} more" * (len(differing) > len(shown))
    return f"Settings that differ: {listed}{more}. {cause}, and so can each setting."


def _settings(studies: Mapping[str, Findings], differing: Sequence[tuple[str, str, str]]) -> Facts:
    """What differs between two studies, and whether code, hardware and versions do."""
    plans = [findings.study.plan for findings in studies.values()]
    stated = [(name, *(getattr(plan, name) for plan in plans)) for name in ("margin", "baseline")]
    rows: list[Any] = [*differing, *(row for row in stated if row[1] != row[2])]
    for name in ("commit", "hardware", "versions"):
        columns = (findings.study.runs[name].dropna() for findings in studies.values())
        rows.append((name, *("; ".join(sorted({*column} - {""})) or "unknown" for column in columns)))
    (a, b), same = studies, "the same"
    return Facts(tuple((name, same if was == now else f"{a}: {was}; {b}: {now}") for name, was, now in rows))


def index_document(folder: Path, studies: Mapping[Path, Runs | UserError], out: Path) -> Document:
    """Make the index of studies and what they say about claims; `studies`: folder -> runs, or why it cannot be read."""
    rows, analyzed = [], list[tuple[dict[str, str], Findings]]()
    for at, study in studies.items():
        page = at / "report" / "report.html"
        link = quote(os.path.relpath(page, out)) if page.is_file() else ""
        place = {"study": str(at.relative_to(folder)), "_link": link}
        row, findings = _index_row(study)
        rows.append(place | row)
        analyzed += [(place, findings)] if findings else []
    table = Table("studies", CAPTION, pd.DataFrame(rows), COLUMNS)
    groups = independent_groups({str(at.relative_to(folder)): s for at, s in studies.items() if isinstance(s, Runs)})
    claims = [place | row for place, findings in analyzed for row in ledger_rows(findings)]
    families = len({(row["study"], row["metric"]) for row in claims})
    strict = [place | row for place, findings in analyzed for row in ledger_rows(findings, families)] if claims else []
    left = [f"{row['study']}: {row['state']}" for row in rows if row["_left"]]
    complete = f"{words.plural(len(rows), 'study', 'studies')}, {len(rows) - len(left)} complete."
    sections = [Section("studies", "Studies", [table]), *ledger_section(mark_strict(claims, strict), groups)]
    return Document(f"Studies in {folder.resolve().name}", "", "", (complete, *left), [], sections)


def _index_row(study: Runs | UserError) -> tuple[dict[str, Any], Findings | None]:
    """A study's state, the first paragraph of its answer, its setting; its findings where it has one dataset."""
    row: dict[str, Any] = {"state": "", "_left": True, "answer": "", "setting": "", "command": ""}
    try:
        if isinstance(study, UserError):
            raise study
        conduct = study_conduct(study)
        row |= {"state": _state(conduct), "_left": "incomplete" in conduct.excluded}
        if study.plan.base:
            row |= {"setting": _setting(study), "command": study.plan.command or ""}
        if study.of(*ENDED).empty:
            return row, None
        if len(datasets_of(study)) > 1:
            return row | {"answer": " ".join(by_dataset_document(study).headline)}, None
        findings = analyze(study)
        return row | {"answer": headline(study_sections(findings))[0]}, findings
    except UserError as error:
        return row | {"state": f"Not read: {error}", "_left": True}, None


def _state(conduct: Conduct) -> str:
    left = "In progress" if "incomplete" in conduct.excluded else "Complete"
    others = "".join(f", {len(runs)} {status}" for status, runs in conduct.excluded.items())
    return f"{left}: {conduct.finished} of {conduct.planned} runs finished{others}."


def _setting(study: Runs) -> str:
    """What the runs of a study share: dataset, images, size of the model, epochs; and its factors."""
    recorded = sorted({int(n) for n in study.runs["train_images"].dropna()})
    images = recorded or [n for n in [study.base.get("data.train_limit")] if n]
    known = {path: study.base[path] for path in SETTING if path in study.base and path not in study.varied}
    parts = {path: SETTING[path].format(value) for path, value in known.items()}
    counted = f"{words.listing([words.count(n) for n in images])} training images" if images else ""
    shown = filter(None, [parts.pop("data.name", ""), counted, *parts.values()])
    return f"{', '.join(shown)}; factors: {words.listing(list(study.factors))}"
