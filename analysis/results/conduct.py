"""How a study was carried out: which runs count, how often it was looked at, and what a reader must be warned of."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from analysis import stats
from analysis.sources.runs_table import RunsTable
from analysis.sources.source_run import ENDED
from experiments.metric import Metric
from experiments.runs.looks import Look

STATUSES = ("finished", "diverged", "pruned", "incomplete", "unreadable")


@dataclass(frozen=True)
class Conduct:
    """The conduct of a study."""

    looks: tuple[Look, ...]
    """looks at different numbers of seeds, in order; the last one is this"""
    counts: pd.DataFrame
    """a row for each variant, a column for each of `STATUSES`"""
    planned: int
    finished: int
    excluded: dict[str, list[str]]
    """status -> what the runs with another status than "finished" are called; "unplanned" is such a status"""
    divergence: dict[str, stats.Estimate]
    """variant -> share of its ended runs that diverged, with its exact interval"""
    batches: stats.BatchEffect
    """finished runs of different hardware or commits, compared by the study's metric"""


def study_conduct(study: RunsTable) -> Conduct:
    """The conduct of a study, as its records are now."""
    counts = pd.crosstab(study.runs["variant"], study.runs["status"])
    counts = counts.reindex(index=study.variants, columns=list(STATUSES), fill_value=0)
    runs = {status: _named(study.of(status)) for status in (*STATUSES[1:], "unplanned")}
    finished = study.of("finished")
    return Conduct(
        looks=study_looks(study),
        counts=counts,
        planned=len(study.runs) - len(runs["unplanned"]),
        finished=len(finished),
        excluded={status: names for status, names in runs.items() if names},
        divergence=_divergence(study),
        batches=_batches(finished, study.metric),
    )


def _named(runs: pd.DataFrame) -> list[str]:
    columns = zip(runs["run"], runs["variant"], runs["seed"])
    return [f"{variant}, seed {seed}" if variant else run for run, variant, seed in columns]


def this_look(study: RunsTable) -> Look:
    """The look that a report of the study is now."""
    counts = study.of("finished")["variant"].value_counts().reindex(study.variants, fill_value=0)
    return Look.now(map(int, counts), study.metric, "vit-report")


def study_looks(study: RunsTable) -> tuple[Look, ...]:
    """The recorded looks of the metric before this one, and this one."""
    this = this_look(study)
    earlier = [look for look in study.looks if look.metric == this.metric]
    place = next((i for i, look in enumerate(earlier) if look.same(this)), len(earlier))
    return (*earlier[:place], this)


def _divergence(study: RunsTable) -> dict[str, stats.Estimate]:
    """Runs that were stopped early do not count: whether they would have diverged is not known."""
    ended = study.of(*ENDED)
    counts = pd.crosstab(ended["variant"], ended["status"])
    counts = counts.reindex(index=study.variants, columns=["finished", "diverged"], fill_value=0)
    rates = stats.proportion(counts["diverged"].to_numpy(), counts.sum(axis=1).to_numpy())
    return dict(zip(study.variants, rates, strict=True))


def _batches(finished: pd.DataFrame, metric: Metric) -> stats.BatchEffect:
    batch = finished["hardware"].fillna("").astype(str) + " " + finished["commit"].fillna("").astype(str)
    return stats.batch_effect(finished.assign(batch=batch), metric, "batch")
