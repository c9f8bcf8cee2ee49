"""Test images: accuracy by class, and the images on which variants differ most."""

from dataclasses import dataclass

import numpy as np

from analysis.sources.hits import VariantHits, by_variant
from analysis.sources.runs_table import RunsTable

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
    """The test predictions of each variant."""

    hits: dict[str, VariantHits]
    """variant -> the hits of its finished runs; at least one variant"""

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


def image_results(study: RunsTable) -> ImageResults | None:
    """The test predictions of a study; None where no record holds any."""
    stacked = by_variant(study.of("finished"), study.hits)
    hits = {variant: stacked[variant] for variant in study.variants if variant in stacked}
    return ImageResults(hits) if hits else None
