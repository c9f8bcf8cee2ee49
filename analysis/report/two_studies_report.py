"""Make the report that compares two studies: two commits, two scales or two datasets. Results in, a document out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from analysis.report.document import Code, Document, Facts, Section
from analysis.report.methods import scope
from analysis.report.provenance import study_provenance
from analysis.report.sections.two_studies import result_section, settings_section, shifts_section
from analysis.report.study_report import summary
from analysis.report.tables.cells import counts_note
from analysis.report.text import facts, text
from analysis.report.warnings import warnings
from analysis.results.study_results import StudyResults
from analysis.results.two_studies import TwoStudies, compare_studies, outcome
from analysis.sources.matching import differing_settings
from analysis.stats import PairedComparison

MOST_SETTINGS = 3  # differing settings that the headline names; the others are counted


def compare_document(a: StudyResults, b: StudyResults, command: str) -> Document:
    """Make the report on studies A and B; `command` is the command that makes it.

    Raises `UserError` if the studies share no variant or have different metrics.
    """
    both, sides = compare_studies(a, b), {"A": a, "B": b}
    settings = differing_settings(a.study, b.study, both.shared)
    baselines = [results.study.baseline for results in sides.values()]
    notes = [
        text("two_studies", "only", study=name, variants=only)
        for name, results in sides.items()
        if (only := [variant for variant in results.variants.names if variant not in both.shared])
    ]
    notes += [f"{name}: {counts_note(results)}" for name, results in sides.items()]
    planned = bool(a.policy.plan or b.policy.plan)
    methods = facts("two_studies", "methods", metric=both.metric, policy=a.policy, planned=planned)
    return Document(
        title=text("two_studies", "title", a=a.study.name, b=b.study.name, metric=both.metric),
        description="",
        summary=" ".join(f"{name}: {summary(results)}" for name, results in sides.items()),
        headline=_headline(both, sides, baselines, settings),
        warnings=[f"{name}: {warning}" for name, results in sides.items() for warning in warnings(results)],
        sections=[
            result_section(both, [a.means, b.means], notes),
            shifts_section(both, [a.comparisons.versus, b.comparisons.versus], baselines),
            settings_section(settings, [a.study, b.study]),
            Section("methods", "Methods", [Facts((*methods, *dict.fromkeys(map(scope, sides.values()))))]),
            *(study_provenance(f"provenance-{name.lower()}", name, results.study) for name, results in sides.items()),
            Section("reproduce", "Reproduce", [Code(command)]),
        ],
    )


def _headline(
    both: TwoStudies,
    sides: Mapping[str, StudyResults],
    baselines: Sequence[str],
    settings: Sequence[tuple[str, str, str]],
) -> tuple[str, ...]:
    policy, lost = sides["A"].policy, {name: len(results.study.of("diverged")) for name, results in sides.items()}
    said = [text("two_studies", "changes", both=both, margin=policy.margin, **_groups(both.changes))]
    if both.shifts:
        groups = _groups(both.shifts)
        said.append(text("two_studies", "shifts", both=both, margin=policy.margin, baselines=baselines, **groups))
    else:
        said.append(text("two_studies", "no_shifts"))
    if any(lost.values()):
        changes, shifts = (
            [variant for variant, change in compared.items() if change.depends_on_diverged]
            for compared in (both.changes, both.shifts)
        )
        lost = {name: n for name, n in lost.items() if n}
        said.append(text("two_studies", "diverged", lost=lost, changes=changes, shifts=shifts))
    shown, more = settings[:MOST_SETTINGS], len(settings[MOST_SETTINGS:])
    return *said, text("two_studies", "limit", alpha=policy.alpha, settings=shown, more=more)


def _groups(changes: Mapping[str, PairedComparison]) -> dict[str, Any]:
    """The variants by outcome with their differences, and those that could not be tested."""
    groups = {
        word: {v: change.diff for v, change in changes.items() if change.n > 1 and outcome(change) == word}
        for word in ("higher", "lower", "equivalent", "not enough evidence")
    }
    return {"groups": groups, "untested": [variant for variant, change in changes.items() if change.n < 2]}
