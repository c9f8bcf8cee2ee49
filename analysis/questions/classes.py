"""On which classes of test images are the variants right?"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from analysis import words
from analysis.findings import Findings
from analysis.findings.columns import variant_table
from analysis.runs.hits import VariantHits, by_variant
from analysis.runs.runs import Runs
from analysis.write.document import Section
from analysis.write.table import Column

MOST_CLASSES = 20  # in the table of classes


def question(findings: Findings) -> Section | None:
    """The test accuracy by class; nothing where no record holds predictions, and with one class or too many."""
    images = study_images(findings.study)
    if images is None or not 1 < len(images.classes) <= MOST_CLASSES:
        return None
    names = [f"class {name}" if name.isdecimal() else name for name in images.classes]
    columns = [Column(name, f"class_{number}", words.numbers(1, 100)) for number, name in enumerate(names)]
    fields = [column.field for column in columns]
    rows = {variant: dict(zip(fields, images.by_class(variant))) for variant in images.comparable}
    caption = "Test accuracy by class, %, mean over the seeds."
    return Section("classes", "Test images", [variant_table("classes", caption, findings.variants, rows, columns)])


@dataclass(frozen=True)
class StudyImages:
    """The test predictions of each variant. `hits`: variant -> those of its finished runs; at least one variant."""

    hits: dict[str, VariantHits]

    @cached_property
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

    @cached_property
    def shares(self) -> dict[str, np.ndarray]:
        """Comparable variant -> the share of its runs that classify each image correctly, (images,)."""
        return {variant: self.hits[variant].hits.mean(axis=0) for variant in self.comparable}

    def by_class(self, variant: str) -> np.ndarray:
        """The variant's test accuracy for each class (classes,), over its seeds; NaN for a class without images."""
        labels = self.hits[variant].labels
        sums, counts = (np.bincount(labels, w, len(self.classes)) for w in (self.shares[variant], None))
        return np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)


def study_images(study: Runs) -> StudyImages | None:
    """The test images of a study; None where no record holds test predictions."""
    stacked = by_variant(study.of("finished"), study.hits)
    hits = {variant: stacked[variant] for variant in study.variants if variant in stacked}
    return StudyImages(hits) if hits else None
