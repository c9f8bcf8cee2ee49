"""The metrics of each variant: their values, means and spread."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from analysis import stats
from analysis.results.policy import smallest_sd
from analysis.sources.runs_table import RunsTable
from analysis.sources.source_run import ENDED
from experiments.metric import Metric


@dataclass(frozen=True)
class Means:
    """Values and estimates, in the data's units (accuracies as fractions)."""

    metric: Metric
    values: dict[str, dict[int, float]]
    """variant -> seed -> the study's metric; NaN where the run has no final value (diverged, pruned)"""
    by_metric: dict[str, dict[str, stats.Estimate]]
    """metric -> variant -> its mean; the metrics that some run has measured, and the study's"""

    def of(self, variant: str) -> stats.Estimate:
        """The variant's mean of the study's metric."""
        return self.by_metric[self.metric][variant]

    @property
    def all_best(self) -> list[str]:
        """The variants with the best mean of the study's metric; several where they are equal."""
        known = {variant: mean.value for variant, mean in self.by_metric[self.metric].items() if mean.n}
        best = (min if self.metric.lower_is_better else max)(known.values(), default=None)
        return [variant for variant, value in known.items() if value == best]

    @property
    def best(self) -> str | None:
        """The first of the variants with the best mean; None where no variant has one."""
        return next(iter(self.all_best), None)


def study_means(study: RunsTable) -> Means:
    """The means over finished runs."""
    finished, metric, variants = study.of("finished"), study.metric, study.variants
    values = values_by_seed(study.of(*ENDED), metric, variants)
    floor = smallest_sd(finished, metric)
    measured = [other for other in study.metrics if finished[other].notna().any()]
    by_metric: dict[str, dict[str, stats.Estimate]] = {
        other: _means(finished, other, variants, smallest_sd(finished, other)) for other in measured
    }
    by_metric.setdefault(metric, _means(finished, metric, variants, floor))
    return Means(metric, values, by_metric)


def values_by_seed(ended: pd.DataFrame, metric: str, variants: list[str]) -> dict[str, dict[int, float]]:
    """variant -> seed -> value; NaN for a run that did not finish, so that the seed counts as dropped, not as
    absent.
    """
    values: dict[str, dict[int, float]] = {variant: {} for variant in variants}
    for variant, seed, status, value in zip(ended["variant"], ended["seed"], ended["status"], ended[metric]):
        values[variant][int(seed)] = float(value) if status == "finished" else float("nan")
    return values


def _means(finished: pd.DataFrame, metric: str, variants: list[str], floor: float) -> dict[str, stats.Estimate]:
    by_variant = dict(list(finished.groupby("variant", sort=False)[metric]))
    return {
        variant: stats.mean(by_variant[variant].to_numpy() if variant in by_variant else [math.nan], floor=floor)
        for variant in variants
    }
