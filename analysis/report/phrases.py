"""Short phrases that several sentences of a report share."""

from __future__ import annotations

import math
from collections.abc import Sequence

from analysis import formatting
from analysis.results.policy import ALPHA
from analysis.results.study_results import StudyResults
from analysis.stats import Estimate
from experiments.metric import Metric

MOST_NAMES, MOST_CHARACTERS = 6, 120  # variants, and characters of their names, that a sentence lists
MOST_SPELLED = 10  # numbers from which digits are used
_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def names(variants: Sequence[str]) -> str | None:
    """List the variants' names; None if there are too many for a sentence."""
    if len(variants) > MOST_NAMES or (len(variants) > 2 and sum(map(len, variants)) > MOST_CHARACTERS):
        return None
    return formatting.listing([formatting.quoted(variant) for variant in variants])


def spelled(n: int) -> str:
    """Return a small number as a word."""
    return _NUMBERS[n] if n < len(_NUMBERS) else str(n)


def alpha_text() -> str:
    """The significance level: `5 %`."""
    return f"{100 * ALPHA:g} %"


def change_by_diverged(results: StudyResults, subject: str, several: bool) -> str:
    """`subject` changes if diverged runs are counted at chance level; that it is not certain where the level is not known."""
    if results.policy.unknown_chance:
        verb = "are" if several else "is"
        return f"{subject} {verb} not certain, because the {results.study.metric.label} of chance level is not known."
    return f"{subject} {'change' if several else 'changes'} if diverged runs are counted at chance level."


def higher(metric: Metric, better: bool) -> str:
    """Return "higher" or "lower": the direction in which a better or worse value of the metric lies."""
    return "higher" if better != metric.lower_is_better else "lower"


def value_text(mean: Estimate, metric: Metric) -> str:
    """`72.4 %`: a mean, rounded by its interval."""
    places = formatting.decimals(formatting.half_width(mean) * metric.scale, 2 if metric.is_share else 4)
    return formatting.number(mean.value * metric.scale, places) + (" %" if metric.is_share else "")


def by_points(diff: Estimate, metric: Metric, signed: bool = False) -> str:
    """`23.6 points`: the size of a difference; `+23.6 points` if signed."""
    value = diff.value if signed else abs(diff.value)
    return formatting.number(value * metric.scale, _places(diff, metric), signed) + metric.points


def range_text(diffs: Sequence[Estimate], metric: Metric) -> str:
    """`22.5 to 23.6 points`: the sizes of several differences."""
    low, *_, high = sorted(diffs, key=lambda diff: abs(diff.value))
    places = min(_places(low, metric), _places(high, metric))
    first, last = (formatting.number(abs(diff.value) * metric.scale, places) for diff in (low, high))
    return (first if first == last else f"{first} to {last}") + metric.points


def _places(diff: Estimate, metric: Metric) -> int:
    """The decimals of a difference, by its interval."""
    return formatting.decimals(formatting.half_width(diff) * metric.scale, 2 if metric.is_share else 4)


def interval_text(diff: Estimate, metric: Metric, label: str = "95 % CI ", signed: bool = False) -> str:
    """`95 % CI 20.2 to 27.0`: the interval of the size of a difference; of the difference itself if signed."""
    half = formatting.half_width(diff) * metric.scale
    if not math.isfinite(half):
        return "no interval"
    if half == 0:
        return "equal on all seeds"
    low, high = (diff.low, diff.high) if signed or diff.value >= 0 else (-diff.high, -diff.low)
    places = formatting.decimals(half)
    return f"{label}{formatting.number(low * metric.scale, places)} to {formatting.number(high * metric.scale, places)}"
