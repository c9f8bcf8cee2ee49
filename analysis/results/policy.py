"""How verdicts are reached: level, margin, family, planned looks and the treatment of diverged runs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import pandas as pd

from analysis import stats
from analysis.sources.runs_table import RunsTable
from analysis.sources.source_run import ENDED
from analysis.stats.comparisons import PairedComparison, Values
from experiments.data.catalogue import DATASETS
from experiments.metric import Metric


@dataclass(frozen=True)
class Policy:
    """How verdicts of a study are reached. All comparisons are made here.

    With planned looks, tests use the seeds of the last planned look that is reached: one for whose seeds all runs have
    ended. Seeds beyond it are not tested before the next planned look, and never after the last one.
    """

    metric: Metric
    margin: float
    floor: float
    """the smallest standard deviation that a run of the metric is credited with: half a step of an accuracy"""
    chance: dict[str, dict[int, float]]
    """variant -> seed -> the metric of chance level, for diverged runs only; NaN where that level is not known"""
    plan: tuple[int, ...] = ()
    """the planned looks as numbers of seeds; empty without a plan"""
    complete: int = 0
    """how many seeds, in the planned order, have all their runs ended"""
    looks: stats.Looks = stats.NO_PLAN
    """the plan with the look that is reached; empty without a plan, and before the first planned look"""
    families: int = 1
    """how many families of tests share `stats.ALPHA`: 2 where pairs and factors are tested"""

    @property
    def rule(self) -> stats.Rule:
        """The rule for differences of two runs."""
        return self.rule_for(math.sqrt(2) * self.floor)

    def rule_for(self, floor: float) -> stats.Rule:
        """The rule for values with this smallest standard deviation."""
        lower = self.metric.lower_is_better
        return stats.Rule(self.margin, lower, floor, self.families, self.looks)

    @property
    def waiting(self) -> bool:
        """Whether nothing may be tested yet: the first planned look is not reached."""
        return bool(self.plan) and not self.looks

    @property
    def family_alpha(self) -> float:
        """The level of a family of tests."""
        return stats.ALPHA / self.families

    @property
    def next_look(self) -> int | None:
        """The next planned look; None where there is none."""
        return next((n for n in self.plan if n > self.complete), None)

    @property
    def unknown_chance(self) -> set[str]:
        """The variants with diverged runs whose chance level is not known."""
        return {variant for variant, runs in self.chance.items() if any(map(math.isnan, runs.values()))}

    def sharing_alpha(self, families: int) -> Policy:
        """The same policy where so many families of tests share alpha."""
        return replace(self, families=families)

    def may_test(self, seed: int) -> bool:
        """Whether tests may use this seed."""
        return not self.plan or seed in self.looks.seeds

    def limit(self, values: Values) -> dict[str, dict[int, float]]:
        """The values that may be tested, with NaN for the seeds of a planned look that lack one."""
        if not self.plan:
            return {variant: dict(runs) for variant, runs in values.items()}
        seeds = self.looks.seeds
        return {variant: {seed: runs.get(seed, math.nan) for seed in seeds} for variant, runs in values.items()}

    def count_diverged(self, values: Values) -> dict[str, dict[int, float]]:
        """The values where diverged runs are at chance level. Where that is not known, they keep their values."""
        unknown = self.unknown_chance
        return {
            variant: {**runs, **({} if variant in unknown else self.chance.get(variant, {}))}
            for variant, runs in values.items()
        }

    def compare(self, values: Values, pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], PairedComparison]:
        """Each pair (a, b) as a - b; the pairs are one family. Each has its verdict where diverged runs count.

        Where their chance level is not known, no verdict stands on the finished runs alone.
        """
        pairs, tested = list(pairs), self.limit(values)
        compared = stats.compare(tested, pairs, self.rule)
        if not self.chance:
            return compared
        counted = stats.compare(self.limit(self.count_diverged(values)), pairs, self.rule)
        unknown = {v for v in self.unknown_chance if self.chance[v].keys() & tested[v].keys()}
        return stats.with_diverged(compared, counted, [pair for pair in pairs if unknown & set(pair)])


def study_policy(study: RunsTable) -> Policy:
    """The policy of a study, as its plan and records are now."""
    complete = _complete(study)
    reached = max((n for n in tuple(study.plan.looks) if n <= len(complete)), default=None)
    return Policy(
        metric=study.metric,
        margin=study.margin,
        floor=smallest_sd(study.of("finished"), study.metric),
        chance=_chance_levels(study),
        plan=tuple(study.plan.looks),
        complete=len(complete),
        looks=stats.NO_PLAN if reached is None else stats.Looks(tuple(study.plan.looks), tuple(complete[:reached])),
    )


def smallest_sd(finished: pd.DataFrame, metric: Metric) -> float:
    """The smallest standard deviation that a run is credited with: half of an accuracy's step, 0 for other metrics.

    The step is one image of its split. Where its size is not recorded, and where accuracies are means over support sets or
    shifts, it is what the accuracies themselves show; accuracies that are all 0 or 1 show none.
    """
    if not metric.is_share:
        return 0.0
    column = f"{metric.partition('/')[0]}_images"
    images = finished[column].min() if column in finished else math.nan
    if images > 0:
        return 0.5 / images
    step = stats.accuracy_step(finished[metric].to_numpy())
    return 0.5 * step if step < 1 else 0.0


def chance_accuracy(settings: pd.Series, metric: Metric) -> float | None:
    """The accuracy of guessing: 1 / the classes of the metric's images; None where they are not known.

    A few-shot metric names its dataset; every other metric is about a run's own data. Consistency under shifts is no
    accuracy and has no such level.
    """
    if metric.is_consistency:
        return None
    name, classes = metric.fewshot_dataset or settings.get("data.name"), settings.get("data.num_classes")
    dataset = DATASETS.get(name)
    if dataset is not None and dataset.num_classes:
        return 1 / dataset.num_classes
    return None if classes is None or pd.isna(classes) else 1 / int(classes)


def _chance_levels(study: RunsTable) -> dict[str, dict[int, float]]:
    """Chance among k classes is an accuracy of 1/k and a cross-entropy of log k.

    An unknown level counts as an accuracy of 0, the worst case. One unknown loss makes all of them unknown.
    """
    diverged, settings = study.of("diverged"), study.settings()
    levels: dict[str, dict[int, float]] = {}
    for variant, seed in zip(diverged["variant"], diverged["seed"]):
        share = chance_accuracy(settings.loc[variant], study.metric)
        if study.metric.lower_is_better:
            level = math.nan if share is None else -math.log(share)
        else:
            level = 0.0 if share is None else share
        levels.setdefault(variant, {})[int(seed)] = level
    if any(math.isnan(level) for runs in levels.values() for level in runs.values()):
        return {variant: dict.fromkeys(runs, math.nan) for variant, runs in levels.items()}
    return levels


def _complete(study: RunsTable) -> list[int]:
    """The seeds before the first one that has a run left to end, in the planned order."""
    planned = study.runs[study.runs["status"] != "unplanned"]
    left = set(planned.loc[~planned["status"].isin([*ENDED, "unreadable"]), "seed"])
    seeds = list(dict.fromkeys(planned["seed"]))
    first = next((i for i, seed in enumerate(seeds) if seed in left), len(seeds))
    return [int(seed) for seed in seeds[:first]]
