"""Tables about the test images: intervals for new images, accuracy by class, agreement, and images of disagreement."""

from __future__ import annotations

from dataclasses import replace

from analysis import formatting
from analysis.figures.labels import brief_names
from analysis.report.render import Cell, Column, Table
from analysis.report.tables.cells import (
    baseline_name,
    count_cell,
    estimate_cell,
    estimate_column,
    interval_cell,
    number_cell,
    points,
    variant_cells,
    variant_columns,
)
from analysis.results.images import MOST_IMAGES
from analysis.results.study_results import StudyResults
from analysis.stats import Estimate
from experiments.metric import Metric

METRIC = Metric("test/acc")
MOST_CLASSES = 20  # columns of a table by class
MOST_VARIANTS = 20  # columns of the table of agreement


def images_table(results: StudyResults) -> Table | None:
    """Return the intervals for new seeds, and for new seeds and new test images; None without test predictions."""
    images = results.images
    if images is None:
        return None
    base = f"difference from {baseline_name(results)}{points(METRIC)}"
    columns = (
        *variant_columns(results),
        Column("n", ("n",), help="finished runs with test predictions"),
        Column("test images", ("images",)),
        replace(estimate_column(METRIC, "seeds", "new seeds: "), detail=True),
        estimate_column(METRIC, "both", "new seeds and images: "),
        Column(f"new seeds: {base}", ("diff_seeds", "diff_seeds_low", "diff_seeds_high"), detail=True),
        Column(f"new seeds and images: {base}", ("diff_both", "diff_both_low", "diff_both_high")),
    )
    rows = []
    for variant, mean in images.means.items():
        versus = images.versus.get(variant)
        rows.append(
            (
                *variant_cells(results, variant),
                count_cell(len(images.hits[variant].seeds)),
                count_cell(mean.images),
                estimate_cell(mean.seeds, METRIC),
                estimate_cell(mean.both, METRIC),
                _difference(versus.seeds if versus else None),
                _difference(versus.both if versus else None),
            )
        )
    caption = (
        "Test accuracy: mean ± half-width of the 95 % interval for new seeds on the same test images, and for new seeds "
        "and new test images."
    )
    note = (
        "“New seeds and images”: use this interval for a statement about new test images. All verdicts and p-values of this "
        "report are about new seeds, not about new images."
    )
    if results.policy.plan:
        note += " Intervals of differences have the level of the planned look."
    return Table("images", caption, columns, tuple(rows), (note,))


def classes_table(results: StudyResults) -> Table | None:
    """Return the test accuracy of each variant by class; None without test predictions or with too many classes."""
    images = results.images
    if images is None:
        return None
    variants = images.comparable
    classes = range(int(images.hits[variants[0]].labels.max()) + 1)
    if len(classes) > MOST_CLASSES:
        return None
    columns = (*variant_columns(results), *(Column(f"class {number}", (f"class_{number}",)) for number in classes))
    rows = tuple(
        (
            *variant_cells(results, variant),
            *(number_cell(float(value), METRIC.scale, 1) for value in images.by_class(variant)),
        )
        for variant in variants
    )
    return Table("classes", f"Test accuracy by class{METRIC.unit}, mean over the seeds.", columns, rows)


def agreement_table(results: StudyResults) -> Table | None:
    """Return how often runs of two variants are both right or both wrong; None with one variant or too many."""
    images = results.images
    if images is None or not 1 < len(images.comparable) <= MOST_VARIANTS:
        return None
    variants, brief = images.comparable, brief_names(results)
    columns = (*variant_columns(results), *(Column(brief[variant], (f"agreement: {variant}",)) for variant in variants))
    rows = tuple(
        (
            *variant_cells(results, variant),
            *(number_cell(images.agreement(variant, other), 100, 1) for other in variants),
        )
        for variant in variants
    )
    caption = "Agreement: percentage of test images that two runs both classify correctly or both classify incorrectly."
    return Table("agreement", caption, columns, rows, ("Mean over all pairs of runs. Diagonal: runs of one variant.",))


def disagreement_table(results: StudyResults) -> Table | None:
    """Return the test images on which the variants differ most; None where they do not differ."""
    found = results.images.disagreement(MOST_IMAGES) if results.images is not None else []
    if results.images is None or not found:
        return None
    variants = results.images.comparable
    labels = results.images.hits[variants[0]].labels
    columns = (
        Column("test image", ("image",), help="index in the test set, from 0"),
        Column("class", ("class",)),
        Column("highest", ("highest", "highest_share"), numeric=False),
        Column("lowest", ("lowest", "lowest_share"), numeric=False),
    )
    rows = []
    for image, shares in found:
        highest, lowest = max(shares, key=shares.__getitem__), min(shares, key=shares.__getitem__)
        ends = (_share(highest, shares[highest]), _share(lowest, shares[lowest]))
        rows.append((count_cell(image), count_cell(int(labels[image])), *ends))
    caption = "Test images on which the variants differ most: the largest differences between two variants."
    note = (
        "Highest, lowest: the variants with the highest and the lowest percentage of runs that classify the image correctly. "
        "If several variants are equal, only the first is named. Of images with equal differences, those with the largest "
        "standard deviation over the variants are listed."
    )
    return Table("disagreement", caption, columns, tuple(rows), (note,))


def _share(variant: str, share: float) -> Cell:
    return Cell(f"{variant}: {formatting.number(100 * share, 0)} %", (variant, share))


def _difference(estimate: Estimate | None) -> Cell:
    if estimate is None:
        return Cell("", (None, None, None))
    return interval_cell(estimate, METRIC, signed=True)
