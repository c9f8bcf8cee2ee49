"""Statistics of the test images: intervals for new images, accuracy by class, agreement, and images of disagreement."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from analysis import stats
from analysis.results.policy import Policy, smallest_sd
from analysis.sources.hits import VariantHits, by_variant
from analysis.sources.runs_table import RunsTable
from experiments.metric import Metric

MOST_IMAGES = 12
"""The images on which variants differ most that a report shows."""


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
        for variant, own in self.hits.items():
            groups.setdefault(own.images, []).append(variant)
        return max(groups.values(), key=len)

    def by_class(self, variant: str) -> np.ndarray:
        """The variant's test accuracy for each class (classes,), over its seeds; NaN for a class without test images."""
        own = self.hits[variant]
        sums, counts = np.bincount(own.labels, own.hits.mean(axis=0)), np.bincount(own.labels)
        return np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)

    def agreement(self, a: str, b: str) -> float:
        """The share of test images that a run of `a` and a run of `b` both get right or both get wrong.

        It is the mean over all pairs of two different runs, whatever their seeds; NaN where there is no such pair.
        """
        one, other = self.hits[a].hits, self.hits[b].hits
        p, q = one.sum(axis=0), other.sum(axis=0)
        same = (p * q + (len(one) - p) * (len(other) - q)).mean()
        if a != b:
            return float(same) / (len(one) * len(other))
        runs = len(one)  # without the pairs of a run with itself
        return float(same - runs) / (runs * (runs - 1)) if runs > 1 else float("nan")

    def disagreement(self, most: int) -> list[tuple[int, dict[str, float]]]:
        """The test images on which the `comparable` variants differ most: (index, variant -> share of its runs that hit).

        The largest differences first, at most `most`; of equal ones, those with the largest standard deviation over the
        variants. Images without a difference are left out.
        """
        shares = np.stack([self.hits[variant].hits.mean(axis=0) for variant in self.comparable])
        spread = np.ptp(shares, axis=0)
        order = np.lexsort((-shares.std(axis=0).round(12), -spread))[:most]
        return [
            (int(image), dict(zip(self.comparable, shares[:, image].tolist()))) for image in order if spread[image] > 0
        ]


def image_results(study: RunsTable, policy: Policy) -> ImageResults | None:
    """Compute the statistics of the test images; None where no record holds test predictions.

    `policy` says which seeds the differences use.
    """
    stacked = by_variant(study.of("finished"), study.hits)
    hits = {variant: stacked[variant] for variant in study.variants if variant in stacked}
    if not hits:
        return None
    floor = smallest_sd(study.of("finished"), Metric("test/acc"))
    means = {variant: stats.over_images(own.hits, floor=floor) for variant, own in hits.items()}
    baseline = hits.get(study.baseline)
    versus = {}
    for variant, own in hits.items():
        if baseline is not None and variant != study.baseline and own.images == baseline.images:
            differences = _paired(own, baseline, policy)
            if len(differences):
                versus[variant] = stats.over_images(differences, policy.confidence, math.sqrt(2) * floor)
    return ImageResults(hits, means, versus)


def _paired(a: VariantHits, b: VariantHits, policy: Policy) -> np.ndarray:
    """a - b on the seeds that both have and that may be tested: [seeds, images], -1, 0 or 1"""
    common = [seed for seed in sorted(set(a.seeds) & set(b.seeds)) if policy.may_test(seed)]
    rows_a, rows_b = ([own.seeds.index(seed) for seed in common] for own in (a, b))
    return a.hits[rows_a].astype(np.int8) - b.hits[rows_b].astype(np.int8)
