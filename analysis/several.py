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
from analysis.over_studies import by_dataset_document
from analysis.questions.pairs import compared_table, outcomes
from analysis.questions.provenance import origin, reproduce
from analysis.repeats import independent_groups
from analysis.report import headline, study_document, study_sections, warnings
from analysis.runs.by_dataset import datasets_of
from analysis.runs.joined import VARIANT, differing_settings, joined
from analysis.runs.runs import Runs
from analysis.runs.source_run import ENDED
from analysis.write.document import Code, Document, Facts, Section, Warn
from analysis.write.table import Column, Table
from experiments.errors import UserError

MOST_DIFFERING = 3  # settings that the answer names
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
    return replace(
        document,
        headline=(*(notes if len(variants) == 1 else []), " ".join(said), *document.headline),
        warnings=_warnings(studies),
        sections=[
            Section("compared", "Each variant", [compared_table("compared", caption, changes, policy.metric, notes)]),
            Section("settings", "Settings that differ", [Facts(_settings(studies, differing))]),
            *further,
            *_origins(studies, command),
        ],
        excluded=_excluded(studies),
    )


def _left_out(studies: Mapping[str, Findings], variants: Sequence[str], seeds: Sequence[int]) -> list[str]:
    """The variants and seeds that only one of the studies has."""
    notes = []
    for name, findings in studies.items():
        only = [variant for variant in findings.variants.names if variant not in variants]
        more = [seed for seed in findings.study.plan.seeds if seed not in seeds]
        parts = [words.names(only) if only else "", f"seeds {words.listing(more)}" if more else ""]
        if only or more:
            notes.append(f"Not compared, because only {name} has them: {'; '.join(filter(None, parts))}.")
    return notes


def _difference_sentence(differing: Sequence[tuple[str, str, str]], labels: Sequence[str]) -> str:
    (a, b), shown = labels, differing[:MOST_DIFFERING]
    cause = "Code, versions and hardware can cause a difference"
    if not differing:
        return f"The settings are the same. {cause}."
    listed = ", ".join(f"{path} ({a}: {before}; {b}: {now})" for path, before, now in shown)
    more = f" and {len(differing) - len(shown)} more" * (len(differing) > len(shown))
    return f"Settings that differ: {listed}{more}. {cause}, and so can each setting."


def _settings(
    studies: Mapping[str, Findings], differing: Sequence[tuple[str, str, str]]
) -> tuple[tuple[str, str], ...]:
    """What differs between two studies, and whether code, hardware and versions do."""
    (a, one), (b, other) = studies.items()

    def both(before: Any, now: Any) -> str:
        return f"{a}: {before}; {b}: {now}"

    plans = one.study.plan, other.study.plan
    facts = [(path, both(before, now)) for path, before, now in differing]
    stated = {name: [getattr(plan, name) for plan in plans] for name in ("margin", "baseline")}
    facts += [(name, both(before, now)) for name, (before, now) in stated.items() if before != now]
    for name in ("commit", "hardware", "versions"):
        columns = (findings.study.runs[name].dropna() for findings in studies.values())
        before, now = ("; ".join(sorted({text for text in column if text})) for column in columns)
        facts.append((name, "the same" if before == now else both(before or "unknown", now or "unknown")))
    return tuple(facts)


def _warnings(studies: Mapping[str, Findings]) -> list[Warn]:
    """The warnings on each study; `studies`: what the report calls a study -> the study."""
    stopping = [name for name, findings in studies.items() if findings.study.stated_plan.until_decided]
    own = [
        replace(warning, line=f"{name}: {warning.line}")
        for name, findings in studies.items()
        for warning in warnings(study_sections(findings))
    ]
    return [*([Warn(STOPPING.format(words.listing(stopping)))] if stopping else []), *own]


def _origins(studies: Mapping[str, Findings], command: str) -> list[Section]:
    """Where the runs of each study come from, and the command that makes the report."""
    sections = [
        Section(f"provenance-{i}", f"{name}: provenance", [origin(findings.study), *reproduce(findings).items])
        for i, (name, findings) in enumerate(studies.items())
    ]
    return [*sections, Section("reproduce", "Reproduce", [Code(command)])]


def _excluded(studies: Mapping[str, Findings]) -> list[tuple[str, str]]:
    """The records of each study that are not used."""
    return [(f"{name}: {run}", why) for name, f in studies.items() for run, why in sorted(f.study.troubles.items())]


def index_document(folder: Path, studies: Mapping[Path, Runs | UserError], out: Path) -> Document:
    """Make the index of the studies in a folder, and what they say about published claims.

    `studies`: their folders -> their runs, or why these cannot be read.
    """
    rows, analyzed = [], list[tuple[dict[str, str], Findings]]()
    for at, study in studies.items():
        page = at / "report" / "report.html"
        link = quote(os.path.relpath(page, out)) if page.is_file() else ""
        place = {"study": str(at.relative_to(folder)), "_link": link}
        row, findings = _index_row(study)
        rows.append(place | row)
        analyzed += [(place, findings)] if findings else []
    columns = (
        Column("study", "study", key=True, link="_link"),
        Column("state", "state"),
        Column("answer", "answer"),
        Column("setting", "setting", detail=True),
        Column("command", "command", detail=True),
    )
    caption = (
        "A study links to its report, where there is one. State: its planned runs. Answer: the first paragraph of its "
        "answer."
    )
    table = Table("studies", caption, pd.DataFrame(rows), columns)
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
    shown = {
        "data.name": "{}",
        "": f"{words.listing([words.count(n) for n in images])} training images" if images else "",
        "model.patch_size": "patches of {} px",
        "model.embed_dim": "width {}",
        "model.depth": "depth {}",
        "train.epochs": "{} epochs",
    }
    known = {path: study.base[path] for path in shown if path in study.base and path not in study.varied}
    parts = [text.format(known[path]) if path in known else "" if path else text for path, text in shown.items()]
    return f"{', '.join(filter(None, parts))}; factors: {words.listing(list(study.factors))}"
