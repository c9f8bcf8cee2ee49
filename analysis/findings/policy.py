"""How verdicts of a study are reached: margin, family, planned looks, diverged runs. All comparisons are made here."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from analysis import verdicts
from analysis.findings.chance import Chance, study_chance
from analysis.runs.runs import Runs
from analysis.runs.source_run import ENDED
from analysis.verdicts.comparisons import (
    CEILING,
    NEAR_CHANCE,
    Comparison,
    Values,
    Verdict,
    with_diverged,
    without_room,
    without_test,
)
from analysis.verdicts.estimates import accuracy_step, decimal_step
from experiments.metric import Metric


@dataclass(frozen=True)
class Policy:
    """How verdicts of a study are reached."""

    metric: Metric
    margin: float | None  # None where the study states none in the unit of the metric: no equivalence is tested
    floor: float  # the smallest standard deviation of a run, see `smallest_sd`
    chance: Chance
    image: float = 0.0  # see `one_image`
    looks: verdicts.Looks = verdicts.NO_PLAN
    variance: verdicts.Variance = "shared"  # see `verdicts.Rule`
    has_grid: bool = False  # the plan has a grid of factors: pairs and factors are tested, and share `verdicts.ALPHA`
    strictness: int = 1  # how many times as strict the intervals are, where a page has those of several studies

    @property
    def families(self) -> int:
        """How many families of tests share `verdicts.ALPHA` equally."""
        return self.strictness * (2 if self.has_grid else 1)

    @property
    def several_looks(self) -> bool:
        """Whether the level of an interval is that of one of several planned looks."""
        return len(self.looks.plan) > 1

    @property
    def rule(self) -> verdicts.Rule:
        """The rule for differences of two runs."""
        floor = math.sqrt(2) * self.floor
        return verdicts.Rule(self.margin, self.metric.lower_is_better, floor, self.families, self.looks, self.variance)

    def tested(self, study: Runs) -> pd.DataFrame:
        """The finished runs that tests may use: with planned looks, those of the seeds of the last look."""
        finished = study.of("finished")
        return finished.loc[[self.looks.may_test(seed) for seed in finished["seed"]]]

    def without_room(self, values: Values) -> dict[Verdict, set[str]]:
        """The variants of which each finished run errs on at most one image, and those near the metric of guessing."""
        runs = {variant: [run for run in of.values() if math.isfinite(run)] for variant, of in values.items()}
        least = 1 - 1.0000001 * self.image if self.metric.is_share else math.inf
        return {CEILING: {v for v in runs if min(runs[v], default=-1) >= least}, NEAR_CHANCE: self.chance.near(values)}

    def compare(self, values: Values, pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Comparison]:
        """Each pair (a, b) as a - b; the pairs are one family. Verdicts also hold where diverged runs are at chance."""
        pairs, tested, chance = list(pairs), self.looks.limit(values), self.chance
        compared = verdicts.compare(tested, pairs, self.rule)
        if failed := {variant for variant, seeds in chance.diverged.items() if tested[variant].keys() & set(seeds)}:
            counted = {
                pair: without_test(one, "failed runs, chance level unknown") if chance.unknown & set(pair) else one
                for pair, one in verdicts.compare(self.looks.limit(chance.counted(values)), pairs, self.rule).items()
                if failed & set(pair)
            }
            compared = with_diverged(compared, counted, self.rule)
        for word, variants in self.without_room(tested).items():
            compared = without_room(compared, {pair for pair in pairs if variants.issuperset(pair)}, word)
        return compared


def study_policy(study: Runs) -> Policy:
    """The policy of a study, as its plan and records are now."""
    return Policy(
        metric=study.metric,
        margin=study.margin,
        floor=smallest_sd(study.of("finished"), study.metric),
        chance=study_chance(study),
        image=one_image(study.of("finished"), study.metric),
        looks=verdicts.Looks(tuple(study.plan.looks), _complete(study), study.plan.stopped),
        variance=study.plan.variance,
        has_grid=study.plan.has_grid,
    )


def one_image(finished: pd.DataFrame, metric: Metric) -> float:
    """The share of one image of the metric's split; 0 for another metric, and where the size is not recorded."""
    column = f"{metric.partition('/')[0]}_images"
    images = finished[column].min() if metric.is_share and column in finished else math.nan
    return 1 / images if images > 0 else 0.0


def smallest_sd(finished: pd.DataFrame, metric: Metric) -> float:
    """The smallest standard deviation that a run is credited with: half of a metric's step, 0 for a loss.

    The step of an accuracy is one image of its split. Where its size is not recorded, and where accuracies are means
    over support sets or shifts, it is what the accuracies themselves show; accuracies that are all 0 or 1 show none.
    Any other metric has the step to which its values are rounded.
    """
    if not metric.is_share:
        return 0.0 if metric.is_loss else 0.5 * decimal_step(finished[metric].to_numpy())
    if image := one_image(finished, metric):
        return 0.5 * image
    step = accuracy_step(finished[metric].to_numpy())
    return 0.5 * step if step < 1 else 0.0


def _complete(study: Runs) -> tuple[int, ...]:
    """The seeds before the first one that has a run left to end, in the planned order."""
    planned = study.runs[study.runs["status"] != "unplanned"]
    left = set(planned.loc[~planned["status"].isin([*ENDED, "unreadable"]), "seed"])
    seeds = list(dict.fromkeys(planned["seed"]))
    first = next((i for i, seed in enumerate(seeds) if seed in left), len(seeds))
    return tuple(map(int, seeds[:first]))
