"""Test images: intervals for new images, accuracy by class, and the images on which variants differ most."""

from dataclasses import dataclass, replace

import numpy as np

from analysis import stats
from analysis.results.policy import Policy, smallest_sd
from analysis.sources.hits import VariantHits, by_variant
from analysis.sources.runs_table import RunsTable
from analysis.stats.comparisons import estimated_differences
from experiments.metric import Metric

METRIC = Metric("test/acc")
MOST_IMAGES = 12
"""The images on which variants differ most that a report shows."""


@dataclass(frozen=True)
class Disagreement:
    """A test image, its class, and the share of each variant's runs that classify it correctly."""

    image: int
    label: int
    shares: dict[str, float]


@dataclass(frozen=True)
class ImageResults:
    """Test accuracy over seeds and test images, by variant. Accuracies are fractions."""

    hits: dict[str, VariantHits]
    """variant -> the hits of its finished runs; at least one variant"""
    means: dict[str, stats.ImageEstimate]
    """variant -> its mean test accuracy"""
    versus: dict[str, stats.ImageEstimate]
    """variant -> its difference from the baseline over the seeds that both have, where the test images are the same"""

    @property
    def comparable(self) -> list[str]:
        """The largest group of variants that were tested on the same images, in the order of the study."""
        groups: dict[str, list[str]] = {}
        for variant, runs in self.hits.items():
            groups.setdefault(runs.images, []).append(variant)
        return max(groups.values(), key=len)

    @property
    def labels(self) -> np.ndarray:
        """The classes of the test images of the `comparable` variants, (images,)."""
        return self.hits[self.comparable[0]].labels

    @property
    def classes(self) -> list[str]:
        """The names of the classes; in older records they have none, and are numbered."""
        numbers = map(str, range(int(self.labels.max()) + 1))
        return list(max(self.hits[variant].classes for variant in self.comparable) or numbers)

    def by_class(self, variant: str) -> np.ndarray:
        """The variant's test accuracy for each class (classes,), over its seeds; NaN for a class without images."""
        runs = self.hits[variant]
        sums, counts = (np.bincount(runs.labels, w, len(self.classes)) for w in (runs.hits.mean(axis=0), None))
        return np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)

    def disagreements(self) -> list[Disagreement]:
        """At most `MOST_IMAGES` test images on which the `comparable` variants differ, the largest differences first.

        Of equal differences, those with the largest standard deviation over the variants come first.
        """
        variants = self.comparable
        shares = np.stack([self.hits[variant].hits.mean(axis=0) for variant in variants])
        spread = np.ptp(shares, axis=0)
        order = np.lexsort((-shares.std(axis=0).round(12), -spread))[:MOST_IMAGES]
        return [
            Disagreement(int(image), int(self.labels[image]), dict(zip(variants, shares[:, image].tolist())))
            for image in order
            if spread[image] > 0
        ]


def image_results(study: RunsTable, policy: Policy) -> ImageResults | None:
    """Compute the statistics of the test images; None where no record holds test predictions.

    `policy` says which seeds the differences use.
    """
    finished = study.of("finished")
    stacked = by_variant(finished, study.hits)
    hits = {variant: stacked[variant] for variant in study.variants if variant in stacked}
    if not hits:
        return None
    floor = smallest_sd(finished, METRIC)
    means = {variant: stats.over_images(runs.hits, floor=floor) for variant, runs in hits.items()}
    diffs = {v: _differences(runs, hits.get(study.baseline), policy) for v, runs in hits.items() if v != study.baseline}
    compared = {variant: differences for variant, differences in diffs.items() if len(differences)}
    accuracy = {v: dict(zip(runs.seeds, runs.hits.mean(axis=1))) for v, runs in hits.items()}
    rule = replace(policy.rule, floor=stats.floor_of_difference(floor))
    pairs = [(variant, study.baseline) for variant in compared]
    for_seeds = estimated_differences(policy.looks.limit(accuracy), pairs, rule)
    versus = {
        variant: stats.over_images(diffs[variant], policy.looks.of(pair).confidence, rule.floor, estimate)
        for variant, pair, estimate in zip(compared, pairs, for_seeds)
    }
    return ImageResults(hits, means, versus)


def _differences(a: VariantHits, b: VariantHits | None, policy: Policy) -> np.ndarray:
    """a - b on the seeds that both have and that may be tested: [seeds, images], -1, 0 or 1; empty for other images."""
    if b is None or a.images != b.images:
        return np.empty((0, 0))
    common = [seed for seed in sorted(set(a.seeds) & set(b.seeds)) if policy.looks.may_test(seed)]
    rows_a, rows_b = ([runs.seeds.index(seed) for seed in common] for runs in (a, b))
    return a.hits[rows_a].astype(np.int8) - b.hits[rows_b].astype(np.int8)
