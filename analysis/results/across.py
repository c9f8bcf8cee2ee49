"""What holds on average over several datasets: studies of the same variants, one for each dataset, with equal weight."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from analysis import formatting, stats
from analysis.results.policy import Policy, Values, chance_accuracy
from analysis.results.study_results import StudyResults
from analysis.sources.by_dataset import DATASET, datasets_of
from analysis.sources.matching import check_alike
from analysis.sources.runs_table import RunsTable
from analysis.sources.source_run import ENDED
from experiments.data.catalogue import DATASETS
from experiments.errors import UserError

AGGREGATES = {"iqm": "interquartile mean", "mean": "mean", "median": "median"}
"""The aggregates by name, as tables and figures call them."""
FEWEST = 2  # finished runs that a variant needs on every dataset

Aggregates = dict[str, dict[str, stats.Aggregate]]
"""variant -> name of the aggregate -> the aggregate"""
Sides = dict[str, list[tuple[np.ndarray, np.ndarray]]]
"""variant -> for each dataset its values and the baseline's on the same seeds, (seeds,) each"""


@dataclass(frozen=True)
class AcrossDatasets:
    """The aggregates over the datasets, and the differences from the baseline on average over them."""

    datasets: list[str]
    baseline: str
    policy: Policy
    """the policy of the average differences, with the smallest margin of the studies. Looks are those at the one study
    that was split by its datasets; several studies plan their looks for their own tests"""
    left_out: dict[str, str]
    """variant that is not aggregated -> why"""
    chance: dict[str, float] | None
    """dataset -> accuracy of chance; None where it is unknown for a dataset, or the metric is no accuracy"""
    scores: Aggregates
    """of the metric, for the variants that are aggregated, in the order of the first study"""
    normalised: Aggregates
    """of (accuracy - chance) / (1 - chance); empty where chance is unknown or equal for all datasets"""
    differences: dict[str, stats.Comparison]
    """variant -> its difference from the baseline, paired by seed within each dataset; the variants are one family"""
    by_dataset: dict[str, dict[str, np.ndarray]]
    """variant -> dataset -> its differences from the baseline (seeds,), on the seeds that both finished"""
    improvement: dict[str, stats.Aggregate]
    """variant -> the probability that a run of it beats a run of the baseline"""
    dropped: int
    """seeds that only the variant or only the baseline finished, summed over variants and datasets"""

    @property
    def uncompared(self) -> list[str]:
        """The aggregated variants that have no seed in common with the baseline on some dataset."""
        return [variant for variant in self.scores if variant not in (self.baseline, *self.differences)]

    def higher_on(self, variant: str) -> list[str]:
        """The datasets on which the variant's mean difference from the baseline is positive."""
        return [name for name, differences in self.by_dataset[variant].items() if differences.mean() > 0]


def studies_by_dataset(studies: Sequence[StudyResults]) -> dict[str, StudyResults]:
    """Dataset -> its study.

    Raises `UserError` for fewer than two studies, for two studies of one dataset, and for studies that differ in their
    metric, variants or baseline, or use a name for different variants.
    """
    if len(studies) < 2:
        raise UserError("across: one study is not enough; give two or more, of different datasets")
    named: dict[str, StudyResults] = {}
    for results in studies:
        name = _dataset(results.study)
        if name in named:
            raise UserError(f"across: {named[name].study.name} and {results.study.name} use the same dataset, {name}")
        named[name] = results
    check_alike([results.study for results in studies])
    return named


def aggregate(studies: Mapping[str, StudyResults], whole: Policy | None = None) -> AcrossDatasets:
    """The aggregates over datasets; `studies`: dataset -> its study, as `studies_by_dataset` returns them.

    `whole`: the policy of the one study that the studies are parts of. With planned looks, the differences are those of the
    last look that is reached, and there are none before the first; scores are those of all finished runs.
    Raises `UserError` where the baseline has too few finished runs on a dataset.
    """
    first = next(iter(studies.values()))
    baseline, metric = first.study.baseline, first.study.metric
    margin = min(results.study.margin for results in studies.values())
    policy = replace(whole or Policy(metric, margin, floor=0.0, chance={}), margin=margin)
    left_out = _left_out(studies)
    if baseline in left_out:
        raise UserError(f"across: the baseline {baseline!r} has {left_out[baseline]}; it needs {FEWEST} on each")
    floors = [results.policy.floor for results in studies.values()]
    samples = {
        variant: [_finite(runs.values()) for runs in _runs(studies, variant)]
        for variant in first.variants.names
        if variant not in left_out
    }
    values = [policy.limit(results.means.values) for results in studies.values()]
    sides = _sides(values, baseline, [variant for variant in samples if variant != baseline])
    usable = {variant: [(_finite(a), _finite(b)) for a, b in both] for variant, both in sides.items()}
    common = [variant for variant, both in usable.items() if all(len(a) for a, _ in both)]
    differences = stats.compare_averages(_differences(sides, common), floors, policy.rule)
    counted = [policy.limit(results.policy.count_diverged(results.means.values)) for results in studies.values()]
    unknown = set().union(*(results.policy.unknown_chance for results in studies.values()))
    again = stats.compare_averages(_differences(_sides(counted, baseline, common), common), floors, policy.rule)
    chance = _chance(studies) if metric.is_share else None
    return AcrossDatasets(
        datasets=list(studies),
        baseline=baseline,
        policy=policy,
        left_out=left_out,
        chance=chance,
        scores={variant: stats.aggregates(runs, floors) for variant, runs in samples.items()},
        normalised=_normalised(samples, floors, list(chance.values())) if chance else {},
        differences={
            variant: replace(
                compared,
                verdict_with_diverged="not enough evidence"
                if unknown & {variant, baseline}
                else again[variant].verdict,
            )
            for variant, compared in differences.items()
        },
        by_dataset={v: dict(zip(studies, runs)) for v, runs in _differences(usable, common).items()},
        improvement={v: _improvement(usable[v], metric.lower_is_better) for v in common},
        dropped=sum(int(stats.paired(runs, [(v, baseline) for v in common])[2].sum()) for runs in values),
    )


def baseline_runs(results: StudyResults) -> int:
    """How many runs of the baseline have finished with a value of the metric."""
    return len(_finite(results.means.values[results.study.baseline].values()))


def _dataset(study: RunsTable) -> str:
    """The one dataset of a study; an image folder has the folder's name as well."""
    names = datasets_of(study)
    if len(names) != 1:
        known = f"its runs use {len(names)} datasets" if names else f"its records do not state {DATASET}"
        raise UserError(f"across: {study.name}: {known}; each study needs one dataset")
    name = names[0]
    if name in DATASETS and DATASETS[name].source == "folder":
        return f"{name} {Path(str(study.runs['data.root'].dropna().iloc[0])).name}"
    return name


def _left_out(studies: Mapping[str, StudyResults]) -> dict[str, str]:
    """Variants that have too few finished runs on a dataset, and what they have: "1 finished run on mnist"."""
    left_out = {}
    for variant in next(iter(studies.values())).variants.names:
        counts = dict(zip(studies, (len(_finite(runs.values())) for runs in _runs(studies, variant))))
        few = [f"{formatting.plural(n, 'finished run')} on {name}" for name, n in counts.items() if n < FEWEST]
        if few:
            left_out[variant] = formatting.listing(few)
    return left_out


def _runs(studies: Mapping[str, StudyResults], variant: str) -> list[Mapping[int, float]]:
    """The values of a variant on each dataset, by seed in increasing order."""
    return [dict(sorted(results.means.values[variant].items())) for results in studies.values()]


def _finite(values: Iterable[float]) -> np.ndarray:
    array = np.array(list(values), dtype=float)
    return array[np.isfinite(array)]


def _sides(values: Sequence[Values], baseline: str, variants: Sequence[str]) -> Sides:
    """NaN stands for the seeds that one side or both did not finish."""
    paired = [stats.paired(runs, [(variant, baseline) for variant in variants]) for runs in values]
    return {variant: [(a[i], b[i]) for a, b, _ in paired] for i, variant in enumerate(variants)}


def _differences(sides: Sides, variants: Sequence[str]) -> dict[str, list[np.ndarray]]:
    return {variant: [a - b for a, b in sides[variant]] for variant in variants}


def _improvement(sides: list[tuple[np.ndarray, np.ndarray]], lower_is_better: bool) -> stats.Aggregate:
    a, b = zip(*sides)
    return stats.improvement(a, b, lower_is_better)


def _chance(studies: Mapping[str, StudyResults]) -> dict[str, float] | None:
    """The accuracy of chance on each dataset; None where it is not known for one of them."""
    levels: dict[str, float] = {}
    for name, results in studies.items():
        level = chance_accuracy(results.study.of(*ENDED).iloc[0], results.study.metric)
        if level is None:
            return None
        levels[name] = level
    return levels


def _normalised(
    samples: Mapping[str, Sequence[np.ndarray]], floors: Sequence[float], chance: Sequence[float]
) -> Aggregates:
    """The aggregates of (accuracy - chance) / (1 - chance): 0 is chance level, 1 is perfect."""
    if len(set(chance)) < 2:
        return {}
    scaled = [floor / (1 - lowest) for floor, lowest in zip(floors, chance)]
    return {
        variant: stats.aggregates([(run - lowest) / (1 - lowest) for run, lowest in zip(runs, chance)], scaled)
        for variant, runs in samples.items()
    }
