"""The captions and alternative texts of the figures. Results in, text out."""

from __future__ import annotations

from collections.abc import Sequence

from analysis import formatting
from analysis.formatting import plain
from analysis.results.profiles import Profile
from analysis.results.study_results import StudyResults
from analysis.results.trends import Trend

MOST_LISTED = 12  # variants that an alternative text lists


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
    texts = [formatting.named_mean(variant, mean, metric) for variant, mean in means.items()]
    return caption, f"{caption} With {point} {profile.unit}: {_list(texts)}."


def _list(found: list[str]) -> str:
    more = len(found) - MOST_LISTED
    return "; ".join(found[:MOST_LISTED]) + (f"; {more} more variants are in the table" if more > 0 else "")
