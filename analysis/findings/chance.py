"""What guessing reaches."""

import math
from collections.abc import Mapping
from typing import Any

from experiments.catalogue import DATASETS
from experiments.metric import Metric
from experiments.sections import OTHER_CLASSES

DATA = ["data.name", "data.classes", "data.num_classes"]  # the settings that say how many classes there are


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
