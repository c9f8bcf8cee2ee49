"""The metrics of each variant: their values, means and spread."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis import verdicts, words
from analysis.runs.runs import Runs
from analysis.verdicts.estimates import moments
from experiments.metric import Metric


@dataclass(frozen=True)
class Means:
    """Values and estimates, in the data's units (accuracies as fractions)."""

    metric: Metric
    values: pd.DataFrame  # the study's metric of each seed (rows) and variant (columns); NaN without a result
    by_metric: dict[str, dict[str, verdicts.Estimate]]
    """metric -> variant -> its mean; the metrics that some run has measured, and the study's"""
    deviations: dict[str, dict[str, float]]
    """metric -> variant -> the standard deviation of its runs; NaN for one run, and for equal values"""

    @property
    def of_variants(self) -> dict[str, verdicts.Estimate]:
        """Variant -> its mean of the study's metric."""
        return self.by_metric[self.metric]

    def of(self, variant: str) -> verdicts.Estimate:
        """The variant's mean of the study's metric."""
        return self.by_metric[self.metric][variant]

    def text(self, variant: str) -> str:
        """The variant's mean as text, with the decimals that all means share: `72.4 %`."""
        return words.value(self.of(variant), self.metric, words.shared_places(self.of_variants.values(), self.metric))

    def best_of(self, variants: Collection[str]) -> list[str]:
        """Those of the variants with the best mean of the study's metric; several where they are equal."""
        means = {variant: mean.value for variant, mean in self.of_variants.items() if mean.n and variant in variants}
        best = (min if self.metric.lower_is_better else max)(means.values(), default=None)
        return [variant for variant, value in means.items() if value == best]

    @property
    def best(self) -> str | None:
        """The first of the variants with the best mean; None where no variant has one."""
        return next(iter(self.best_of(self.values)), None)


def study_means(study: Runs, values: pd.DataFrame) -> Means:
    """The means over finished runs. `values`: see `Means`."""
    finished, metric = study.of("finished"), study.metric
    measured = [other for other in study.metrics if finished[other].notna().any()]
    row = finished["variant"].map({variant: place for place, variant in enumerate(values)}).to_numpy(dtype=int)
    column = finished.groupby("variant").cumcount().to_numpy()
    by_metric, deviations = dict[str, dict[str, verdicts.Estimate]](), dict[str, dict[str, float]]()
    for other in dict.fromkeys([*measured, metric]):
        runs = np.full((len(values.columns), max(column, default=0) + 1), np.nan)  # (variants, runs of one)
        runs[row, column] = finished[other]
        by_metric[other] = dict(zip(values, verdicts.means(runs), strict=True))
        deviations[other] = dict(zip(values, moments(runs)[1].tolist(), strict=True))
    return Means(metric, values, by_metric, deviations)
