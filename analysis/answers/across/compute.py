"""Averages over several datasets: studies of the same variants, one for each dataset, with equal weight."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from analysis import formatting, stats
from analysis.answers.study_results import StudyResults
from analysis.results.policy import Policy, Values
from analysis.sources.by_dataset import DATASET, datasets_of
from analysis.sources.matching import check_alike
from analysis.sources.runs_table import RunsTable
from analysis.stats.comparisons import near_chance, with_diverged
from experiments.data.catalogue import DATASETS
from experiments.errors import UserError

FEWEST = 2  # seeds that a variant needs on every dataset


@dataclass(frozen=True)
class AcrossDatasets:
    """The means over the datasets, and the differences from the baseline on average over them."""

    studies: dict[str, StudyResults]
    """dataset -> its study"""
    policy: Policy
    """the policy of the average differences, with the smallest margin of the studies. Looks are those at the one study
    that was split by its datasets; several studies plan their looks for their own tests"""
    left_out: dict[str, str]
    """variant that is not averaged -> what it has, such as `1 seed on mnist`"""
    scores: dict[str, stats.Estimate]
    """variant -> its mean of the metric, in the order of the first study"""
    differences: dict[str, stats.Comparison]
    """variant -> its difference from the baseline, paired by seed within each dataset; the variants are one family.
    Empty before the first planned look"""
    by_dataset: dict[str, dict[str, np.ndarray]]
    """variant -> dataset -> its differences from the baseline (seeds,), on the seeds that both finished"""

    @property
    def baseline(self) -> str:
        """The baseline of every study."""
        return next(iter(self.studies.values())).study.baseline

    @property
    def seeds(self) -> list[int]:
        """The numbers of seeds of the differences, for each variant and dataset."""
        return [len(differences) for runs in self.by_dataset.values() for differences in runs.values()]

    def opposite_signs(self) -> list[tuple[str, str, float]]:
        """Variant and dataset on which the mean difference is zero or of another sign than a significant average."""
        return [
            (variant, name, float(differences.mean()))
            for variant, compared in self.differences.items()
            for name, differences in self.by_dataset[variant].items()
            if compared.verdict in ("better", "worse") and differences.mean() * compared.diff.value <= 0
        ]


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
    """The averages over datasets; `studies`: dataset -> its study, as `studies_by_dataset` returns them.

    `whole`: the policy of the one study that the studies are parts of. With planned looks, the differences are those of
    the last look that is reached, and there are none before the first; scores are those of all finished runs. Raises
    `UserError` where the baseline has too few finished runs on a dataset.
    """
    parts = list(studies.values())
    study, names = parts[0].study, parts[0].variants.names
    baseline, margin = study.baseline, min((part.study.margin for part in parts), key=lambda margin: margin or 0.0)
    policy = replace(whole or Policy(study.metric, margin, floor=0.0, chance={}), margin=margin, families=1)
    floors, finished = [part.policy.floor for part in parts], [part.means.values for part in parts]
    counted = [part.policy.count_diverged(part.means.values) for part in parts]
    unknown = set().union(*(part.policy.unknown_chance for part in parts))

    def sides(values: Sequence[Values], variant: str) -> list[np.ndarray]:
        """For each dataset the runs of the variant and of the baseline (2, seeds), in the planned order."""
        tested = values if policy.looks.waiting else map(policy.looks.limit, values)
        return [
            np.array([(x, runs[baseline].get(seed, np.nan)) for seed, x in runs[variant].items()]).reshape(-1, 2).T
            for runs in tested
        ]

    def differences(values: Sequence[Values]) -> dict[str, stats.Comparison]:
        return stats.compare_averages({v: [a - b for a, b in sides(values, v)] for v in compared}, floors, policy.rule)

    def samples(variant: str) -> list[np.ndarray]:
        return [np.array(list(runs[variant].values())) for runs in finished]

    both = {v: [runs[:, np.isfinite(runs).all(axis=0)] for runs in sides(finished, v)] for v in names}
    left_out = {variant: few for variant in names if (few := _too_few(dict(zip(studies, both[variant]))))}
    if baseline in left_out:
        raise UserError(f"across: the baseline {baseline!r} has {left_out[baseline]}; it needs {FEWEST} on each")
    scored = [variant for variant in names if variant not in left_out]
    compared = [variant for variant in scored if variant != baseline and not policy.looks.waiting]
    near = set.intersection(*(part.policy.near_chance(part.means.values) for part in parts))
    failed = set().union(*(part.policy.chance for part in parts))
    with_failed = {
        variant: replace(one, adjusted=stats.UNKNOWN) if unknown & {variant, baseline} else one
        for variant, one in (differences(counted) if failed else {}).items()
        if failed & {variant, baseline}
    }
    return AcrossDatasets(
        studies=dict(studies),
        policy=policy,
        left_out=left_out,
        scores={variant: stats.average(samples(variant), floors) for variant in scored},
        differences=near_chance(
            with_diverged(differences(finished), with_failed, policy.rule), near if baseline in near else ()
        ),
        by_dataset={variant: {name: a - b for name, (a, b) in zip(studies, both[variant])} for variant in compared},
    )


def baseline_runs(results: StudyResults) -> int:
    """How many runs of the baseline have finished with a value of the metric."""
    return results.means.of(results.study.baseline).n


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


def _too_few(sides: Mapping[str, np.ndarray]) -> str:
    """The datasets with too few seeds that the variant and the baseline both finished; empty where there is none."""
    few = [(runs.shape[-1], name) for name, runs in sides.items() if runs.shape[-1] < FEWEST]
    return formatting.listing([f"{formatting.plural(n, 'seed')} on {name}" for n, name in few])
