"""The section "Provenance": code, versions, hardware, total time, and the settings that all runs share."""

from __future__ import annotations

import hashlib

import pandas as pd

from analysis import formatting
from analysis.report.document import Facts, Section
from analysis.report.text import facts
from analysis.sources.held_fixed import not_held_fixed
from analysis.sources.runs_table import RunsTable
from analysis.sources.settings import PLACES
from analysis.sources.source_run import ENDED
from experiments.metric import METRICS


def provenance(study: RunsTable) -> Section:
    """Return the section; `origin` is its first item."""
    varied = {*varying(study), *PLACES}
    shared = tuple((path, _setting(value)) for path, value in study.base.items() if path not in varied)
    settings = [Facts(shared, "Settings of all runs")] if shared else []
    return Section("provenance", "Provenance", [origin(study), *settings])


def origin(study: RunsTable) -> Facts:
    """Where the numbers come from."""
    ended = study.of(*ENDED)
    wall = ended["wall_seconds"] / ended["cohort"].fillna(1)  # the runs of a cohort share its time
    times = ended[["started", "finished"]].dropna()
    terms = facts(
        "provenance",
        "origin",
        commits=[
            {"name": None if pd.isna(commit) else commit, "dirty": dirty is True, "n": len(runs), "seeds": _seeds(runs)}
            for (commit, dirty), runs in ended.groupby(["commit", "dirty"], dropna=False, sort=True)
        ],
        plugins=_counts(ended["plugin_digest"]),
        versions=_counts(ended["versions"]),
        hardware=_counts(ended["hardware"]),
        wall=wall.sum(min_count=1),
        device=ended["device_seconds"].sum(min_count=1),
        runs=len(ended),
        dates=[times["started"].min(), times["finished"].max()] if len(times) else [],
        digest=digest(study),
    )
    return Facts(terms)


def digest(study: RunsTable) -> str:
    """Return one digest of all records: equal digests mean equal records.

    It is the SHA-256 of the runs' digests, sorted. Where the source has none, it is that of each run's status and metrics.
    """
    known = sorted(study.runs["digest"].dropna())
    if not known:
        known = sorted(study.runs[["run", "status", *METRICS]].to_csv(index=False).splitlines())
    return hashlib.sha256("\n".join(known).encode()).hexdigest()


def varying(study: RunsTable) -> set[str]:
    """Return the settings that differ between runs: the factors, those that were tuned, and what was not held fixed."""
    return {*study.varied, *study.plan.tuned_settings, *not_held_fixed(study)}


def _counts(column: pd.Series) -> dict[str, int]:
    """The values with the number of runs that have them, the most frequent first."""
    counts = column.dropna().value_counts()
    return dict(sorted(counts[counts.index != ""].items(), key=lambda item: (-item[1], item[0])))


def _seeds(runs: pd.DataFrame) -> str:
    """`0 to 4`, or `0, 2 and 5`."""
    seeds = sorted(set(runs["seed"]))
    if len(seeds) > 2 and seeds == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]} to {seeds[-1]}"
    return formatting.listing([str(seed) for seed in seeds])


def _setting(value: object) -> str:
    return "not set" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
