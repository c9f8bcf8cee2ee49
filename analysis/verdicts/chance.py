"""What guessing reaches, and what follows from it for runs that failed and variants that learned nothing."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from analysis.verdicts.comparisons import Values
from analysis.verdicts.estimates import mean
from experiments.catalogue import DATASETS
from experiments.metric import Metric
from experiments.sections import OTHER_CLASSES


@dataclass(frozen=True)
class Chance:
    """The metric of guessing, and the runs that diverged or were pruned, which count as runs at that level."""

    metric: Metric
    margin: float | None  # of the study, in the unit of the metric
    level: dict[str, float]  # variant -> the metric of guessing, where that is known
    failed: dict[str, list[int]]  # variant -> the seeds of its diverged and pruned runs, where there are any

    @property
    def counts_as(self) -> dict[str, float]:
        """Variant with failed runs -> the value that they count as; empty where one is not known."""
        known = self.failed.keys() <= self.level.keys()
        return {variant: self.level[variant] for variant in self.failed} if known else {}

    @property
    def unknown(self) -> set[str]:
        """The variants with failed runs of which nothing can be shown."""
        return self.failed.keys() - self.counts_as.keys()

    def counted(self, values: Values) -> dict[str, dict[int, float]]:
        """The values where failed runs are at chance level. Where that is not known, they keep their values."""
        levels = self.counts_as
        lost = {variant: dict.fromkeys(self.failed[variant], level) for variant, level in levels.items()}
        return {variant: {**runs, **lost.get(variant, {})} for variant, runs in values.items()}

    def near(self, values: Values) -> set[str]:
        """The variants with a mean near guessing: at most the margin or, for an accuracy c, c (1 - c) / 4 away."""
        near = set()
        for variant, level in self.level.items():
            reached = mean([*values.get(variant, {}).values()]).value
            if abs(reached - level) <= max(self.margin or 0.0, level * (1 - level) / 4 * self.metric.is_share):
                near.add(variant)
        return near


def chance_level(row: Mapping[str, Any], metric: Metric) -> float | None:
    """What guessing reaches on the images of a run: an accuracy of 1 / k for k classes, a cross-entropy of log k.

    `row`: its settings by dotted path. A few-shot metric names its dataset; every other metric is about a run's own
    data. None where the classes are not known, and for consistency under shifts, which has no such level.
    """
    if metric.is_consistency or not (metric.is_share or metric.is_loss) or not (classes := _classes(row, metric)):
        return None
    return 1 / classes if metric.is_share else math.log(classes)


def _classes(row: Mapping[str, Any], metric: Metric) -> int:
    """The number of classes that are guessed among; 0 where it is not known."""
    own, chosen = row.get("data.name"), row.get("data.classes")
    name, trained = metric.fewshot_dataset or own, len(str(chosen).split(",")) if chosen else 0
    if trained and name == own:
        return trained
    dataset = DATASETS.get(str(own if name == OTHER_CLASSES else name))
    classes = (dataset and dataset.num_classes) or row.get("data.num_classes")
    if classes is None or classes != classes:
        return 0
    return int(classes) - trained * (name == OTHER_CLASSES)
