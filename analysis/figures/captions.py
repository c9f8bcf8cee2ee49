"""The captions and alternative texts of the figures. Results in, text out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analysis import formatting
from analysis.figures.labels import coloured
from analysis.formatting import plain
from analysis.results.profiles import Profile
from analysis.results.study_results import StudyResults
from analysis.results.trends import Trend
from analysis.stats import Estimate
from experiments.metric import Metric

MOST_LISTED = 12  # variants that an alternative text lists

POSITION_SIMILARITY = (
    "Similarity of position embeddings (as in arXiv 2010.11929, Figure 7). Each tile belongs to one patch and shows the "
    "cosine similarity between its position embedding and that of every other patch, in the first layer that adds one. "
    "An embedding that encodes two-dimensional position has its maximum at the patch itself and high values in its row "
    "and column, or around it. Only embeddings that are added to the tokens are shown."
)
POSITION_LOGITS = (
    "Effect of position on attention. Each tile belongs to one query patch and shows what position adds to its attention "
    "logit for every key patch: the mean over the heads of the first layer that see it. For embeddings that act on queries "
    "and keys, the values are those for a query and a key of length 1 with equal components. Only embeddings that bias or "
    "rotate attention are shown."
)
POSITION_TABLE = (
    "Values of the position embeddings that are added to the tokens, in the first layer that adds them: one row for each "
    "token (the class token first, if there is one), one column for each dimension."
)
DISTANCE = (
    "Mean attention distance by layer (as in arXiv 2010.11929, Figure 7). Each dot is a head, the larger mark their mean. "
    "One run of each variant, averaged over test images."
)
POOLED = {
    "cls": "the class token",
    "gap": "the patches, averaged (the model classifies their mean)",
    "map": "all tokens, weighted as in attention pooling",
}
"""Whose attention an overlay shows, by how the model pools its tokens."""


def value_text(value: float, metric: Metric) -> str:
    """Return one value as text: `93.21 %`."""
    return formatting.number(value * metric.scale, 2 if metric.is_share else 4) + (" %" if metric.is_share else "")


def mean_text(name: str, mean: Estimate, metric: Metric) -> str:
    """Return a mean as text: `none: 66.2 ± 3.4 % (n = 3)`."""
    value = formatting.with_interval(mean, metric.scale, limits=formatting.limits(metric))
    return f"{plain(name)}: {value}{' %' if metric.is_share else ''} (n = {mean.n})"


def accuracy(results: StudyResults, enlarged: bool) -> tuple[str, str]:
    """Return the caption and the alternative text of the main figure."""
    metric = results.study.metric
    caption = f"{metric.label.capitalize()} of each variant. Dots: runs, one for each seed. Diamond and bar: mean and 95 % interval."
    if enlarged:
        caption += " The second panel enlarges the range of most variants."
    caption += _grey(results)
    means = [mean_text(variant, results.mean(variant), metric) for variant in results.variants.names]
    return caption, f"{metric.label.capitalize()} of each variant, mean and 95 % interval. {_list(means)}."


def _grey(results: StudyResults) -> str:
    """What grey means where there are more variants than colours."""
    return (
        ""
        if len(coloured(results)) == len(results.variants.names)
        else " Grey: variants without a colour of their own."
    )


def differences(results: StudyResults) -> tuple[str, str]:
    """Return the caption and the alternative text of the differences from the baseline."""
    metric, baseline = results.study.metric, formatting.quoted(results.study.baseline)
    margin = formatting.margin(metric, results.study.margin)
    caption = (
        f"Differences from {baseline}, paired by seed, with 95 % intervals. Shaded band: equivalence margin, ±{margin}. "
        "The shape of the marker shows the verdict. Verdicts are adjusted for multiple comparisons, intervals "
        f"{results.policy.intervals}.{_grey(results)}"
    )
    found = [
        f"{plain(variant)}: {formatting.with_interval(compared.diff, metric.scale, signed=True)}{metric.points}, {compared.verdict}"
        for variant, compared in ((variant, results.versus[variant]) for variant in results.others)
    ]
    return caption, f"Differences from {plain(baseline)} with 95 % intervals. {_list(found)}."


def curves(results: StudyResults, shown: Sequence[str]) -> tuple[str, str]:
    """Return the caption and the alternative text of the learning curves of the variants in `shown`."""
    metrics = formatting.listing([metric.label for metric in results.curves])
    caption = f"Learning curves: {metrics} by epoch. Line: mean over the finished runs. Band: its 95 % interval."
    if left := len(results.variants.names) - len(shown):
        caption += (
            f" Shown: the baseline and the {len(shown) - 1} variants with the highest and lowest means. {left} more are in "
            "the tables."
        )
    return caption, f"Learning curves ({metrics}) of {formatting.listing([plain(variant) for variant in shown])}."


def cost(results: StudyResults, kinds: Sequence[str], shown: Sequence[str]) -> tuple[str, str]:
    """Return the caption and the alternative text of the metric against its cost, by the variants named in the legend."""
    label = results.study.metric.label.capitalize()
    caption = f"{label} against cost: mean and 95 % interval of each variant."
    if len(shown) < len(results.variants.names):
        caption += " Small grey dots: the other variants, listed in the cost table."
    return caption, f"{label} against {formatting.listing(list(kinds))}. The values are in the cost table."


def tuning(path: str, shown: Sequence[str]) -> tuple[str, str]:
    """Return the caption and the alternative text of the trials of a tuning against one setting."""
    name = "learning rate" if path == "optim.lr" else formatting.factor_name(path, {})
    caption = (
        f"Tuning: validation accuracy of each trial against its {name}. Large mark: the trial that was chosen. Small mark: a "
        "finished trial. Hollow mark: a trial that was stopped early, with its last validation accuracy. Trials that diverged "
        "have none."
    )
    named = formatting.listing([plain(variant) for variant in shown])
    return (
        caption,
        f"Validation accuracy against {name} for the trials of {named}. The values are in tuning-trials.csv.",
    )


def tuning_budget(shown: Sequence[str]) -> tuple[str, str]:
    """Return the caption and the alternative text of the expected best against the budget."""
    caption = (
        "Tuning: expected best validation accuracy against the budget, at the mean number of epochs of a trial. If a line still "
        "rises at its end, more trials would probably find better settings."
    )
    named = formatting.listing([plain(variant) for variant in shown])
    return caption, f"Expected best validation accuracy against the epochs trained, for {named}."


def main_effects(results: StudyResults) -> tuple[str, str]:
    """Return the caption and the alternative text of the levels of every factor."""
    label = results.study.metric.label
    caption = f"Mean {label} of each level, averaged over the other factors, with 95 % intervals."
    return caption, f"{caption} The values are in the table of main effects."


def interactions(results: StudyResults) -> tuple[str, str]:
    """Return the caption and the alternative text of every pair of factors."""
    more = ", averaged over the other factors," if len(results.study.factors) > 2 else ""
    caption = (
        f"Every pair of factors: mean {results.study.metric.label} of each combination{more} with 95 % intervals. "
        "Parallel lines mean no interaction: the effect of one factor is the same at each level of the other."
    )
    return caption, f"{caption} The values are in the table of interactions."


def interaction(results: StudyResults) -> tuple[str, str]:
    """Return the caption and the alternative text of the heat map of two factors."""
    label = results.study.metric.label
    down, across, *others = (formatting.factor_name(factor, results.study.names) for factor in results.study.factors)
    over = f", averaged over {formatting.listing(others)}" if others else ""
    caption = f"Mean {label} by {down} and {across}{over}. A cell is empty where no run has finished."
    return caption, f"Heat map of the mean {label} by {plain(down)} and {plain(across)}. The values are in the tables."


def trend(trend: Trend, intervals: str, panels: bool = False) -> tuple[str, str]:
    """Return the caption and the alternative text of differences along a condition.

    `intervals`: how they are adjusted. `panels`: one for each variant.
    """
    metric, ends = trend.metric, (trend.points[0], trend.points[-1])
    caption = (
        f"Differences in {metric.label} from {formatting.quoted(trend.baseline)}, paired by seed, by number of {trend.unit}. "
        f"Bars: 95 % intervals over {formatting.seeds(trend.diffs[row][point].n for row in trend.others for point in trend.points)}. "
        f"Intervals {intervals}. {'Grey: the other variants.' if panels else _SPREAD_SIDEWAYS} The distances along the axis are not to scale."
    )
    texts = []
    for row in trend.others:
        values = [formatting.with_interval(trend.diffs[row][point], metric.scale, signed=True) for point in ends]
        texts.append(f"{plain(row)}: {values[0]} at {ends[0]:,} and {values[1]} at {ends[1]:,}")
    return caption, f"{caption} {_list(texts)}."


_SPREAD_SIDEWAYS = "Points of the same number are spread sideways."


def profile(profile: Profile, baseline: str = "") -> tuple[str, str]:
    """Return the caption and the alternative text of a metric under several conditions.

    `baseline`: its name, where the figure has a panel for each variant.
    """
    panels = f" Dashed: {baseline}. Grey: the other variants." if baseline else ""
    counts = (mean.n for _, means in profile.means.values() for mean in means.values())
    caption = (
        f"{profile.about}. Means and 95 % intervals over {formatting.seeds(counts)}.{panels or ' ' + _SPREAD_SIDEWAYS}"
    )
    if not profile.to_scale:
        caption += " The distances along the axis are not to scale."
    point, (metric, means) = list(profile.means.items())[-1]
    texts = [mean_text(variant, mean, metric) for variant, mean in means.items()]
    return caption, f"{caption} With {point} {profile.unit}: {_list(texts)}."


def disagreement(
    images: Sequence[tuple[int, str]], shares: Sequence[Mapping[str, float]], some: bool
) -> tuple[str, str]:
    """Return the caption and the alternative text of the images on which variants differ most.

    `images`: index and class of each; `shares`: for each the variants' shares of correct runs; `some`: only some variants
    have a bar.
    """
    caption = (
        "The test images on which the variants differ most. Above each: its class and its index in the test set. Bars: "
        "percentage of a variant's runs that classify it correctly."
    )
    if some:
        caption += " Bars are shown for the baseline and the variants with the highest and lowest means."
    found = [
        f"image {index}, class {plain(name)}: {_share(max(each, key=each.__getitem__), each)}, {_share(min(each, key=each.__getitem__), each)}"
        for (index, name), each in zip(images, shares)
    ]
    return (
        caption,
        f"Test images on which the variants differ most, with the highest and the lowest share of correct runs. {_list(found)}.",
    )


def _share(variant: str, shares: Mapping[str, float]) -> str:
    return f"{plain(variant)} {formatting.number(100 * shares[variant], 0)} %"


def distance(means: dict[str, list[float]]) -> tuple[str, str]:
    """Return the caption and the alternative text of attention distances: variant -> pixels by layer."""
    listed = [
        f"{plain(variant)}: {', '.join(f'{pixels:.1f}' for pixels in layers)} pixels"
        for variant, layers in means.items()
    ]
    return DISTANCE, f"Mean attention distance by layer, first layer first. {'; '.join(listed)}."


def overlay(variant: str, run: str, count: int, correct: int, pool: str) -> tuple[str, str]:
    """Return the caption and the alternative text of attention over test images."""
    caption = (
        f"Attention of {variant} (run {run}) on the first {count} test images. Above: true class and prediction. Middle: "
        f"attention of {POOLED[pool]} in the last layer, mean over heads. Below: attention rollout over all layers (arXiv "
        "2005.00928). The colour runs from black (least attention in the image) to pale yellow (most). The image shows through."
    )
    return caption, f"Attention of {plain(variant)} on {count} test images, {correct} of them classified correctly."


def tiles(caption: str, variants: Sequence[str]) -> str:
    """Return the alternative text of a figure with one panel for each variant."""
    subject = caption.partition(".")[0].partition(" (as in")[0].partition(" that are")[0]
    return f"{subject}: heat maps for {formatting.listing([plain(variant) for variant in variants])}."


def _list(found: list[str]) -> str:
    more = len(found) - MOST_LISTED
    return "; ".join(found[:MOST_LISTED]) + (f"; {more} more variants are in the table" if more > 0 else "")
