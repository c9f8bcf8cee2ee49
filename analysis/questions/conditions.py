"""How do variants do under other conditions? Few shots, other image sizes, shifted and permuted images."""

from dataclasses import dataclass, field
from typing import Any

from analysis import words
from analysis.columns import mean_column, variant_table
from analysis.figures.lines import draw_along
from analysis.figures.style import Plot
from analysis.findings import Findings
from analysis.findings.means import Means
from analysis.runs.runs import Runs
from analysis.stats import Estimate
from analysis.write.document import Section, present
from analysis.write.table import Table
from experiments.data.catalogue import DATASETS
from experiments.metric import FEWSHOT, PERMUTED, Metric
from vit.registry import REGISTRY

UNITS = {"fewshot": "shots", "img-sizes": "px", "shifts": "px shift"}
AXES = {
    "fewshot": ("shots", "few-shot accuracy, %"),
    "img-sizes": ("test image size, px", "test accuracy, %"),
    "shifts": ("px shift", "consistency, %"),
}


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


def study_profiles(study: Runs, means: Means) -> list[Profile]:
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
        interpolated = [metric for metric in metrics if metric.is_interpolated and metric.startswith("test/acc")]
        interpolated.sort(key=lambda metric: metric.img_size or 0)
        profiles.append(profile("img-sizes", sizes, *interpolated, trained=trained, resized=resized))
    shifts = {_number(metric): metric for metric in metrics if metric.is_consistency}
    permuted = [metric for metric in metrics if metric == PERMUTED]
    if shifts or permuted:
        profiles.append(profile("shifts", shifts, *permuted))
    return profiles


def _number(metric: Metric) -> int:
    """The last part of a name: 5 of "fewshot/mnist/5"."""
    return int(metric.rpartition("/")[2])


def _trained_size(study: Runs) -> int:
    """The size at which all variants were trained, in px; 0 where it differs or is not known."""
    settings = study.settings()
    sizes = {
        side or (DATASETS[name].img_size if name in DATASETS else None)
        for name, side in zip(settings.get("data.name", []), settings.get("data.img_size", []))
    }
    side = sizes.pop() if len(sizes) == 1 else None
    return side if isinstance(side, int) else 0


def question(findings: Findings) -> Section | None:
    """A figure and a table for each condition; nothing where no run has measured one."""
    profiles = study_profiles(findings.study, findings.means)
    if not profiles:
        return None
    items = [
        item
        for profile in profiles
        for item in present(_plot(profile, findings) if len(profile.points) > 1 else None, _table(profile, findings))
    ]
    return Section("conditions", "Other test conditions", items)


def _about(profile: Profile) -> str:
    if profile.kind == "fewshot":
        return (
            f"Few-shot accuracy on {profile.dataset}: a linear classifier on frozen features, from some training "
            "images (shots) of each class"
        )
    if profile.kind == "img-sizes":
        trained = f", trained at {profile.trained} px" if profile.trained else ""
        return f"Test accuracy by image size{trained}, without further training"
    if profile.points:
        return "Share of test images whose predicted class stays the same when the image is shifted"
    return "Test accuracy with the patches of each image permuted"


def _plot(profile: Profile, findings: Findings) -> Plot:
    metrics, points, styles = list(profile.points.values()), list(profile.points), findings.styles
    means = {variant: [profile.means[metric][variant] for metric in metrics] for variant in findings.variants.names}
    labels, unit, to_scale = AXES[profile.kind], UNITS[profile.kind], profile.kind == "img-sizes"
    caption = f"{_about(profile)}. Means and {words.CONFIDENCE} intervals over {words.seeds(profile.seeds)}."
    caption += styles.grey_note + ("" if to_scale else " The distances along the axis are not to scale.")
    return Plot(
        profile.name,
        lambda: draw_along(profile.name, means, points, labels, unit, metrics[-1], styles, to_scale=to_scale),
        caption,
    )


def _table(profile: Profile, findings: Findings) -> Table:
    """A metric under several conditions; its further metrics are details."""
    variants = findings.variants
    rows = {v: {str(metric): means[v] for metric, means in profile.means.items()} for v in variants.names}
    folded = [metric for metric in profile.details if metric != PERMUTED and not metric.is_interpolated]
    columns = (mean_column(metric, metric, detail=metric in folded) for metric in profile.means)
    caption = f"{_about(profile)}: mean and {words.CONFIDENCE} confidence interval over {words.seeds(profile.seeds)}."
    return variant_table(profile.name, caption, variants, rows, columns, _notes(profile))


def _notes(profile: Profile) -> tuple[str, ...]:
    """How the accuracies are to be read."""
    if profile.kind == "fewshot":
        return (
            "On the dataset that a run was trained on, its features have seen the labels of all its training images, "
            "so this is not transfer to new classes.",
        )
    if profile.kind == "img-sizes":
        kinds = ", ".join(f"{kind} {how}" for kind, how in profile.resized.items())
        return (f"How positional embeddings carry over to another size: {kinds}.",) if kinds else ()
    if PERMUTED not in profile.details:
        return ()
    return (
        "If the accuracy with permuted patches is close to that on the original images, the model hardly uses "
        "position.",
    )
