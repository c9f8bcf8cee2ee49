"""Make the report that compares two studies: two commits, two scales or two datasets. Results in, a document out."""

from __future__ import annotations

from analysis import formatting
from analysis.comparison import Change, TwoStudies, compare_studies
from analysis.figures.comparison_figure import comparison_plot
from analysis.formatting import quoted
from analysis.report.document import Code, Document, Facts, Section
from analysis.report.methods import scope
from analysis.report.phrases import alpha_text, by_points, interval_text, names, range_text
from analysis.report.provenance import study_provenance
from analysis.report.study_report import summary
from analysis.report.tables.cells import margin_text
from analysis.report.tables.compared import compared_table, verdicts_table
from analysis.report.warnings import warnings
from analysis.results.study_results import StudyResults
from analysis.sources.matching import differing_settings
from analysis.sources.runs_table import ENDED, IMAGES, RunsTable
from analysis.sources.settings import PLACES
from experiments.config import LOCATIONS, locations
from experiments.data.catalogue import DATASETS

MOST_SETTINGS = 3  # differing settings that the headline names; the others are counted


def compare_document(a: StudyResults, b: StudyResults, command: str) -> Document:
    """Make the report on studies A and B; `command` is the command that makes it.

    Raises `UserError` if the studies share no variant or have different metrics.
    """
    both = compare_studies(a, b)
    studies = {"A": a, "B": b}
    return Document(
        title=f"{a.study.name} (A) and {b.study.name} (B): {a.study.metric.label}",
        description="",
        summary=" ".join(f"{name}: {summary(results)}" for name, results in studies.items()),
        headline=_headline(both),
        warnings=[f"{name}: {warning}" for name, results in studies.items() for warning in warnings(results)],
        sections=[
            Section("result", "Results", [compared_table(both), comparison_plot(both)]),
            Section("verdicts", "Differences from the baseline", [verdicts_table(both)]),
            Section("settings", "Settings that differ", [Facts(tuple(_settings(both)))]),
            _methods(both),
            *(study_provenance(f"provenance-{name.lower()}", name, results.study) for name, results in studies.items()),
            Section("reproduce", "Reproduce", [Code(command)]),
        ],
    )


def _headline(both: TwoStudies) -> tuple[str, ...]:
    metric = both.a.study.metric
    first = f"{metric.label.capitalize()} of the variants in both studies: {_sentence(both, both.changes, 'in both studies')}."
    if not both.shifts:
        second = "The studies share no variant besides the baselines, so no differences from a baseline are compared."
    else:
        bases = [quoted(each.study.baseline) for each in (both.a, both.b)]
        from_which = (
            "the baseline" if bases[0] == bases[1] else f"each study's own baseline (A: {bases[0]}; B: {bases[1]})"
        )
        needed = "in both studies, also for the baseline"
        found = _sentence(both, both.shifts, needed, "that of ", "those of ")
        second = f"Difference from {from_which}: {found}."
    tests = f"Paired t tests of B − A, Holm-adjusted, alpha = {alpha_text()}."
    return first, second, *_on_diverged(both), f"{tests} {_limit(both)}"


def _on_diverged(both: TwoStudies) -> tuple[str, ...]:
    """Which outcomes depend on diverged runs; empty if no run diverged."""
    lost = [(name, len(results.study.of("diverged"))) for name, results in (("A", both.a), ("B", both.b))]
    runs = formatting.listing([f"{formatting.plural(n, 'run')} of {name}" for name, n in lost if n])
    if not runs:
        return ()
    found = [formatting.quoted(change.variant) for change in both.changes if change.depends_on_diverged]
    shifts = [formatting.quoted(change.variant) for change in both.shifts if change.depends_on_diverged]
    said = [f"on {formatting.listing(found)}"] * bool(found)
    said += [f"on the change of the difference of {formatting.listing(shifts)}"] * bool(shifts)
    outcome = f"The outcomes {' and '.join(said)} are other ones" if said else "The outcomes stay the same"
    return (f"{runs} diverged; the tests use the other runs. {outcome} if diverged runs are counted at chance level.",)


def _limit(both: TwoStudies) -> str:
    differing = [f"{name} ({values})" for name, values in _differing_settings(both)]
    if not differing and _other_images(both):
        return (
            "The settings are the same, but the images are not, so a difference can come from them, or from code, versions "
            "or hardware."
        )
    if not differing:
        return "The settings are the same, so a difference can come from code, versions or hardware."
    shown = differing[:MOST_SETTINGS]
    if more := len(differing) - len(shown):
        shown.append(formatting.plural(more, "other setting"))
    any_of = (
        "any of them can cause a difference" if len(differing) > 1 else "this, code or hardware can cause a difference"
    )
    return f"The studies differ in {formatting.listing(shown)}; {any_of}."


def _sentence(both: TwoStudies, changes: list[Change], needed: str, one: str = "", many: str = "") -> str:
    """`learned-1d is lower in B, by 3.2 points (95 % CI 2.8 to 3.6); none is not significantly different`.

    `needed`: where two seeds must have finished for a test.
    """
    phrases = {
        "higher": "higher in B",
        "lower": "lower in B",
        "equivalent": f"equivalent (within ±{margin_text(both.a)})",
        "not enough evidence": "not significantly different",
    }
    said, tested = [], [change for change in changes if change.diff.n > 1]
    untested = [change.variant for change in changes if change.diff.n < 2]
    for word, phrase in phrases.items():
        if found := [change for change in tested if change.word == word]:
            several = len(found) > 1
            listed = names([change.variant for change in found]) or f"{len(found)} of {len(changes)} variants"
            sizes = _sizes(both, word, found)
            said.append(f"{many if several else one}{listed} {'are' if several else 'is'} {phrase}{sizes}")
    if untested:
        listed = names(untested) or f"{len(untested)} of {len(changes)} variants"
        said.append(
            f"{many if len(untested) > 1 else one}{listed} cannot be tested: a test needs two seeds that have finished {needed}"
        )
    return "; ".join(said)


def _sizes(both: TwoStudies, word: str, changes: list[Change]) -> str:
    """`, by 3.2 points (95 % CI 2.8 to 3.6)`; for several variants the range of their differences."""
    metric = both.a.study.metric
    if word not in ("higher", "lower"):
        return ""
    if len(changes) > 1:
        return f", by {range_text([change.diff for change in changes], metric)}"
    return f", by {by_points(changes[0].diff, metric)} ({interval_text(changes[0].diff, metric)})"


def _settings(both: TwoStudies) -> list[tuple[str, str]]:
    """Settings, margin and baseline that differ; whether code, hardware and versions do."""
    a, b, facts = both.a, both.b, _differing_settings(both)
    for name, one, two in (
        ("margin", a.study.margin, b.study.margin),
        ("baseline", a.study.baseline, b.study.baseline),
    ):
        if one != two:
            facts.append((name, f"A: {one}; B: {two}"))
    for name, column, same, unknown in (
        ("commit", "commit", "the same", "not in a git checkout"),
        ("hardware", "hardware", "the same", "unknown"),
        ("versions", "versions", "the same", "unknown"),
    ):
        one, two = ("; ".join(sorted(each.study.runs[column].dropna().unique())) or unknown for each in (a, b))
        facts.append((name, same if one == two else f"A: {one}; B: {two}"))
    if images := _other_images(both):
        facts.append(("images", images))
    return facts


def _other_images(both: TwoStudies) -> str:
    """How the images of a variant of both studies differ, by their records; empty where they do not."""
    a, b = (results.study.of(*ENDED).set_index("variant") for results in (both.a, both.b))
    for variant in both.shared:
        for column in (*IMAGES, "image_files"):
            one, two = (
                sorted(set(runs.loc[[variant], column].dropna())) if variant in runs.index else [] for runs in (a, b)
            )
            if one and two and one != two:
                return "other files" if column == "image_files" else _counts(column, one, two)
    return ""


def _counts(column: str, one: list[float], two: list[float]) -> str:
    """`train images: A: 800; B: 900`"""
    a, b = (", ".join(f"{n:,.0f}" for n in counts) for counts in (one, two))
    return f"{column.partition('_')[0]} images: A: {a}; B: {b}"


def _differing_settings(both: TwoStudies) -> list[tuple[str, str]]:
    """Settings besides the factors that differ between the bases of the studies, or between the runs of a variant of both.

    A setting that is not recorded is not compared.
    """
    a, b = both.a.study, both.b.study
    ignored = {*_places(a, b), *a.varied, *b.varied}
    found = {
        path: (a.base[path], b.base[path])
        for path in a.base
        if path in b.base and a.base[path] != b.base[path] and path not in ignored
    }
    for path, one, two in differing_settings(a, b, both.shared):
        found.setdefault(path, (one, two))
    return [(path, f"A: {one}; B: {two}") for path, (one, two) in found.items()]


def _places(a: RunsTable, b: RunsTable) -> tuple[str, ...]:
    """The settings that only say where files are, or which seed a run has. The folder of an image folder is its name."""
    names = {str(study.base.get("data.name")) for study in (a, b)}
    kept = {path for name in names & DATASETS.keys() for path in set(LOCATIONS) - set(locations(name))}
    return tuple(path for path in PLACES if path not in kept)


def _methods(both: TwoStudies) -> Section:
    facts = (
        (
            "B − A",
            "The mean, over the seeds that both studies have, of the difference between the two runs with the same "
            "seed, with Student's t interval at 95 %.",
        ),
        ("p", "Paired t test, Holm-adjusted over the variants."),
        (
            "Outcome",
            f'At alpha = {alpha_text()}: "equivalent" if two one-sided t tests, Holm-adjusted, show that the difference '
            f'is within A\'s margin of ±{margin_text(both.a)}; otherwise "higher" or "lower" if the difference is '
            'significant; otherwise "not enough evidence".',
        ),
        (
            "Change of a difference",
            "The difference from the baseline in B − the difference from the baseline in A, for each seed that all four "
            "runs have, tested in the same way.",
        ),
        (
            "Diverged runs",
            "The tests use the finished runs. Each is made again with diverged runs at chance level. Where the outcome is "
            "another one, or chance level is not known, the outcome depends on diverged runs.",
        ),
        *dict.fromkeys((scope(both.a), scope(both.b))),
        *(
            (("Looks", "The tests of B − A are made for one look; looks that a study plans are for its own tests."),)
            if both.a.policy.plan or both.b.policy.plan
            else ()
        ),
        ("Other methods", "As in the report of each study."),
    )
    return Section("methods", "Methods", [Facts(facts)])
