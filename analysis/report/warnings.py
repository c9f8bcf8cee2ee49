"""Say what a reader must know before trusting the numbers. Results in, sentences out."""

from __future__ import annotations

from analysis import formatting
from analysis.report.audit import audit_warnings
from analysis.report.sections.tuning import tuning_warnings
from analysis.results.study_results import StudyResults
from analysis.sources.held_fixed import changed_images, not_held_fixed, unrecorded_plugins
from analysis.sources.runs_table import RunsTable
from analysis.sources.source_run import ENDED

SLOW = 2.0  # a run is reported as slow from this multiple of the median of its variant on its hardware
MOST_VALUES = 6  # values of a setting that are listed


def warnings(results: StudyResults) -> list[str]:
    """Return every warning, the most important first."""
    study = results.study
    return [
        *study.plan.notes,
        *_settings(study),
        *(tuning_warnings(results.tuning) if results.tuning is not None else ()),
        *_images(study),
        *audit_warnings(results),
        *_excluded(study),
        *_code(study),
        *_time(results),
    ]


def _settings(study: RunsTable) -> list[str]:
    return [
        f"{path} was not held fixed ({formatting.listing(values[:MOST_VALUES])}) and is not a factor of the study. "
        "It may explain a difference between variants."
        for path, values in not_held_fixed(study).items()
    ]


def _images(study: RunsTable) -> list[str]:
    changed = changed_images(study)
    if not changed:
        return []
    return [
        f"The images were changed between runs of {formatting.listing(changed[:MOST_VALUES])}: the records differ in the "
        "numbers of images or in the hash of their files. Runs on different images are compared here as if they were paired."
    ]


def _excluded(study: RunsTable) -> list[str]:
    planned = len(study.runs) - len(study.of("unplanned"))
    reasons = {
        "diverged": "diverged and are excluded from all means",
        "unreadable": "could not be read and are excluded from all means",
        "pruned": "were pruned (stopped early because of low results) and are excluded. This biases the means upwards",
    }
    return [
        f"{lost} of {planned} runs {reason}." for status, reason in reasons.items() if (lost := len(study.of(status)))
    ]


def _code(study: RunsTable) -> list[str]:
    ended, said = study.of(*ENDED), []
    if len(commits := ended["commit"].dropna().unique()) > 1:
        said.append(f"The runs come from {len(commits)} different commits, listed under Provenance.")
    if ended["dirty"].eq(True).any():
        said.append("Some runs come from code with uncommitted changes, listed under Provenance.")
    return said + _plugins(study)


def _plugins(study: RunsTable) -> list[str]:
    said = []
    if len(lost := unrecorded_plugins(study)):
        kinds = formatting.listing(sorted(lost["model.pos_embed"].unique()))
        said.append(
            f"{formatting.plural(len(lost), 'run')} of the plug-in {kinds}: source not recorded. "
            "Nothing shows that all of them trained the same code."
        )
    if study.of(*ENDED)["plugin_committed"].eq(False).any():
        said.append("The source of a plug-in is not committed to git. The records hold a copy, shown under Reproduce.")
    return said


def _time(results: StudyResults) -> list[str]:
    said = []
    if len(machines := results.study.of(*ENDED)["hardware"].dropna().unique()) > 1:
        said.append(
            f"The runs used {len(machines)} kinds of hardware, listed under Provenance. "
            "Times are comparable only between runs on the same hardware."
        )
    slow = results.cost["slowest"].dropna()
    if not slow.empty and slow.max() > SLOW:
        said.append(
            f"Times are uneven: one run of {slow.idxmax()} took {slow.max():.1f} times the median of its variant, "
            "probably because the machine was busy. So the times of variants cannot be compared. Accuracies are not affected."
        )
    return said
