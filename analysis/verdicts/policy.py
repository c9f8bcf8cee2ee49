"""How verdicts of a study are reached: margin, family, planned looks, failed runs. All comparisons are made here."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from analysis.verdicts.chance import Chance
from analysis.verdicts.comparisons import (
    CEILING,
    NEAR_CHANCE,
    Comparison,
    Rule,
    Values,
    Verdict,
    compare,
    with_failed,
    without_room,
    without_test,
)
from analysis.verdicts.differences import Variance
from analysis.verdicts.estimates import accuracy_step, decimal_step
from analysis.verdicts.looks import NO_PLAN, Looks
from experiments.metric import Metric
from experiments.study import Family


@dataclass(frozen=True)
class Policy:
    """How verdicts of a study are reached."""

    metric: Metric
    margin: float | None  # None where the study states none in the unit of the metric: no equivalence is tested
    floor: float  # the smallest standard deviation of a run, see `smallest_sd`
    chance: Chance
    image: float = 0.0  # see `one_image`
    looks: Looks = NO_PLAN
    variance: Variance = "shared"  # see `Rule`
    family: Family = "all"  # see `Rule`
    has_grid: bool = False  # the plan has a grid of factors: pairs and factors are tested, and share `ALPHA`
    strictness: int = 1  # how many times as strict the intervals are, where a page has those of several studies

    @property
    def families(self) -> int:
        """How many families of tests share `ALPHA` equally."""
        return self.strictness * (2 if self.has_grid else 1)

    @property
    def unit(self) -> str:
        """What the values of a variant are counted by: "seed" or, where runs are not paired by it, "run"."""
        return "run" if self.variance == "unpaired" else "seed"

    @property
    def several_looks(self) -> bool:
        """Whether the level of an interval is that of one of several planned looks."""
        return len(self.looks.plan) > 1

    @property
    def rule(self) -> Rule:
        """The rule for differences of two runs."""
        floor, lower = math.sqrt(2) * self.floor, self.metric.lower_is_better
        return Rule(self.margin, lower, floor, self.families, self.looks, self.family, self.variance)

    def without_room(self, values: Values) -> dict[Verdict, set[str]]:
        """The variants of which each finished run errs on at most one image, and those near the metric of guessing."""
        runs = {variant: [run for run in of.values() if math.isfinite(run)] for variant, of in values.items()}
        least = 1 - 1.0000001 * self.image if self.metric.is_share else math.inf
        return {CEILING: {v for v in runs if min(runs[v], default=-1) >= least}, NEAR_CHANCE: self.chance.near(values)}

    def compare(self, values: Values, pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Comparison]:
        """Each pair (a, b) as a - b; the pairs are one family. Verdicts also hold where failed runs are at chance."""
        pairs, tested, chance = list(pairs), self.looks.limit(values), self.chance
        compared = compare(tested, pairs, self.rule)
        if failed := {variant for variant, seeds in chance.failed.items() if tested[variant].keys() & set(seeds)}:
            counted = {
                pair: without_test(one, "failed runs, chance level unknown") if chance.unknown & set(pair) else one
                for pair, one in compare(self.looks.limit(chance.counted(values)), pairs, self.rule).items()
                if failed & set(pair)
            }
            compared = with_failed(compared, counted, self.rule)
        for word, variants in self.without_room(tested).items():
            compared = without_room(compared, {pair for pair in pairs if variants.issuperset(pair)}, word)
        return compared


def one_image(finished: Mapping[str, ArrayLike], metric: Metric) -> float:
    """The share of one image of the metric's split; 0 for another metric, and where the size is not recorded.

    `finished`: column -> its value in each finished run, with `test_images` for a metric of the test set.
    """
    sizes = np.asarray(finished.get(images_column(metric), []), dtype=float)
    known = sizes[sizes == sizes] if metric.is_share else sizes[:0]
    return 1 / float(known.min()) if len(known) and known.min() > 0 else 0.0


def images_column(metric: Metric) -> str:
    """The column with the number of images of the metric's split: `test_images`."""
    return f"{metric.partition('/')[0]}_images"


def smallest_sd(finished: Mapping[str, ArrayLike], metric: Metric) -> float:
    """The smallest standard deviation that a run is credited with: half of a metric's step, 0 for a loss.

    The step of an accuracy is one image of its split. Where its size is not recorded, and where accuracies are means
    over support sets or shifts, it is what the accuracies themselves show; accuracies that are all 0 or 1 show none.
    Any other metric has the step to which its values are rounded. `finished`: see `one_image`.
    """
    values = np.asarray(finished[metric], dtype=float)
    if not metric.is_share:
        return 0.0 if metric.is_loss else 0.5 * decimal_step(values)
    if image := one_image(finished, metric):
        return 0.5 * image
    step = accuracy_step(values)
    return 0.5 * step if step < 1 else 0.0
