"""The section "Test images": noise of the test set, accuracy by class, and images of disagreement."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analysis import formatting
from analysis.answers.answer import Answer, Page
from analysis.answers.columns import variant_table
from analysis.answers.images.compute import ImageResults
from analysis.figures.inspect import load_pictures
from analysis.figures.labels import Styles
from analysis.figures.model_figures import disagreement_figure, examples_figure
from analysis.figures.style import Plot
from analysis.results.variants import Variants
from analysis.sources.runs_table import RunsTable
from analysis.stats import remaining_share, seed_ratios
from analysis.write.document import Section, present
from analysis.write.table import Column, Table
from analysis.write.text import text
from experiments.errors import UserError

if TYPE_CHECKING:
    from analysis.answers.study_results import StudyResults

MOST_EXAMPLES = 12  # classes of which an image is shown
MOST_CLASSES = 20  # in the table of classes


def images_section(images: ImageResults, variants: Variants, study: RunsTable | None, styles: Styles) -> Section:
    """Return the section; with `study`, it shows images, or why it cannot."""
    share = remaining_share(seed_ratios(runs.hits for runs in images.hits.values()))
    spread = [text("images", "remaining", share=share, variants=len(images.hits))] if math.isfinite(share) else []
    tables = classes_table(images, variants), disagreement_table(images)
    section = Section("images", "Test images", present(*tables), spread)
    if study is not None:
        try:
            section.items.extend(_plots(images, study, styles))
        except (UserError, KeyError) as error:
            reason = f"the record lacks {error}" if isinstance(error, KeyError) else str(error)
            section.paragraphs.append(text("images", "unreadable", reason=reason))
    return section


def _plots(images: ImageResults, study: RunsTable, styles: Styles) -> list[Plot]:
    """The images on which variants differ most, and one of each class, from the dataset.

    Raises `UserError` or `KeyError` where that is missing.
    """
    shown, finished = images.disagreements(), study.of("finished")
    run = finished[finished["variant"] == images.comparable[0]].iloc[0]
    settings = {str(path): value for path, value in run.items() if path == "seed" or "." in str(path)}
    examples = np.unique(images.labels, return_index=True)[1][:MOST_EXAMPLES].tolist()
    pictures, classes = load_pictures(settings, [*(image.image for image in shown), *examples], images.labels)
    caption = text("images", "figure", some=not set(images.comparable) <= set(styles.coloured))
    differing = [Plot("disagreement", disagreement_figure(shown, pictures, classes, styles), caption)] if shown else []
    of_classes = examples_figure(pictures[len(shown) :], classes[len(shown) :])
    return [*differing, Plot("examples", of_classes, text("images", "examples"))]


def classes_table(images: ImageResults, variants: Variants) -> Table | None:
    """Return the test accuracy of each variant by class; None with one class or too many."""
    if not 1 < len(images.classes) <= MOST_CLASSES:
        return None
    names = [f"class {name}" if name.isdecimal() else name for name in images.classes]
    columns = [Column(name, f"class_{number}", formatting.numbers(1, 100)) for number, name in enumerate(names)]
    fields = [column.field for column in columns]
    rows = {variant: dict(zip(fields, images.by_class(variant))) for variant in images.comparable}
    return variant_table("classes", text("images", "classes"), variants, rows, columns)


def disagreement_table(images: ImageResults) -> Table | None:
    """Return the test images on which the variants differ most; None where they do not differ."""
    names, rows = images.classes, list[dict[str, object]]()
    for image in images.disagreements():
        rows.append({"image": image.image, "class": names[image.label]})
        share = image.shares.__getitem__  # of several variants with one share, the first
        for end, v in {"highest": max(image.shares, key=share), "lowest": min(image.shares, key=share)}.items():
            rows[-1] |= {end: v, f"{end}_share": share(v), f"_{end}": f"{v}: {100 * share(v):.0f} %"}
    columns = (
        Column("test image", "image", formatting.digits, note=text("images", "image_note")),
        Column("class", "class"),
        Column("highest", "_highest"),
        Column("lowest", "_lowest"),
    )
    return Table("disagreement", text("images", "disagreement"), pd.DataFrame(rows), columns) if rows else None


def answer(results: StudyResults, page: Page) -> Answer:
    """What the predictions for single test images show; nothing where no record holds them."""
    if (images := results.images) is None:
        return Answer()
    shown = results.study if page.inside else None
    return Answer(lambda: [images_section(images, results.variants, shown, page.styles)])
