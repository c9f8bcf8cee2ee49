"""The section "Test images": intervals for new images, accuracy by class, agreement, and images of disagreement."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pandas as pd

from analysis.figures.disagreement import disagreement_figure
from analysis.figures.inspect import load_pictures
from analysis.figures.labels import Styles
from analysis.figures.style import Plot
from analysis.report import formats
from analysis.report.document import Section, present
from analysis.report.table import Column, Format, Table, estimate_fields
from analysis.report.text import text
from analysis.report.variant_columns import (
    baseline_name,
    count_column,
    mean_column,
    signed_column,
    variant_columns,
    variant_fields,
)
from analysis.results.images import METRIC, ImageResults
from analysis.results.policy import Policy
from analysis.results.variants import Variants
from analysis.sources.runs_table import RunsTable
from analysis.sources.settings import cell_value
from analysis.stats import Estimate
from experiments.errors import UserError

MOST_CLASSES = 20  # columns of a table by class
MOST_VARIANTS = 20  # columns of the table of agreement
UNKNOWN = Estimate(math.nan, math.nan, math.nan, 0)


def images_section(
    images: ImageResults, variants: Variants, policy: Policy, study: RunsTable | None, styles: Styles
) -> Section:
    """Return the section; with `study`, it shows the images on which variants differ most, or why it cannot."""
    tables = present(
        images_table(images, variants, policy),
        classes_table(images, variants),
        agreement_table(images, variants),
        disagreement_table(images),
    )
    if study is None or not images.disagreements():
        return Section("images", "Test images", tables)
    try:
        return Section("images", "Test images", [*tables, disagreement_plot(images, study, styles)])
    except (UserError, KeyError) as error:
        reason = f"the record lacks {error}" if isinstance(error, KeyError) else str(error)
        return Section("images", "Test images", tables, [text("images", "unreadable", reason=reason)])


def disagreement_plot(images: ImageResults, study: RunsTable, styles: Styles) -> Plot:
    """Return the figure of the images on which variants differ most. It loads the dataset, which imports torch.

    Raises `UserError` or `KeyError` where it cannot be loaded.
    """
    shown, finished = images.disagreements(), study.of("finished")
    run = finished[finished["variant"] == images.comparable[0]].iloc[0]
    settings = {str(path): cell_value(value) for path, value in run.items() if path == "seed" or "." in str(path)}
    pictures = load_pictures(settings, [image.image for image in shown], images.labels, study.folder)
    caption = text("images", "figure", some=not set(images.comparable) <= set(styles.coloured))
    alt = f"{caption} {text('images', 'alt', images=shown, classes=pictures.classes)}"
    return Plot("disagreement", disagreement_figure(shown, pictures, styles), caption, alt)


def images_table(images: ImageResults, variants: Variants, policy: Policy) -> Table:
    """Return the intervals for new seeds, and for new seeds and new test images."""
    rows = []
    for variant, mean in images.means.items():
        versus = images.versus.get(variant)
        rows.append(
            {
                **variant_fields(variants, variant),
                "n": len(images.hits[variant].seeds),
                "images": mean.images,
                **estimate_fields("seeds", mean.seeds),
                **estimate_fields("both", mean.both),
                **estimate_fields("diff_seeds", versus.seeds if versus else UNKNOWN),
                **estimate_fields("diff_both", versus.both if versus else UNKNOWN),
                "_alone": versus is None,
            }
        )
    difference = f"difference from {baseline_name(variants)}"
    columns = (
        *variant_columns(variants),
        count_column(note=text("images", "n_note")),
        Column("test images", formats.count("images"), sort="images"),
        mean_column(METRIC, "seeds", "new seeds: ", detail=True),
        mean_column(METRIC, "both", "new seeds and images: "),
        replace(signed_column(METRIC, f"new seeds: {difference}", "diff_seeds", blank="_alone"), detail=True),
        signed_column(METRIC, f"new seeds and images: {difference}", "diff_both", blank="_alone"),
    )
    notes = (text("images", "notes", policy=policy),)
    return Table("images", text("images", "caption"), _frame(rows), columns, notes)


def classes_table(images: ImageResults, variants: Variants) -> Table | None:
    """Return the test accuracy of each variant by class; None with too many classes."""
    labels = {f"class_{number}": f"class {number}" for number in range(int(images.labels.max()) + 1)}
    if len(labels) > MOST_CLASSES:
        return None
    values = {variant: images.by_class(variant) for variant in images.comparable}
    return _percentages("classes", text("images", "classes", unit=METRIC.unit), variants, labels, values)


def agreement_table(images: ImageResults, variants: Variants) -> Table | None:
    """Return how often runs of two variants are both right or both wrong; None with one variant or too many."""
    names = images.comparable
    if not 1 < len(names) <= MOST_VARIANTS:
        return None
    labels = {f"agreement: {variant}": variants.brief[variant] for variant in names}
    values = {a: [images.agreement(a, b) for b in names] for a in names}
    table = _percentages("agreement", text("images", "agreement"), variants, labels, values)
    return replace(table, notes=(text("images", "agreement_notes"),))


def _percentages(
    name: str, caption: str, variants: Variants, labels: Mapping[str, str], values: Mapping[str, Iterable[float]]
) -> Table:
    """A table of shares; `labels`: field -> label of a column; `values`: variant -> its shares."""
    rows = [{**variant_fields(variants, variant), **dict(zip(labels, shares))} for variant, shares in values.items()]
    columns = (Column(label, formats.number(field, 1, 100), sort=field) for field, label in labels.items())
    return Table(name, caption, _frame(rows), (*variant_columns(variants), *columns))


def disagreement_table(images: ImageResults) -> Table | None:
    """Return the test images on which the variants differ most; None where they do not differ."""
    rows = [
        {
            "image": each.image,
            "class": each.label,
            "highest": each.highest,
            "highest_share": each.shares[each.highest],
            "lowest": each.lowest,
            "lowest_share": each.shares[each.lowest],
        }
        for each in images.disagreements()
    ]
    if not rows:
        return None
    columns = (
        Column("test image", formats.text("image"), sort="image", note=text("images", "image_note")),
        Column("class", formats.text("class"), sort="class"),
        *(Column(end, _share(end), numeric=False) for end in ("highest", "lowest")),
    )
    notes = (text("images", "disagreement_notes"),)
    return Table("disagreement", text("images", "disagreement"), _frame(rows), columns, notes)


def _frame(rows: list[dict]) -> pd.DataFrame:
    return pd.DataFrame(rows, dtype=object)


def _share(end: str) -> Format:
    return formats.rows(lambda row: f"{row[end]}: {100 * row[f'{end}_share']:.0f} %")
