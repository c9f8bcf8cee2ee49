"""Metrics of one kind under several conditions: few-shot accuracies, accuracies at image sizes, consistency under shifts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from analysis.results.study_results import StudyResults
from analysis.sources.settings import cell_value
from analysis.stats import Estimate
from experiments.data.catalogue import DATASETS
from experiments.metric import FEWSHOT, PERMUTED, Metric

ACCURACY = "test accuracy, %"


@dataclass(frozen=True)
class Profile:
    """How the means of all variants change along a condition.

    `name`: of figure and table. `heading`: of the section. `about`: what is measured. `unit`: of the points. `axis`: the label
    of their axis. `values`: the label of the axis of the metric. `means`: point -> (metric, variant -> its mean). `details`: further metrics of the table. `to_scale`:
    whether distances between points have a meaning.
    """

    name: str
    heading: str
    about: str
    unit: str
    axis: str
    values: str
    means: dict[str, tuple[Metric, dict[str, Estimate]]]
    details: tuple[Metric, ...] = ()
    to_scale: bool = False

    @property
    def places(self) -> list[float]:
        """Where the points are on an axis, at least 1 apart: to scale, or at equal distances."""
        if not self.to_scale:
            return [float(place) for place in range(len(self.means))]
        numbers = [float(point.replace(",", "")) for point in self.means]
        smallest = min((after - before for before, after in pairwise(numbers)), default=1.0)
        return [number / smallest for number in numbers]

    @property
    def metrics(self) -> list[Metric]:
        """The metric at each point."""
        return [metric for metric, _ in self.means.values()]


def profiles(results: StudyResults) -> list[Profile]:
    """Every profile whose metrics the runs have measured, in the order of the report."""
    return [*_fewshot(results), *_sizes(results), *_shifts(results)]


def _fewshot(results: StudyResults) -> list[Profile]:
    found: dict[str, list[Metric]] = {}
    for metric in _known(results, lambda metric: metric.startswith(f"{FEWSHOT}/") and metric.epochs is None):
        found.setdefault(metric.fewshot_dataset or "", []).append(metric)
    return [
        Profile(
            f"fewshot-{dataset}",
            "Few-shot accuracy",
            f"Few-shot accuracy on {dataset}: a linear classifier on frozen features, from some training images (shots) of "
            "each class",
            "shots",
            "shots",
            "few-shot accuracy, %",
            _by_point(results, metrics, lambda metric: int(metric.rpartition("/")[2])),
            tuple(_known(results, partial(_is_other, dataset))),
        )
        for dataset, metrics in found.items()
    ]


def _is_other(dataset: str, metric: Metric) -> bool:
    """Whether a metric is another few-shot accuracy on the dataset, such as on validation images."""
    return metric.startswith(f"{FEWSHOT}-") and metric.fewshot_dataset == dataset and metric.epochs is None


def _sizes(results: StudyResults) -> list[Profile]:
    metrics = _known(results, lambda metric: metric.base == "test/acc" and metric.img_size is not None)
    trained = _trained_size(results)
    final = Metric("test/acc")
    if (
        metrics
        and trained
        and final in results.means.by_metric
        and all(metric.img_size != trained for metric in metrics)
    ):
        metrics = [*metrics, final]
    at = f", trained at {trained:,} px" if trained else ""
    about = f"Test accuracy by image size{at}, without further training"
    size: Callable[[Metric], int] = lambda metric: metric.img_size or trained  # noqa: E731
    found = _one("img-sizes", "Other image sizes", about, "px", results, metrics, size)
    return [replace(profile, axis="test image size, px", to_scale=True) for profile in found]


def _trained_size(results: StudyResults) -> int:
    """The size at which all variants were trained, in px; 0 where it differs or is not known."""
    sizes = set()
    settings = results.study.settings()
    for name, side in zip(settings.get("data.name", []), settings.get("data.img_size", [])):
        sizes.add(cell_value(side) or (DATASETS[name].img_size if name in DATASETS else None))
    (side,) = sizes if len(sizes) == 1 else (None,)
    return side if isinstance(side, int) else 0


def _shifts(results: StudyResults) -> list[Profile]:
    metrics = _known(results, lambda metric: metric.is_consistency)
    about = "Share of test images whose predicted class stays the same when the image is shifted"
    permuted = tuple(_known(results, lambda metric: metric == PERMUTED))
    number: Callable[[Metric], int] = lambda metric: int(metric.rpartition("/")[2])  # noqa: E731
    found = _one("shifts", "Shifted and permuted images", about, "px shift", results, metrics, number, permuted)
    if not found and permuted:
        means = {"permuted": (permuted[0], results.means.by_metric[permuted[0]])}
        about = "Test accuracy with the patches of each image permuted"
        return [Profile("permuted", "Permuted images", about, "patches", "patches", ACCURACY, means)]
    return found


def _one(
    name: str,
    heading: str,
    about: str,
    unit: str,
    results: StudyResults,
    metrics: list[Metric],
    number: Callable[[Metric], int],
    details: tuple[Metric, ...] = (),
) -> list[Profile]:
    means = _by_point(results, metrics, number)
    values = "consistency, %" if name == "shifts" else ACCURACY
    return [Profile(name, heading, about, unit, unit, values, means, details)] if means else []


def _known(results: StudyResults, wanted: Callable[[Metric], bool]) -> list[Metric]:
    return [metric for metric in map(Metric, results.means.by_metric) if wanted(metric)]


def _by_point(
    results: StudyResults, metrics: Iterable[Metric], number: Callable[[Metric], int]
) -> dict[str, tuple[Metric, dict[str, Estimate]]]:
    """The means of these metrics, the smallest number first."""
    return {f"{number(metric):,}": (metric, results.means.by_metric[metric]) for metric in sorted(metrics, key=number)}
