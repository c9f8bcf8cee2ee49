"""On which classes of test images are the variants right?"""

from analysis import words
from analysis.columns import variant_table
from analysis.findings import Findings
from analysis.runs.images import study_images
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
