"""How do variants do under other conditions? Few shots, other image sizes, shifted and permuted images."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from analysis import verdicts, words
from analysis.figures.style import Plot
from analysis.figures.values import draw_along
from analysis.findings import Findings
from analysis.findings.columns import mean_column, signed_column, variant_table
from analysis.findings.means import Means
from analysis.runs.runs import Runs
from analysis.write.document import Item, Section, present
from analysis.write.table import Column, Table
from experiments.catalogue import DATASETS
from experiments.metric import FEWSHOT, PERMUTED, Metric
from vit.registry import REGISTRY

KIND = "model.pos_embed"
SIZES = "img-sizes"
AS_THEY_ARE, INTERPOLATED = "Positions as they are", "Positions of rotary embeddings interpolated"
ONLY_ROTARY = "Where positions are interpolated, kinds that are not rotary have the accuracy of positions as they are."
NOT_ALL = "Not all runs have an accuracy with interpolated positions."
NO_TRANSFER = (
    "On the dataset that a run was trained on, its features have seen the labels of all its training images, so this "
    "is not transfer to new classes."
)
NO_USE = (
    "If the accuracy with permuted patches is close to that on the original images, the model hardly uses position."
)


@dataclass(frozen=True)
class Profile:
    """How the means of all variants change along a condition.

    `about`: what is measured. `labels`: of both axes; `unit`: of the points. `panels`: title of a panel of the figure
    -> point, such as an image size -> its metric, in order; all panels have the same points. `details`: further metrics
    of the table, such as the accuracy on permuted images, which may be all that there is. `notes`: how the accuracies
    are to be read.
    """

    name: str
    about: str
    labels: tuple[str, str]
    unit: str
    panels: dict[str, dict[int, Metric]]
    details: list[Metric]
    notes: tuple[str, ...]

    @property
    def points(self) -> dict[int, Metric]:
        """Those of the first panel."""
        return next(iter(self.panels.values()))

    @property
    def metrics(self) -> list[Metric]:
        """Those of the points, then the further ones."""
        return list(dict.fromkeys([*chain(*map(dict.values, self.panels.values())), *self.details]))


def study_profiles(study: Runs, means: Means) -> list[Profile]:
    """Every profile whose metrics the runs have measured, in the order of the report."""
    metrics = list(map(Metric, means.by_metric))
    return [*_few_shot(metrics), *_image_sizes(metrics, study, means), *_shifts(metrics)]


def _few_shot(metrics: list[Metric]) -> Iterator[Profile]:
    few = [metric for metric in metrics if metric.fewshot_dataset and metric.epochs is None]
    for dataset in dict.fromkeys(metric.fewshot_dataset for metric in few if metric.startswith(f"{FEWSHOT}/")):
        of_dataset = [metric for metric in few if metric.fewshot_dataset == dataset]
        points = _by_number([metric for metric in of_dataset if metric.startswith(f"{FEWSHOT}/")])
        details = [metric for metric in of_dataset if metric not in points.values()]
        about = (
            f"Few-shot accuracy on {dataset}: a linear classifier on frozen features, from some training images "
            "(shots) of each class"
        )
        labels = "shots", "few-shot accuracy, %"
        yield Profile(f"fewshot-{dataset}", about, labels, "shots", {"": points}, details, (NO_TRANSFER,))


def _image_sizes(metrics: list[Metric], study: Runs, means: Means) -> Iterator[Profile]:
    sizes = {metric.img_size: metric for metric in metrics if metric.base == "test/acc" and metric.img_size}
    if not sizes:
        return
    trained, used = _trained_size(study), set(study.one_run_each().get(KIND, []))
    if trained and "test/acc" in metrics:
        sizes.setdefault(trained, Metric("test/acc"))
    points = dict(sorted(sizes.items()))
    stretched = {at: metric.at(at, True) if metric.img_size else metric for at, metric in points.items()}
    resized = ", ".join(f"{name} {kind.resized}" for name, kind in REGISTRY.items() if name in used and kind.resized)
    notes = [f"How positional embeddings carry over to another size: {resized}."] if resized else []
    panels = {"": points}
    if measured := [at for at, metric in stretched.items() if metric.is_interpolated and metric in metrics]:
        panels = {AS_THEY_ARE: points, INTERPOLATED: stretched}
        plain, other = ([[m.n for m in means.by_metric[by[at]].values()] for at in measured] for by in panels.values())
        notes += [ONLY_ROTARY if plain == other else NOT_ALL]
    about = f"Test accuracy by image size{f', trained at {trained} px' if trained else ''}, without further training"
    labels = "test image size, px", "test accuracy, %"
    yield Profile(SIZES, about, labels, "px", panels, [], tuple(notes))


def _shifts(metrics: list[Metric]) -> Iterator[Profile]:
    points = _by_number([metric for metric in metrics if metric.is_consistency])
    permuted = [metric for metric in metrics if metric == PERMUTED]
    if points or permuted:
        same = "Share of test images whose predicted class stays the same when the image is shifted"
        about = same if points else "Test accuracy with the patches of each image permuted"
        labels = "px shift", "consistency, %"
        yield Profile("shifts", about, labels, "px shift", {"": points}, permuted, (NO_USE,) if permuted else ())


def _by_number(metrics: list[Metric]) -> dict[int, Metric]:
    """The last part of each name, 5 of "fewshot/mnist/5" -> the metric, in order."""
    return dict(sorted((int(metric.rpartition("/")[2]), metric) for metric in metrics))


def _trained_size(study: Runs) -> int:
    """The size at which all variants were trained, in px; 0 where it differs or is not known."""
    settings = study.one_run_each()
    sizes = {
        side or (DATASETS[name].img_size if name in DATASETS else None)
        for name, side in zip(settings.get("data.name", []), settings.get("data.img_size", []))
    }
    side = sizes.pop() if len(sizes) == 1 else None
    return side if isinstance(side, int) else 0


def question(findings: Findings) -> Section | None:
    """A figure and a table for each condition; nothing where no run has measured one."""
    items: list[Item] = []
    for profile in study_profiles(findings.study, findings.means):
        plot = _plot(profile, findings) if len(profile.points) > 1 else None
        items += present(plot, _table(profile, findings), _stretching(profile, findings))
    return Section("conditions", "Other test conditions", items) if items else None


def _plot(profile: Profile, findings: Findings) -> Plot:
    points, styles, to_scale = profile.points, findings.styles, profile.name == SIZES
    by_metric, names = findings.means.by_metric, findings.variants.names
    means = {
        title: {v: [by_metric.get(metric, {}).get(v, verdicts.UNKNOWN) for metric in metrics.values()] for v in names}
        for title, metrics in profile.panels.items()
    }
    caption = f"{profile.about}. Means and {words.CONFIDENCE} intervals over {_seeds(profile, findings.means)}."
    caption += styles.note + ("" if to_scale else " The distances along the axis are not to scale.")
    shown = [*points], profile.labels, profile.unit, [*points.values()][-1], styles
    return Plot(profile.name, lambda: draw_along(profile.name, means, *shown, to_scale=to_scale), caption)


def _table(profile: Profile, findings: Findings) -> Table:
    """A metric under several conditions; its further metrics are details."""
    metrics = [metric for metric in profile.metrics if metric in findings.means.by_metric]
    folded = [metric for metric in profile.details if metric != PERMUTED]
    columns = [mean_column(metric, findings, detail=metric in folded) for metric in metrics]
    seeds = _seeds(profile, findings.means)
    caption = f"{profile.about}: mean and {words.CONFIDENCE} confidence interval over {seeds}."
    return variant_table(profile.name, caption, findings, columns, profile.notes)


def _stretching(profile: Profile, findings: Findings) -> Table | None:
    """What the same weights gain with interpolated positions; none before the first planned look."""
    study, policy = findings.study, findings.policy
    if INTERPOLATED not in profile.panels or policy.looks.waiting:
        return None
    tested, kinds = study.of("finished"), study.one_run_each().reindex(columns=[KIND])[KIND]
    tested = tested[tested["seed"].isin(findings.outcomes.at(policy.looks).values.index)]
    others = {at: metric for at, metric in profile.panels[INTERPOLATED].items() if at != _trained_size(study)}
    sizes = {at: metric for at, metric in others.items() if metric in tested}
    gains: dict[str, dict[int, verdicts.Estimate]] = {}
    for variant in kinds.index:
        if kinds[variant] not in REGISTRY or REGISTRY[kinds[variant]].is_rotary:
            runs, level = tested[tested["variant"] == variant], policy.looks.confidence
            of_runs = {at: runs[metric] - runs[profile.points[at]] for at, metric in sizes.items()}
            gains[variant] = {at: verdicts.mean(gain, level) for at, gain in of_runs.items()}
    if not (gains and sizes):
        return None

    def column(at: int, metric: Metric) -> Column:
        return signed_column(metric, f"{at} px", lambda row: gains[row.variant][at], f"at_{at}")

    about = "Accuracy with interpolated positions − with positions as they are, of the same weights"
    seeds = words.seeds(gain.n for of_variant in gains.values() for gain in of_variant.values())
    caption = f"{about}: mean and {words.CONFIDENCE} interval, {seeds}."
    hold = "have the level of the planned look," if len(policy.looks.plan) > 1 else "are"
    notes = (f"Intervals {hold} for each difference alone.",)
    rows = [row for row in findings.rows if row.variant in gains]
    return variant_table("interpolated", caption, findings, list(map(column, *zip(*sizes.items()))), notes, rows)


def _seeds(profile: Profile, means: Means) -> str:
    return words.seeds(mean.n for metric in profile.metrics for mean in means.by_metric.get(metric, {}).values())
