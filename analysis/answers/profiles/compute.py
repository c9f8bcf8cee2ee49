"""Metrics under several conditions: few-shot accuracies, accuracies at image sizes, consistency under shifts."""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from analysis.results.means import Means
from analysis.sources.runs_table import RunsTable
from analysis.stats import Estimate
from experiments.data.catalogue import DATASETS
from experiments.metric import FEWSHOT, PERMUTED, Metric
from vit.registry import REGISTRY


@dataclass(frozen=True)
class Profile:
    """How the means of all variants change along a condition.

    `kind`: "fewshot", "img-sizes" or "shifts". `points`: point, such as an image size -> its metric. `details`: further
    metrics of the table, such as the accuracy on permuted images, which may be all that there is. `means`: metric ->
    variant
    -> its mean. `dataset`: of few-shot accuracies. For image sizes, `trained` is the size of training in px, 0 where it
    is not known, and `resized` says how each positional embedding carries over to another size (see `vit.registry`).
    """

    kind: str
    points: dict[int, Metric]
    means: dict[Metric, dict[str, Estimate]]
    details: tuple[Metric, ...] = ()
    dataset: str = ""
    trained: int = 0
    resized: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of figure and table."""
        return f"{self.kind}-{self.dataset}" if self.dataset else self.kind

    @property
    def seeds(self) -> list[int]:
        """Numbers of seeds of the means."""
        return [mean.n for means in self.means.values() for mean in means.values()]

    @property
    def places(self) -> list[float]:
        """Where the points are on an axis, at least 1 apart: to scale, or at equal distances."""
        if self.kind != "img-sizes":  # distances between the points have no meaning
            return [float(place) for place in range(len(self.points))]
        smallest = min((after - before for before, after in pairwise(self.points)), default=1)
        return [point / smallest for point in self.points]


def study_profiles(study: RunsTable, means: Means) -> list[Profile]:
    """Every profile whose metrics the runs have measured, in the order of the report."""
    metrics = [Metric(name) for name in means.by_metric]

    def profile(kind: str, points: dict[int, Metric], *details: Metric, **options: Any) -> Profile:
        points = dict(sorted(points.items()))
        known = {metric: means.by_metric[metric] for metric in (*points.values(), *details)}
        return Profile(kind, points, known, details, **options)

    profiles = []
    few = [metric for metric in metrics if metric.fewshot_dataset and metric.epochs is None]
    for dataset in dict.fromkeys(metric.fewshot_dataset for metric in few if metric.startswith(f"{FEWSHOT}/")):
        of_dataset = [metric for metric in few if metric.fewshot_dataset == dataset]
        points = {_number(metric): metric for metric in of_dataset if metric.startswith(f"{FEWSHOT}/")}
        details = [metric for metric in of_dataset if metric not in points.values()]
        profiles.append(profile("fewshot", points, *details, dataset=dataset))
    if sizes := {metric.img_size: metric for metric in metrics if metric.base == "test/acc" and metric.img_size}:
        trained, kinds = _trained_size(study), set(study.settings().get("model.pos_embed", []))
        if trained and "test/acc" in metrics:
            sizes.setdefault(trained, Metric("test/acc"))
        resized = {name: kind.resized for name, kind in REGISTRY.items() if name in kinds and kind.resized}
        profiles.append(profile("img-sizes", sizes, trained=trained, resized=resized))
    shifts = {_number(metric): metric for metric in metrics if metric.is_consistency}
    permuted = [metric for metric in metrics if metric == PERMUTED]
    if shifts or permuted:
        profiles.append(profile("shifts", shifts, *permuted))
    return profiles


def _number(metric: Metric) -> int:
    """The last part of a name: 5 of "fewshot/mnist/5"."""
    return int(metric.rpartition("/")[2])


def _trained_size(study: RunsTable) -> int:
    """The size at which all variants were trained, in px; 0 where it differs or is not known."""
    settings = study.settings()
    sizes = {
        side or (DATASETS[name].img_size if name in DATASETS else None)
        for name, side in zip(settings.get("data.name", []), settings.get("data.img_size", []))
    }
    side = sizes.pop() if len(sizes) == 1 else None
    return side if isinstance(side, int) else 0
