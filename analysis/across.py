"""Several studies of the same variants on different datasets: aggregates over the datasets. Results in, statistics out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from analysis import formatting, stats
from analysis.results.policy import ALPHA, Policy, chance_accuracy
from analysis.results.study_results import StudyResults
from analysis.sources.by_dataset import DATASET, datasets_of
from analysis.sources.matching import check_alike
from analysis.sources.runs_table import ENDED
from analysis.stats.comparisons import Values
from experiments.data.catalogue import DATASETS
from experiments.errors import UserError
from experiments.runs.looks import Look

AGGREGATES = {"iqm": "interquartile mean", "mean": "mean", "median": "median"}
"""The aggregates by name, as tables and figures call them."""
FEWEST = 2  # finished runs that a variant needs on every dataset


@dataclass(frozen=True)
class AcrossDatasets:
    """Studies of the same variants, one for each dataset, and the aggregates over the datasets with equal weight."""

    studies: dict[str, StudyResults]
    """dataset -> its study; all have the same variants, baseline and metric"""
    variants: list[str]
    """the variants that are aggregated, in the order of the first study"""
    left_out: dict[str, str]
    """variant -> why it is not aggregated"""
    margin: float
    """the smallest margin of the studies"""
    chance: dict[str, float] | None
    """dataset -> accuracy of chance; None where it is unknown for a dataset, or the metric is no accuracy"""
    scores: dict[str, dict[str, stats.Aggregate]]
    """variant -> name of the aggregate -> the aggregate of the metric; empty where nothing is aggregated"""
    normalised: dict[str, dict[str, stats.Aggregate]]
    """the same of (accuracy - chance) / (1 - chance); empty where chance is unknown or equal for all datasets"""
    differences: dict[str, stats.AverageDifference]
    """variant -> its difference from the baseline, paired by seed within each dataset; the variants are one family"""
    paired: dict[str, dict[str, np.ndarray]]
    """variant -> dataset -> its differences from the baseline (seeds,), on the seeds that both finished"""
    depends_on_diverged: frozenset[str]
    """the variants whose verdict is another one if diverged runs count as chance level"""
    improvement: dict[str, stats.Aggregate]
    """variant -> the probability that a run of it beats a run of the baseline"""
    dropped: int
    """seeds that only the variant or only the baseline finished, summed over variants and datasets"""
    policy: Policy | None = None
    """that of the one study that was split by its datasets. None for several studies: their planned looks are for their
    own tests"""
    looks: tuple[Look, ...] = ()
    """the looks at the one study"""

    @property
    def waiting(self) -> bool:
        """Whether nothing may be tested yet: the first planned look at the one study is not reached."""
        return self.policy is not None and self.policy.waiting

    @property
    def first(self) -> StudyResults:
        """The first study; the variants' order, the baseline and the metric are the same in all."""
        return next(iter(self.studies.values()))

    @property
    def others(self) -> list[str]:
        """Every aggregated variant but the baseline."""
        return [variant for variant in self.variants if variant != self.first.study.baseline]

    def higher_on(self, variant: str) -> list[str]:
        """The datasets on which the variant's mean difference from the baseline is positive."""
        return [name for name, differences in self.paired[variant].items() if differences.mean() > 0]


def aggregate_studies(
    studies: Sequence[StudyResults], policy: Policy | None = None, looks: tuple[Look, ...] = ()
) -> AcrossDatasets:
    """Aggregate studies of the same variants over their datasets.

    `policy` and `looks`: those of the one study that the studies are parts of. With planned looks, the differences are those of the
    last look that is reached, and there are none before the first; scores are those of all finished runs.

    Raises `UserError` for fewer than two studies, for two studies of one dataset, and for studies that differ in their
    metric, variants or baseline, or use a name for different variants.
    """
    by_dataset = _by_dataset(studies)
    check_alike([results.study for results in studies])
    first = studies[0]
    left_out = _left_out(by_dataset)
    variants = [variant for variant in first.variants.names if variant not in left_out]
    baseline = first.study.baseline
    if baseline in left_out:
        raise UserError(
            f"across: the baseline {baseline!r} {left_out[baseline]}; it needs {FEWEST} finished runs on each"
        )
    floors = [results.policy.floor for results in by_dataset.values()]
    margin = min(results.study.margin for results in by_dataset.values())
    tests = None if policy is None else policy.looks
    rule = stats.Rule(margin, ALPHA, first.study.metric.lower_is_better, looks=tests)
    values = [_tested(results.values, policy) for results in by_dataset.values()]
    samples = {variant: [_finite(results.values[variant]) for results in by_dataset.values()] for variant in variants}
    given = {variant: _sides(values, variant, baseline) for variant in variants if variant != baseline}
    pairs = {variant: _usable(*sides) for variant, sides in given.items()}
    pairs = {variant: both for variant, both in pairs.items() if all(len(side) for side in both[0])}
    paired = {variant: dict(zip(by_dataset, _differences(*both))) for variant, both in pairs.items()}
    differences = stats.compare_averages({variant: _differences(*given[variant]) for variant in pairs}, floors, rule)
    chance = _chance(by_dataset) if first.study.metric.is_share else None
    return AcrossDatasets(
        studies=by_dataset,
        variants=variants,
        left_out=left_out,
        margin=margin,
        chance=chance,
        scores={variant: stats.aggregates(runs, floors) for variant, runs in samples.items()},
        normalised=_normalised(samples, floors, list(chance.values())) if chance else {},
        differences=differences,
        paired=paired,
        depends_on_diverged=_depending(by_dataset, list(pairs), floors, rule, differences, policy),
        improvement={v: stats.improvement(*both, rule.lower_is_better) for v, both in pairs.items()},
        dropped=sum(_dropped(runs, variant, baseline) for variant in pairs for runs in values),
        policy=policy,
        looks=looks,
    )


def side_by_side(
    studies: Sequence[StudyResults], policy: Policy | None = None, looks: tuple[Look, ...] = ()
) -> AcrossDatasets:
    """The studies without aggregates and tests, for datasets with too few runs of the baseline. `policy` as in
    `aggregate_studies`.

    Raises `UserError` as `aggregate_studies` does for studies that do not belong together.
    """
    by_dataset = _by_dataset(studies)
    check_alike([results.study for results in studies])
    return AcrossDatasets(
        studies=by_dataset,
        variants=[],
        left_out=_left_out(by_dataset),
        margin=min(results.study.margin for results in by_dataset.values()),
        chance=None,
        scores={},
        normalised={},
        differences={},
        paired={},
        depends_on_diverged=frozenset(),
        improvement={},
        dropped=0,
        policy=policy,
        looks=looks,
    )


def baseline_runs(results: StudyResults) -> int:
    """How many runs of the baseline have finished with a value of the metric."""
    return len(_finite(results.values[results.study.baseline]))


def _by_dataset(studies: Sequence[StudyResults]) -> dict[str, StudyResults]:
    """Dataset -> its study."""
    if len(studies) < 2:
        raise UserError("across: one study is not enough; give two or more, of different datasets")
    found: dict[str, StudyResults] = {}
    for results in studies:
        study = results.study
        names = datasets_of(study)
        if len(names) != 1:
            known = f"its runs use {len(names)} datasets" if names else f"its records do not state {DATASET}"
            raise UserError(f"across: {study.name}: {known}; each study needs one dataset")
        name = names[0]
        if name in DATASETS and DATASETS[name].source == "folder":
            name = f"{name} {Path(str(study.runs['data.root'].dropna().iloc[0])).name}"
        if name in found:
            raise UserError(f"across: {found[name].study.name} and {study.name} use the same dataset, {name}")
        found[name] = results
    return found


def _left_out(studies: Mapping[str, StudyResults]) -> dict[str, str]:
    """Variants that have too few finished runs on a dataset, and the reason."""
    found = {}
    for variant in next(iter(studies.values())).variants.names:
        few = {name: len(_finite(results.values[variant])) for name, results in studies.items()}
        if short := [f"{formatting.plural(n, 'finished run')} on {name}" for name, n in few.items() if n < FEWEST]:
            found[variant] = f"has {formatting.listing(short)}"
    return found


def _finite(runs: Mapping[int, float]) -> np.ndarray:
    """The values of finished runs, in the order of their seeds."""
    return np.array([value for _, value in sorted(runs.items()) if math.isfinite(value)])


def _tested(values: Values, policy: Policy | None) -> Values:
    """The values that may be tested: all of them where no look is planned."""
    return values if policy is None else policy.limit(values)


def _sides(
    values: Sequence[Mapping[str, Mapping[int, float]]], variant: str, baseline: str
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The variant's and the baseline's values by dataset, NaN for the seeds that a side did not finish."""
    both = [stats.paired(runs, [(variant, baseline)]) for runs in values]
    return [one[0] for one, _, _ in both], [other[0] for _, other, _ in both]


def _usable(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Both sides without the seeds that are NaN; a seed is NaN on both sides or on none."""
    return [one[np.isfinite(one)] for one in a], [other[np.isfinite(other)] for other in b]


def _dropped(values: Mapping[str, Mapping[int, float]], variant: str, baseline: str) -> int:
    """How many seeds cannot be paired, because a side did not finish."""
    return int(stats.paired(values, [(variant, baseline)])[2][0])


def _differences(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [one - other for one, other in zip(a, b)]


def _depending(
    studies: Mapping[str, StudyResults],
    variants: Sequence[str],
    floors: Sequence[float],
    rule: stats.Rule,
    found: Mapping[str, stats.AverageDifference],
    policy: Policy | None,
) -> frozenset[str]:
    """The variants whose verdict changes if diverged runs count as chance level.

    Where chance level is not known, no verdict stands on the finished runs alone.
    """
    baseline = next(iter(studies.values())).study.baseline
    values: list[Values] = []
    unknown: set[str] = set()
    for results in studies.values():
        counted, lost = results.policy.count_diverged(results.values), results.policy.unknown_chance
        unknown |= set(variants) if baseline in lost else lost
        values.append(_tested(counted, policy))
    again = stats.compare_averages({v: _differences(*_sides(values, v, baseline)) for v in variants}, floors, rule)
    return frozenset(
        variant
        for variant in variants
        if again[variant].verdict != found[variant].verdict
        or (variant in unknown and found[variant].verdict != "not enough evidence")
    )


def _chance(studies: Mapping[str, StudyResults]) -> dict[str, float] | None:
    """The accuracy of chance on each dataset; None where it is not known for one of them."""
    found: dict[str, float] = {}
    for name, results in studies.items():
        ended: pd.DataFrame = results.study.of(*ENDED)
        share = chance_accuracy(ended.iloc[0], results.study.metric)
        if share is None:
            return None
        found[name] = share
    return found


def _normalised(
    samples: Mapping[str, Sequence[np.ndarray]], floors: Sequence[float], chance: Sequence[float]
) -> dict[str, dict[str, stats.Aggregate]]:
    """The aggregates of (accuracy - chance) / (1 - chance): 0 is chance level, 1 is perfect."""
    if len(set(chance)) < 2:
        return {}
    scaled = [floor / (1 - lowest) for floor, lowest in zip(floors, chance)]
    return {
        variant: stats.aggregates([(run - lowest) / (1 - lowest) for run, lowest in zip(runs, chance)], scaled)
        for variant, runs in samples.items()
    }
