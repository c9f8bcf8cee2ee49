"""The scale of a user's metric: margins in its unit or in points, scales that differ, a spread of rounding alone."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from analysis.asked import Asked
from analysis.verdicts.estimates import decimal_step
from experiments.direction import LOSSES, words_of
from experiments.errors import UserError
from experiments.metric import Metric
from experiments.stated import amount
from experiments.table_plan import TablePlan

WIDE = 0.1  # a margin of a metric from 0 to 1 that is as large may be meant in percent
APART = 20  # the ratio of the largest values of two parts from which they may have different units


def in_unit(stated: Asked | TablePlan, values: Sequence[float], metric: Metric, source: str) -> dict[str, float]:
    """What is stated of margin, `by` and chance, in the unit of the metric. `values`: of all runs, finite or not."""
    given = {field: getattr(stated, field) for field in ("margin", "by") if any(map(math.isfinite, values))}
    sizes = {field: margin_of(size, values, metric, source, field) for field, size in given.items() if size is not None}
    chance = {} if stated.chance is None else {"chance": chance_of(stated.chance, values, metric, source)}
    return sizes | chance


def margin_of(given: float | str, values: Iterable[float], metric: Metric, source: str, field: str = "margin") -> float:
    """The margin, or another `field` such as it, in the unit of the metric. `values`: of all runs, finite or not.

    "0.5 points" or "0.5 %" are hundredths of a metric from 0 to 1, and units of one in percent. Raises `UserError` for
    a margin of another scale: a part of 1 that may be meant in percent, and one that no value reaches.
    """
    finite = [value for value in values if math.isfinite(value)] or [math.nan]
    low, high, is_loss = min(finite), max(finite), bool(LOSSES & words_of(metric))
    is_share, is_percent = metric.is_share or (0 <= low <= high <= 1 and not is_loss), low >= 0 and 1.5 < high <= 100
    line, (margin, points) = f"{source}: {field}: {given} is not allowed: ", amount(given)
    if points and (is_loss or not (is_share or is_percent)):
        raise UserError(
            f"{line}points are of a share, from 0 to 1 or in percent; give a number in the unit of {metric}"
        )
    if is_share and margin >= WIDE and not points:
        ways = f"write '{margin:g} points' ({margin / 100:g}) or '{100 * margin:g} points'"
        raise UserError(f"{line}{metric} is from 0 to 1, so this is {100 * margin:g} points; {ways}")
    margin *= 0.01 if points and is_share else 1
    if margin >= (largest := max(map(abs, finite))) > 0:
        all_alike = ", so all would be equivalent" * (field == "margin")
        raise UserError(f"{line}{metric} has no value as large, {largest:g} at most{all_alike}")
    return margin


def chance_of(given: float, values: Iterable[float], metric: Metric, source: str) -> float:
    """What guessing gives, in the unit of the metric. Raises `UserError` for metrics of ours, and for another scale."""
    line, finite = f"{source}: chance: {given:g} is not allowed: ", [one for one in values if math.isfinite(one)]
    if not metric.is_column:
        raise UserError(f"{line}{metric} is a metric of ours, of which it follows from the number of classes")
    if finite and 0 <= min(finite) <= max(finite) <= 1 < given and not LOSSES & words_of(metric):
        raise UserError(f"{line}{metric} is from 0 to 1")
    return given


def scales_note(values: Mapping[str, Iterable[float]], metric: str) -> list[str]:
    """A note where the largest values of two parts, such as datasets, differ in size. `values`: part -> its values."""
    sizes = {
        name: max((abs(value) for value in own if math.isfinite(value)), default=0.0) for name, own in values.items()
    }
    known = sorted((size, name) for name, size in sizes.items() if size)
    if not known or known[-1][0] < APART * known[0][0]:
        return []
    (low, small), (high, large) = known[0], known[-1]
    return [f"{metric} is at most {low:g} on {small} and {high:g} on {large}: check that both have the same unit."]


def rounding_note(values: Iterable[list[float]], metric: str) -> list[str]:
    """A note where the runs of each variant differ by no more than the step that the values are rounded to."""
    finite = [[value for value in own if math.isfinite(value)] for own in values]
    step, several = decimal_step([*chain(*finite)]), [own for own in finite if len(own) > 1]
    if (
        not several
        or not step
        or {*chain(*finite)} <= {0, 1}
        or any(max(own) - min(own) > 1.001 * step for own in several)
    ):
        return []
    return [f"The runs of each variant differ by at most {step:g}, to which {metric} is rounded: use more digits."]
